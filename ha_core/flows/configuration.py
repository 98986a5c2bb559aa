"""Reads flows from the keys of a file: precedence, defaults and checks that need no cluster.

`A->B.key` wins over `key`; a key that neither form sets has Kafka's default. Keys of a cluster (`A.ssl.…`) configure
connections to it, and win over the same key without an alias. A file with an error gives no flow at all; one exception
lists all its errors.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from ha_core.flows.errors import FlowError
from ha_core.flows.filters import NameFilter, Patterns, parts
from ha_core.flows.keys import (
    BEGINS_AT_GROUP,
    CLIENT_PREFIXES,
    FLOW_KEYS,
    RENAMED,
    FlowKey,
    KeyUse,
)
from ha_core.flows.policies import BY_CLASS, ReplicationPolicy
from ha_core.flows.properties import Property
from ha_core.flows.remarks import Remark, remarks, short
from ha_core.flows.remote_topics import SettingsRule
from ha_core.flows.starts import BeginsAt
from ha_core.flows.topology import FlowRoute, check_cycles
from ha_core.model.isolation import Isolation

MAX_CLUSTERS = 100
_MAX_TOLD = 100
"""Errors in the text of one error."""
_LEGAL = re.compile(r"[A-Za-z0-9._-]+")
"""Texts that can be parts of topics' names."""
_KEEPS_NAMES = (
    "where topics are to keep their names, write replication.policy.class = "
    "org.apache.kafka.connect.mirror.IdentityReplicationPolicy"
)
_FLAGS = {"true": True, "false": False}
_RESETS: Mapping[str, BeginsAt] = {"earliest": "earliest", "latest": "latest"}
_ISOLATIONS = {"read_committed": Isolation.COMMITTED, "read_uncommitted": Isolation.UNCOMMITTED}
T = TypeVar("T")
Settings = Mapping[str, str]


@dataclass(frozen=True)
class ClusterConfig:
    """:ivar client: keys of Kafka clients of this cluster (`bootstrap.servers`, `security.protocol`, …), unchecked."""

    alias: str
    client: Settings = field(repr=False)

    @property
    def bootstrap(self) -> tuple[str, ...]:
        return parts(self.client.get("bootstrap.servers", ""))


@dataclass(frozen=True, kw_only=True)
class FlowConfig:
    """A flow. Intervals are seconds; None: the work is disabled.

    :ivar begins_at: where partitions begin that the flow finds at its first look.
    :ivar begins_at_group: group of the source whose committed offsets win over that; "": none.
    """

    source: str
    target: str
    policy: ReplicationPolicy
    topics: NameFilter
    groups: NameFilter
    settings: SettingsRule
    replication_factor: int
    refresh_topics_s: int | None
    sync_settings_s: int | None
    sync_acls_s: int | None
    refresh_groups_s: int | None
    checkpoints_s: int | None
    commit_offsets_s: int | None
    heartbeats_s: int | None
    copies_heartbeats: bool
    emits_syncs: bool
    syncs_in: Literal["source", "target"]
    max_lag: int
    heartbeats_replication_factor: int
    checkpoints_replication_factor: int
    syncs_replication_factor: int
    begins_at: BeginsAt
    begins_at_group: str
    isolation: Isolation
    metric_formats: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.source}->{self.target}"

    @property
    def route(self) -> FlowRoute:
        return FlowRoute(self.source, self.target, self.policy, self.topics, self.copies_heartbeats)

    @property
    def syncs_topic(self) -> str:
        """Topic of the offset syncs. In the source it is named after the target; in the target, after the source
        (KIP-716)."""
        return self.policy.offset_syncs_topic(self.target if self.syncs_in == "source" else self.source)


@dataclass(frozen=True)
class Configuration:
    """
    :ivar name: the file's name.
    :ivar flows: enabled flows.
    :ivar heartbeats_only: disabled flows that still emit heartbeats, as in MirrorMaker 2: they show clients which
        clusters can be reached.
    """

    name: str
    clusters: tuple[ClusterConfig, ...]
    flows: tuple[FlowConfig, ...]
    heartbeats_only: tuple[FlowConfig, ...]
    remarks: tuple[Remark, ...]


class ConfigurationError(FlowError):
    """:ivar remarks: all errors in the file."""

    def __init__(self, name: str, remarks: tuple[Remark, ...]) -> None:
        self.remarks = remarks
        lines = [f"- {remark.place}{remark.text}" for remark in remarks[:_MAX_TOLD]]
        if more := len(remarks) - len(lines):
            lines.append(f"- and {more:,} more errors")
        super().__init__("\n".join((f"{name} cannot be used:", *lines)))


def configuration(
    properties: Mapping[str, Property],
    name: str,
    policies: Mapping[str, type[ReplicationPolicy]] | None = None,
    like_3_9: bool = False,
) -> Configuration:
    """Read the flows of a file.

    :param properties: keys of the file, with all references resolved.
    :param name: the file's name, for errors.
    :param policies: `replication.policy.class` → an operator's own policy.
    :param like_3_9: use Kafka 3.9's defaults where they differ from 4.3's.
    :raises ConfigurationError: the file has errors.
    """
    return _File(properties, name, policies or {}, like_3_9).read()


class _File:
    def __init__(
        self,
        properties: Mapping[str, Property],
        name: str,
        policies: Mapping[str, type[ReplicationPolicy]],
        like_3_9: bool,
    ) -> None:
        self._properties, self._name, self._policies, self.like_3_9 = properties, name, policies, like_3_9
        self._remarks: list[Remark] = []
        listed = properties.get("clusters")
        self._aliases = tuple(dict.fromkeys(parts(listed.value))) if listed else ()

    def read(self) -> Configuration:
        if not self._aliases:
            self._error(0, "`clusters` names no cluster; set it as in: clusters = primary, backup")
        elif len(self._aliases) > MAX_CLUSTERS:
            self._error(0, f"`clusters` names {len(self._aliases)} clusters; at most {MAX_CLUSTERS} are possible")
            raise ConfigurationError(self._name, tuple(self._remarks))
        else:
            self._remarks += remarks(self._properties, self._aliases)
        for alias in self._aliases:
            if not _LEGAL.fullmatch(alias):
                self._error(
                    self._properties["clusters"].line,
                    f"`clusters` names {alias!r}: an alias is a part of topics' names, so it has letters, digits, '.', "
                    "'_' and '-' only",
                )
        clusters = tuple(self._cluster(alias) for alias in self._aliases)
        flows: list[FlowConfig] = []
        heartbeats_only: list[FlowConfig] = []
        pairs = [(source, target) for source in self._aliases for target in self._aliases if source != target]
        for source, target in pairs:
            flow = _Flow(self, source, target)
            if flow.flag("enabled"):
                self._collect(flow, flows)
            elif flow.flag("emit.heartbeats.enabled"):
                self._collect(flow, heartbeats_only)
        self._self_flows()
        try:
            check_cycles(flow.route for flow in flows)
        except FlowError as error:
            self._error(0, str(error))
        if not flows and not any(remark.error for remark in self._remarks):
            self._remarks.append(Remark(0, "no flow is enabled: add a line such as primary->backup.enabled = true"))
        errors = tuple(dict.fromkeys(remark for remark in self._remarks if remark.error))
        if errors:
            raise ConfigurationError(self._name, errors)
        return Configuration(
            self._name, clusters, tuple(flows), tuple(heartbeats_only), tuple(dict.fromkeys(self._remarks))
        )

    def get(self, key: str, prefix: str = "") -> Property | None:
        """The key with this prefix, under its current name or its earlier one; None: the file does not have it."""
        names = (key, *(old for old, new in RENAMED.items() if new == key))
        return next((self._properties[prefix + name] for name in names if prefix + name in self._properties), None)

    def default(self, key: FlowKey) -> Property:
        """The key's default, as a property without a line."""
        value = key.default
        if key.default_here is not None:
            value = key.default_here
        elif self.like_3_9 and key.earlier_default is not None:
            value = key.earlier_default
        return Property(value, 0)

    def policy_class(self, name: str) -> type[ReplicationPolicy] | None:
        return self._policies.get(name)

    def error(self, line: int, text: str) -> None:
        self._error(line, text)

    def remark(self, line: int, text: str) -> None:
        self._remarks.append(Remark(line, text))

    def _error(self, line: int, text: str) -> None:
        self._remarks.append(Remark(line, text, error=True))

    @staticmethod
    def _collect(flow: "_Flow", into: list[FlowConfig]) -> None:
        if (read := flow.read()) is not None:
            into.append(read)

    def _cluster(self, alias: str) -> ClusterConfig:
        client = {key: found.value for key, found in self._properties.items() if key.startswith(CLIENT_PREFIXES)}
        own = {
            key.removeprefix(f"{alias}."): found.value
            for key, found in self._properties.items()
            if key.startswith(f"{alias}.")
        }
        cluster = ClusterConfig(alias, {**client, **own})
        if not cluster.bootstrap:
            self._error(0, f"{alias}.bootstrap.servers is not set; set it as in: {alias}.bootstrap.servers = host:9092")
        return cluster

    def _self_flows(self) -> None:
        for alias in self._aliases:
            found = self._properties.get(f"{alias}->{alias}.enabled")
            if found is not None and found.value.lower() == "true":
                self._error(found.line, f"{alias}->{alias} has one cluster on both sides; remove it")


class _Flow:
    """Reads the keys of one flow."""

    def __init__(self, file: _File, source: str, target: str) -> None:
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
        topics, groups = self._filter("topics"), self._filter("groups")
        if policy is None:
            return None
        return FlowConfig(
            source=self.source,
            target=self.target,
            policy=policy,
            topics=topics,
            groups=groups,
            settings=SettingsRule(
                self._patterns("config.properties.exclude"), "source" if defaults_from == "source" else "target"
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
        if not _LEGAL.fullmatch(separator.value):
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

    def _filter(self, name: str) -> NameFilter:
        lists = []
        for key in (name, f"{name}.exclude"):
            found = self.get(key)
            if not found.value and key == name and found.line:
                self._file.remark(found.line, f"{key} of {self.source}->{self.target} is blank and matches nothing")
            lists.append(self._patterns(key))
        return NameFilter(*lists)

    def _patterns(self, name: str) -> Patterns:
        found = self.get(name)
        try:
            return Patterns.of(name, parts(found.value))
        except FlowError as error:
            self._file.error(found.line, str(error))
            return Patterns((), None)

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
