"""Reads flows from the keys of a file: precedence, defaults and checks that need no cluster.

`A->B.key` wins over `key`; a key that neither form sets has Kafka's default. Keys of a cluster (`A.ssl.…`) configure
connections to it, and win over the same key without an alias. A file with an error gives no flow at all; one exception
lists all its errors.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ha_core.flows.errors import FlowError
from ha_core.flows.filters import parts
from ha_core.flows.flow_config import FlowConfig
from ha_core.flows.flow_reader import LEGAL, FlowReader
from ha_core.flows.keys import CLIENT_PREFIXES, RENAMED, FlowKey
from ha_core.flows.own_filters import FilterClass
from ha_core.flows.policies import ReplicationPolicy
from ha_core.flows.properties import Property
from ha_core.flows.remarks import Remark, remarks
from ha_core.flows.topology import check_cycles

MAX_CLUSTERS = 100
_MAX_TOLD = 100
"""Errors in the text of one error."""
Settings = Mapping[str, str]


@dataclass(frozen=True)
class ClusterConfig:
    """:ivar client: keys of Kafka clients of this cluster (`bootstrap.servers`, `security.protocol`, …), unchecked."""

    alias: str
    client: Settings = field(repr=False)

    @property
    def bootstrap(self) -> tuple[str, ...]:
        return parts(self.client.get("bootstrap.servers", ""))


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
    filters: Mapping[str, type[FilterClass]] | None = None,
) -> Configuration:
    """Read the flows of a file.

    :param properties: keys of the file, with all references resolved.
    :param name: the file's name, for errors.
    :param policies: `replication.policy.class` → an operator's own policy.
    :param like_3_9: use Kafka 3.9's defaults where they differ from 4.3's.
    :param filters: `topic.filter.class`, … → an operator's own filter.
    :raises ConfigurationError: the file has errors.
    """
    return _File(properties, name, policies or {}, like_3_9, filters or {}).read()


class _File:
    def __init__(
        self,
        properties: Mapping[str, Property],
        name: str,
        policies: Mapping[str, type[ReplicationPolicy]],
        like_3_9: bool,
        filters: Mapping[str, type[FilterClass]],
    ) -> None:
        self._properties, self._name, self._policies, self.like_3_9 = properties, name, policies, like_3_9
        self._filters = filters
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
            if not LEGAL.fullmatch(alias):
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
            flow = FlowReader(self, source, target)
            if flow.flag("enabled"):
                self._collect(flow, flows)
            elif flow.flag("emit.heartbeats.enabled"):
                self._collect(flow, heartbeats_only)
        self._self_flows()
        self._policies_of(flows)
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

    def filter_class(self, name: str) -> type[FilterClass] | None:
        return self._filters.get(name)

    def beginning_with(self, prefix: str, words: tuple[str, ...]) -> Mapping[str, str]:
        """Keys with this prefix whose rest begins with one of the words, without the prefix, and their values."""
        rests = {key.removeprefix(prefix): found for key, found in self._properties.items() if key.startswith(prefix)}
        return {rest: found.value for rest, found in rests.items() if rest.startswith(words)}

    def error(self, line: int, text: str) -> None:
        self._error(line, text)

    def remark(self, line: int, text: str) -> None:
        self._remarks.append(Remark(line, text))

    def _error(self, line: int, text: str) -> None:
        self._remarks.append(Remark(line, text, error=True))

    @staticmethod
    def _collect(flow: FlowReader, into: list[FlowConfig]) -> None:
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

    def _policies_of(self, flows: Sequence[FlowConfig]) -> None:
        """A remark if flows name their copies in different ways."""
        names = [flow.policy.format_remote_topic("A", "t") for flow in flows]
        for flow, name in zip(flows, names, strict=True):
            if name != names[0]:
                self._remarks.append(
                    Remark(
                        0,
                        "flows have different replication policies: a topic t of a cluster A would be "
                        f"{names[0]} after {flows[0].name}, and {name} after {flow.name}. Clients and "
                        "chains of flows read from a name where a topic came from, so one policy in all "
                        "files of an organisation serves them best",
                    )
                )
                return

    def _self_flows(self) -> None:
        for alias in self._aliases:
            found = self._properties.get(f"{alias}->{alias}.enabled")
            if found is not None and found.value.lower() == "true":
                self._error(found.line, f"{alias}->{alias} has one cluster on both sides; remove it")
