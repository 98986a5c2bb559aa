"""Topics: their partitions, replication, settings and offsets; and changes of settings and of partition counts.

Describing a topic never creates it.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ha_core.kafka.brokers import Answers, Asking, Brokers, StillOurs, partitions_of
from ha_core.kafka.connection import BlockingConnection
from ha_core.kafka.errors import KafkaAdminError, TopicMissingError, refusal
from ha_core.kafka.facts import LogEnds, TopicSpec
from ha_core.kafka.offsets import check_topic, ends
from ha_core.plan.facts.clusters import DescribedSetting, ListedTopic, Replicas, TopicSetting
from ha_core.wire.codes import RETRIABLE, ApiKey, ErrorCode, name_of

_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
_OF_THE_TOPIC = 1
"""Config source of a topic's own settings."""
MIN_IN_SYNC = "min.insync.replicas"
_POLICY = "cleanup.policy"
_MAX_CONFIGS_PER_REQUEST = 1_000
_AT_ONCE_S = 1.0
_NO_ID = bytes(16)


@dataclass(frozen=True, slots=True)
class TopicDescription(TopicSpec):
    """A topic that exists. `replication` is that of its least replicated partition."""

    ends: Mapping[int, LogEnds] = field(default_factory=dict)
    internal: bool = False
    replicas: Mapping[int, Replicas] = field(default_factory=dict)
    min_in_sync: int = 1
    """`min.insync.replicas` in force: the topic's own, or its brokers' default."""
    leaderless: frozenset[int] = frozenset()
    """Partitions without a leader whose in-sync replicas are all on dead brokers: no clean election can give them a
    leader until one of these brokers is back."""


_IN_BROKERS: Mapping[str, Sequence[str]] = {
    "cleanup.policy": ("log.cleanup.policy",),
    "compression.type": ("compression.type",),
    "delete.retention.ms": ("log.cleaner.delete.retention.ms",),
    "max.compaction.lag.ms": ("log.cleaner.max.compaction.lag.ms",),
    "max.message.bytes": ("message.max.bytes",),
    "message.timestamp.after.max.ms": ("log.message.timestamp.after.max.ms",),
    "message.timestamp.before.max.ms": ("log.message.timestamp.before.max.ms",),
    "message.timestamp.difference.max.ms": ("log.message.timestamp.difference.max.ms",),
    "message.timestamp.type": ("log.message.timestamp.type",),
    "min.compaction.lag.ms": ("log.cleaner.min.compaction.lag.ms",),
    "min.insync.replicas": ("min.insync.replicas",),
    "retention.bytes": ("log.retention.bytes",),
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "segment.bytes": ("log.segment.bytes",),
    "unclean.leader.election.enable": ("unclean.leader.election.enable",),
}
"""Setting of a topic → names of the broker setting that is its default; the first one with a value counts."""
_UNITS_MS = {"minutes": 60_000, "hours": 3_600_000}
_SET, _DELETE = 0, 1
Refusals = dict[str, str]
"""topic → error of the cluster; topics without an error are missing."""


class Topics(Brokers):
    _all_topics: tuple[bytes, Mapping[str, ListedTopic]] = b"", {}
    """The last list of all topics, and the bytes of its answer."""

    def topic_defaults(self, timeout_s: float | None = None) -> dict[str, str]:
        """Brokers' defaults of the topic settings that are compared; empty if the account may not read the settings of
        brokers."""
        return defaults_of(self.asking(timeout_s))

    def broker_settings(self, keys: Sequence[str], timeout_s: float | None = None) -> dict[str, str]:
        """Settings of one broker, without those that it does not know or the account may not read."""
        asking = self.asking(timeout_s)
        asking.metadata()
        return {key: value for key, value in _broker_settings(asking, keys).items() if value is not None}

    def topics(
        self,
        names: Collection[str] | None = None,
        offsets: bool = True,
        timeout_s: float | None = None,
        settings: bool = True,
    ) -> dict[str, TopicDescription]:
        """The topics of `names` that exist (None: all); without `offsets` their `ends` are empty, without `settings`
        their settings: of 10,000 topics these are 300,000.

        `ends` lacks partitions without a leader, and those whose leader does not answer in half of the time left.
        """
        return describe(self.asking(timeout_s), names, offsets, partial=True, settings=settings)

    def list_topics(self, timeout_s: float | None = None) -> dict[str, ListedTopic]:
        """All topics that the account may see, as one broker lists them."""
        known, listed = self._all_topics
        content, answer = self.asking(timeout_s).metadata_if_new(known)
        if answer is None:
            return dict(listed)
        found = {
            topic["name"]: ListedTopic(
                len(topic["partitions"]),
                "" if topic["topic_id"] == _NO_ID else topic["topic_id"].hex(),
                name_of(topic["error_code"]) if topic["error_code"] else "",
            )
            for topic in answer["topics"]
        }
        self._all_topics = content, found
        return dict(found)

    def described_settings(
        self, names: Collection[str], timeout_s: float | None = None
    ) -> dict[str, list[DescribedSetting]]:
        """topic → its settings, with the level that sets each; topics that do not exist are missing."""
        return {
            name: [
                DescribedSetting(
                    entry["name"], entry["value"], entry["config_source"], entry["read_only"], entry["is_sensitive"]
                )
                for entry in entries
            ]
            for name, entries in _described(self.asking(timeout_s), names)
        }

    def partition_counts(self, names: Collection[str], timeout_s: float | None = None) -> dict[str, int]:
        """topic → its number of partitions, from the broker that knows most: other brokers learn of new partitions a
        little later, when clients may already write to them. Brokers that do not answer at once are skipped."""
        asking = self.asking(timeout_s)
        at_once = asking.by(asking.deadline.within(_AT_ONCE_S))
        answers = asking.on_each(asking.nodes, lambda node: at_once.metadata(names, node))
        reachable = [answer for answer in answers if not isinstance(answer, KafkaAdminError)]
        counts: dict[str, int] = {}
        for answer in reachable or [asking.metadata(names)]:
            for topic in answer["topics"]:
                counts[topic["name"]] = max(counts.get(topic["name"], 0), len(topic["partitions"]))
        return counts

    def settings(self, names: Collection[str], timeout_s: float | None = None) -> dict[str, dict[str, TopicSetting]]:
        """topic → every setting that the cluster knows, with its value there; topics that do not exist are missing."""
        asking = self.asking(timeout_s)
        defaults = defaults_of(asking) if names else {}
        return {
            name: {
                entry["name"]: TopicSetting(
                    entry["value"], entry["config_source"] == _OF_THE_TOPIC, defaults.get(entry["name"])
                )
                for entry in entries
            }
            for name, entries in _described(asking, names)
        }

    def alter_settings(
        self,
        wanted: Mapping[str, Mapping[str, str | None]],
        still_ours: StillOurs,
        timeout_s: float | None = None,
    ) -> Refusals:
        """Sets these settings of topics, or removes those with None; leaves all others alone."""
        asking = self.asking(timeout_s)
        refused: Refusals = {}
        resources = [
            {
                "resource_type": _TOPIC_RESOURCE,
                "resource_name": name,
                "configs": [
                    {"name": key, "config_operation": _DELETE if value is None else _SET, "value": value}
                    for key, value in sorted(changes.items())
                ],
            }
            for name, changes in sorted(wanted.items())
            if changes
        ]

        def message(some: Collection[Any]) -> dict[str, Any]:
            still_ours()
            return {"resources": some, "validate_only": False}

        for _, answer in asking.calls(
            None, ApiKey.INCREMENTAL_ALTER_CONFIGS, resources, _MAX_CONFIGS_PER_REQUEST, message
        ):
            refused |= {
                result["resource_name"]: result["error_message"] or name_of(result["error_code"])
                for result in answer["responses"]
                if result["error_code"]
            }
        return refused

    def grow_topics(self, counts: Mapping[str, int], still_ours: StillOurs, timeout_s: float | None = None) -> Refusals:
        """Gives each topic this number of partitions. The brokers place them.

        An error about a topic that has that many partitions by now is not reported.
        """
        asking = self.asking(timeout_s)

        def ask(node: int, names: list[str]) -> Answers[str, str]:
            def talk(connection: BlockingConnection) -> dict[str, Any]:
                still_ours()
                topics = [{"name": name, "count": counts[name], "assignments": None} for name in names]
                message = {"topics": topics, "timeout_ms": asking.deadline.left_ms, "validate_only": False}
                return connection.call(ApiKey.CREATE_PARTITIONS, message)

            for result in asking.converse(node, talk)["results"]:
                code = result["error_code"]
                if code in RETRIABLE and code != ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    again = asking.again(f"grow topic {result['name']}", code, result["error_message"])
                    assert again is not None
                    yield result["name"], again
                else:
                    yield result["name"], (result["error_message"] or name_of(code)) if code else ""

        errors = asking.rounds("grow the topics", [*counts], asking.controller, ask)
        refused = {name: why for name, why in errors.items() if why}
        topics = asking.metadata(refused)["topics"] if refused else ()
        for name in [topic["name"] for topic in topics if len(topic["partitions"]) >= counts[topic["name"]]]:
            del refused[name]
        return refused


def describe(
    asking: Asking,
    names: Collection[str] | None,
    offsets: bool = True,
    partial: bool = False,
    settings: bool = True,
) -> dict[str, TopicDescription]:
    """Like `Topics.topics`; without `partial` all leaders have to answer."""
    if names is not None and not names:
        return {}
    topics = {}
    answer = asking.metadata(names)
    for topic in answer["topics"]:
        try:
            check_topic(asking.cluster, topic["name"], topic["error_code"])
        except TopicMissingError:
            continue
        topics[topic["name"]] = topic
    config = _configs(asking, topics, settings)
    ends_by_topic: dict[str, dict[int, LogEnds]] = {name: {} for name in topics}
    alive = {broker["node_id"] for broker in answer["brokers"]}
    leaderless: dict[str, set[int]] = {}
    for (name, index), part in partitions_of(topics.values()):
        if alive.isdisjoint(_may_lead(part)):
            leaderless.setdefault(name, set()).add(index)
    if offsets:
        patience = asking.deadline.within(asking.deadline.left_s / 2) if partial else asking.deadline
        keys = [
            key for key, _ in partitions_of(topics.values()) if not (partial and key[1] in leaderless.get(key[0], ()))
        ]
        for (name, index), end in ends(asking.by(patience), keys, partial).items():
            ends_by_topic[name][index] = end
    return {
        name: TopicDescription(
            name=name,
            partitions=len(topic["partitions"]),
            replication=min((len(part["replica_nodes"]) for part in topic["partitions"]), default=0),
            config=config[name].own,
            ends=ends_by_topic[name],
            internal=topic["is_internal"],
            replicas={
                part["partition_index"]: Replicas(len(part["isr_nodes"]), len(part["replica_nodes"]))
                for part in topic["partitions"]
            },
            min_in_sync=config[name].min_in_sync,
            leaderless=frozenset(leaderless.get(name, ())),
            defaults=config[name].defaults,
        )
        for name, topic in topics.items()
    }


def _may_lead(partition: Mapping[str, Any]) -> set[int]:
    """The leader, and the brokers that a clean election can choose."""
    return {partition["leader_id"], *partition["isr_nodes"]}


def defaults_of(asking: Asking) -> dict[str, str]:
    """As `Topics.topic_defaults`."""
    if not asking.nodes:
        asking.metadata()
    settings = _broker_settings(asking, [name for names in _IN_BROKERS.values() for name in names])
    values = {key: [(name, settings.get(name)) for name in names] for key, names in _IN_BROKERS.items()}
    return {
        key: next(_in_ms(name, value) for name, value in some if value is not None)
        for key, some in values.items()
        if any(value is not None for _, value in some)
    }


def broker_setting(asking: Asking, key: str) -> str | None:
    """A broker's setting; None if the broker does not know it or the account may not read it."""
    return _broker_settings(asking, [key]).get(key)


def _broker_settings(asking: Asking, keys: Sequence[str]) -> dict[str, str | None]:
    node = min(asking.nodes)
    resource = {"resource_type": _BROKER_RESOURCE, "resource_name": str(node), "configuration_keys": keys}
    results = asking.call(node, ApiKey.DESCRIBE_CONFIGS, {"resources": [resource]})["results"]
    return {
        entry["name"]: entry["value"] for result in results if not result["error_code"] for entry in result["configs"]
    }


def _in_ms(name: str, value: str) -> str:
    """A broker's duration in milliseconds, the unit of topic settings."""
    unit = _UNITS_MS.get(name.rpartition(".")[2])
    if unit is None or not value.lstrip("-").isdecimal():
        return value
    return str(int(value) * unit) if int(value) >= 0 else "-1"


class _Config(NamedTuple):
    """:ivar own: settings of the topic itself, without values that brokers keep secret; and its compaction, even if
    that is its brokers' default. Compaction has removed records wherever it was set, and another cluster has another
    default.
    """

    own: Mapping[str, str]
    min_in_sync: int
    defaults: Mapping[str, str]


def _configs(asking: Asking, names: Collection[str], settings: bool) -> dict[str, _Config]:
    """By topic; without `settings` those of a topic without any."""
    config = {name: _Config({}, 1, {}) for name in names}
    for name, entries in _described(asking, names if settings else ()):
        values = {entry["name"]: entry["value"] for entry in entries if entry["value"] is not None}
        own = {entry["name"] for entry in entries if entry["config_source"] == _OF_THE_TOPIC}
        if "compact" in values.get(_POLICY, ""):
            own.add(_POLICY)
        in_sync = values.get(MIN_IN_SYNC, "")
        config[name] = _Config(
            {key: value for key, value in values.items() if key in own},
            int(in_sync) if in_sync.isdecimal() else 1,
            {key: value for key, value in values.items() if key not in own},
        )
    return config


def _described(asking: Asking, names: Collection[str]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Each topic with its settings as brokers describe them; topics that do not exist are missing."""
    resources = [
        {"resource_type": _TOPIC_RESOURCE, "resource_name": name, "configuration_keys": None} for name in sorted(names)
    ]
    answers = asking.calls(
        None, ApiKey.DESCRIBE_CONFIGS, resources, _MAX_CONFIGS_PER_REQUEST, lambda some: {"resources": some}
    )
    for described in (described for _, answer in answers for described in answer["results"]):
        name, code = described["resource_name"], described["error_code"]
        if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            continue
        if code:
            raise refusal(asking.cluster, f"read the settings of topic {name}", code, described["error_message"])
        yield name, described["configs"]
