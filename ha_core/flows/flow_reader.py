"""Reads the keys of one flow."""

import re
from collections.abc import Mapping
from typing import Protocol, TypeVar

from ha_core.flows.errors import FlowError
from ha_core.flows.filters import NameFilter, Patterns, parts
from ha_core.flows.flow_config import FlowConfig
from ha_core.flows.keys import BEGINS_AT_GROUP, FLOW_KEYS, OWN_FILTERS, FlowKey, KeyUse
from ha_core.flows.own_filters import FilterClass, OwnFilter
from ha_core.flows.policies import BY_CLASS, ReplicationPolicy
from ha_core.flows.properties import Property
from ha_core.flows.remarks import short
from ha_core.flows.remote_topics import SettingsRule
from ha_core.flows.starts import BeginsAt
from ha_core.model.isolation import Isolation

LEGAL = re.compile(r"[A-Za-z0-9._-]+")
"""Texts that can be parts of topics' names."""
_KEEPS_NAMES = (
    "where topics are to keep their names, write replication.policy.class = "
    "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
)
_FLAGS = {"true": True, "false": False}
_RESETS: Mapping[str, BeginsAt] = {"earliest": "earliest", "latest": "latest"}
_ISOLATIONS = {"read_committed": Isolation.COMMITTED, "read_uncommitted": Isolation.UNCOMMITTED}
T = TypeVar("T")


class FileKeys(Protocol):
    """The file that has the flow.

    :ivar like_3_9: whether Kafka 3.9's defaults count where they differ from 4.3's.
    """

    like_3_9: bool

    def get(self, key: str, prefix: str = "") -> Property | None:
        """The key with this prefix, under its current name or its earlier one; None: the file does not have it."""

    def default(self, key: FlowKey) -> Property:
        """The key's default, as a property without a line."""

    def policy_class(self, name: str) -> type[ReplicationPolicy] | None:
        """An operator's own policy."""

    def filter_class(self, name: str) -> type[FilterClass] | None:
        """An operator's own filter."""

    def beginning_with(self, prefix: str, words: tuple[str, ...]) -> Mapping[str, str]:
        """Keys with this prefix whose rest begins with one of the words, without the prefix, and their values."""

    def error(self, line: int, text: str) -> None: ...

    def remark(self, line: int, text: str) -> None: ...


class FlowReader:
    """Reads the keys of one flow."""

    def __init__(self, file: FileKeys, source: str, target: str) -> None:
        self._file, self.source, self.target = file, source, target
        self._prefix = f"{source}->{target}."

    def get(self, name: str) -> Property:
        """The key of this flow, else that of all flows, else the default."""
        for prefix in (self._prefix, *(("",) if name != "enabled" else ())):
            found = self._file.get(name, prefix)
            if found is not None:
                return found
        return self._file.default(FLOW_KEYS[name])

    def flag(self, name: str) -> bool:
        found = self.get(name)
        value = _FLAGS.get(found.value.lower())
        if value is None:
            self._file.error(found.line, f"{self._prefix}{name}={short(found.value)} is neither true nor false")
        return bool(value)

    def read(self) -> FlowConfig | None:
        """The flow; None: it has errors, which are in the file's remarks."""
        self._refuse()
        policy = self._policy()
        emits_syncs, checkpoints_s = self.flag("emit.offset-syncs.enabled"), self._interval("emit.checkpoints")
        commits_s = self._interval("sync.group.offsets")
        if commits_s is not None and checkpoints_s is None:
            self._file.error(
                self.get("sync.group.offsets.enabled").line,
                f"{self.source}->{self.target}: sync.group.offsets.enabled needs emit.checkpoints.enabled",
            )
        defaults_from, syncs_in = self._one_of("use.defaults.from"), self._one_of("offset-syncs.topic.location")
        topics, groups = self._filter("topics", "topic.filter."), self._filter("groups", "group.filter.")
        if policy is None:
            return None
        return FlowConfig(
            source=self.source,
            target=self.target,
            policy=policy,
            topics=topics,
            groups=groups,
            settings=SettingsRule(
                self._patterns("config.properties.exclude"),
                "source" if defaults_from == "source" else "target",
                self._own_filter("config.property.filter."),
            ),
            replication_factor=self._number("replication.factor", least=-1),
            refresh_topics_s=self._interval("refresh.topics"),
            sync_settings_s=self._interval("sync.topic.configs"),
            sync_acls_s=self._interval("sync.topic.acls"),
            refresh_groups_s=self._interval("refresh.groups"),
            checkpoints_s=checkpoints_s,
            commit_offsets_s=commits_s,
            heartbeats_s=self._interval("emit.heartbeats"),
            copies_heartbeats=self.flag("heartbeats.replication.enabled"),
            emits_syncs=emits_syncs,
            syncs_in="source" if syncs_in == "source" else "target",
            max_lag=self._number("offset.lag.max", least=0),
            heartbeats_replication_factor=self._number("heartbeats.topic.replication.factor", least=-1),
            checkpoints_replication_factor=self._number("checkpoints.topic.replication.factor", least=-1),
            syncs_replication_factor=self._number("offset-syncs.topic.replication.factor", least=-1),
            begins_at=self._consumer("auto.offset.reset", _RESETS, "earliest"),
            begins_at_group=self.get(BEGINS_AT_GROUP).value,
            isolation=self._consumer("isolation.level", _ISOLATIONS, Isolation.COMMITTED),
            metric_formats=parts(self.get("metric.names.formats").value),
        )

    def _refuse(self) -> None:
        self._refuse_other_aliases()
        for name, key in FLOW_KEYS.items():
            found = self.get(name)
            if (
                key.use is KeyUse.REFUSED
                and found.line
                and found.value not in {"", key.default}
                and "ByteArrayConverter" not in found.value
            ):
                self._file.error(
                    found.line,
                    f"{name}={short(found.value)} cannot be used: {key.note}. Remove it, or keep MirrorMaker 2 here.",
                )

    def _refuse_other_aliases(self) -> None:
        """MirrorMaker 2 names remote topics by these keys, if they are set, and not by the alias in `clusters`."""
        if not self.flag("enabled"):  # heartbeats only
            return
        for key, alias in (("source.cluster.alias", self.source), ("target.cluster.alias", self.target)):
            found = self.get(key)
            if found.line and found.value != alias:
                self._file.error(
                    found.line,
                    f"{key}={short(found.value)} cannot be used for {self.source}->{self.target}: names have the alias "
                    f"that `clusters` has, {alias}. Remove it; {_KEEPS_NAMES}",
                )

    def _policy(self) -> ReplicationPolicy | None:
        java, separator = self.get("replication.policy.class"), self.get("replication.policy.separator")
        separates_internal = self.flag("replication.policy.internal.topic.separator.enabled")
        if not separator.value:
            self._file.error(
                separator.line,
                "replication.policy.separator is blank; remote topics would have no alias to see. Remove it; "
                f"{_KEEPS_NAMES}",
            )
            return None
        if not LEGAL.fullmatch(separator.value):
            self._file.error(
                separator.line,
                f"replication.policy.separator={short(separator.value)} is no part of a topic's name: give letters, "
                "digits, '.', '_' or '-'",
            )
            return None
        build = BY_CLASS.get(java.value)
        if build is not None:
            return build(separator.value, separates_internal, self._file.like_3_9, self.source)
        own = self._file.policy_class(java.value)
        if own is not None:
            return own()
        known = ", ".join(one.rpartition(".")[2] for one in BY_CLASS)
        self._file.error(
            java.line,
            f"replication.policy.class={short(java.value)} is not known: there are {known}, and policies of the entry "
            f"points `switchyard.replication_policies`; {_KEEPS_NAMES}",
        )
        return None

    def _own_filter(self, keys: str) -> OwnFilter | None:
        """:param keys: prefix of the filter's keys."""
        key = f"{keys}class"
        found = self.get(key)
        if found.value in {"", FLOW_KEYS[key].default} or not self.flag("enabled"):  # heartbeats only
            return None
        build = self._file.filter_class(found.value)
        if build is None:
            self._file.error(
                found.line,
                f"{key}={short(found.value)} is not known: Switchyard cannot run Java classes. Filters of your own are "
                "entry points of the group `switchyard.flow_filters`; or remove the key, and list names and patterns",
            )
            return None
        words = (keys, OWN_FILTERS[keys])
        given = {**self._file.beginning_with("", words), **self._file.beginning_with(self._prefix, words)}
        try:
            return OwnFilter(found.value, build, tuple(sorted(given.items())))
        except FlowError as error:
            self._file.error(found.line, str(error))
            return None

    def _filter(self, name: str, own: str) -> NameFilter:
        found = self.get(name)
        if not found.value and found.line:
            self._file.remark(found.line, f"{name} of {self.source}->{self.target} is blank and matches nothing")
        return NameFilter(self._patterns(name), self._patterns(f"{name}.exclude"), self._own_filter(own))

    def _patterns(self, name: str) -> Patterns:
        found = self.get(name)
        try:
            return Patterns.of(name, parts(found.value))
        except FlowError as error:
            self._file.error(found.line, str(error))
            return Patterns((), ())

    def _interval(self, name: str) -> int | None:
        seconds = self._number(f"{name}.interval.seconds", least=0)
        # MirrorMaker 2 disables a task whose interval is negative; with 0 it would never pause.
        return max(seconds, 1) if self.flag(f"{name}.enabled") else None

    def _number(self, name: str, least: int) -> int:
        found = self.get(name)
        try:
            value = int(found.value)
        except ValueError:
            self._file.error(found.line, f"{name}={short(found.value)} is not a whole number")
            return least
        if not least <= value < 2**31:
            self._file.error(found.line, f"{name}={short(found.value)} is not between {least} and {2**31 - 1}")
        elif not value and name.endswith("replication.factor"):
            self._file.error(found.line, f"{name}=0: give 1 or more, or -1 for the default of the target's brokers")
        return value

    def _one_of(self, name: str) -> str:
        found = self.get(name)
        if found.value not in FLOW_KEYS[name].valid:
            self._file.error(
                found.line, f"{name}={short(found.value)} is not one of {', '.join(FLOW_KEYS[name].valid)}"
            )
        return found.value

    def _consumer(self, name: str, values: Mapping[str, T], default: T) -> T:
        """The value of a key of the source's consumer; a key of this flow wins."""
        for prefix in (
            *(f"{self._prefix}source.consumer.", f"{self._prefix}consumer.", f"{self.source}.consumer."),
            *("source.consumer.", "consumer."),
        ):
            found = self._file.get(name, prefix)
            if found is None:
                continue
            if found.value not in values:
                valid = " nor ".join(values)
                self._file.error(
                    found.line, f"{self.source}->{self.target}: consumer.{name}={short(found.value)} is neither {valid}"
                )
            return values.get(found.value, default)
        return default
