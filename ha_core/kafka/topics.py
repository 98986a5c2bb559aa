"""What topics look like: partitions, replication, configuration of their own, offsets.

Asking for a topic never creates it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from ha_core.kafka.brokers import Asking, Brokers, partitions_of
from ha_core.kafka.errors import KafkaAdminError, TopicMissingError, refusal
from ha_core.kafka.facts import LogEnds, TopicSpec
from ha_core.kafka.offsets import check_topic, ends
from ha_core.wire.codes import ApiKey, ErrorCode

TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
OF_THE_TOPIC = 1
"""Config source of what was set on the topic itself."""
MIN_IN_SYNC = "min.insync.replicas"
MAX_CONFIGS_PER_REQUEST = 1_000
_AT_ONCE_S = 1.0


@dataclass(frozen=True, slots=True)
class TopicDescription(TopicSpec):
    """A topic that exists. `replication` is that of its least replicated partition."""

    ends: Mapping[int, LogEnds] = field(default_factory=dict)
    internal: bool = False


class Topics(Brokers):
    def topics(
        self, names: Collection[str] | None = None, offsets: bool = True, timeout_s: float | None = None
    ) -> dict[str, TopicDescription]:
        """The topics of `names` that exist (None: all); without `offsets` their `ends` are empty.

        Partitions whose leader does not answer in half of the time that is left are missing in `ends`.
        """
        return describe(self.asking(timeout_s), names, offsets, partial=True)

    def partition_counts(self, names: Collection[str], timeout_s: float | None = None) -> dict[str, int]:
        """topic → how many partitions it has by now, as that broker says which knows of most: the others learn of new
        ones a little later, when clients may write to them already. One that does not answer at once is not waited
        for."""
        asking = self.asking(timeout_s)
        at_once = asking.by(asking.deadline.within(_AT_ONCE_S))
        answers = asking.on_each(asking.nodes, lambda node: at_once.metadata(names, node))
        told = [answer for answer in answers if not isinstance(answer, KafkaAdminError)]
        counts: dict[str, int] = {}
        for answer in told or [asking.metadata(names)]:
            for topic in answer["topics"]:
                counts[topic["name"]] = max(counts.get(topic["name"], 0), len(topic["partitions"]))
        return counts

    def min_in_sync(self, timeout_s: float | None = None) -> int:
        """The brokers' default of `min.insync.replicas`; 1 where the account may not read it."""
        asking = self.asking(timeout_s)
        if not asking.nodes:
            asking.metadata()
        default = broker_setting(asking, MIN_IN_SYNC)
        return int(default) if default is not None and default.isdecimal() else 1


def describe(
    asking: Asking, names: Collection[str] | None, offsets: bool = True, partial: bool = False
) -> dict[str, TopicDescription]:
    """As `Topics.topics`; without `partial` all leaders have to answer."""
    if names is not None and not names:
        return {}
    topics = {}
    for topic in asking.metadata(names)["topics"]:
        try:
            check_topic(asking.cluster, topic["name"], topic["error_code"])
        except TopicMissingError:
            continue
        topics[topic["name"]] = topic
    config = _own_config(asking, topics)
    by_topic: dict[str, dict[int, LogEnds]] = {name: {} for name in topics}
    if offsets:
        patience = asking.deadline.within(asking.deadline.left_s / 2) if partial else asking.deadline
        keys = [key for key, _ in partitions_of(topics.values())]
        for (name, index), end in ends(asking.by(patience), keys, partial).items():
            by_topic[name][index] = end
    return {
        name: TopicDescription(
            name=name,
            partitions=len(topic["partitions"]),
            replication=min((len(part["replica_nodes"]) for part in topic["partitions"]), default=0),
            config=config[name],
            ends=by_topic[name],
            internal=topic["is_internal"],
        )
        for name, topic in topics.items()
    }


def broker_setting(asking: Asking, key: str) -> str | None:
    """A broker's setting; None where the account may not read it or the broker does not know it."""
    node = min(asking.nodes)
    resource = {"resource_type": _BROKER_RESOURCE, "resource_name": str(node), "configuration_keys": [key]}
    results = asking.call(node, ApiKey.DESCRIBE_CONFIGS, {"resources": [resource]})["results"]
    return next((entry["value"] for told in results if not told["error_code"] for entry in told["configs"]), None)


def _own_config(asking: Asking, names: Collection[str]) -> dict[str, dict[str, str]]:
    """topic → what was set on the topic itself. Values that brokers keep secret are left out."""
    config: dict[str, dict[str, str]] = {name: {} for name in names}
    resources = [
        {"resource_type": TOPIC_RESOURCE, "resource_name": name, "configuration_keys": None} for name in sorted(names)
    ]
    for _, answer in asking.calls(
        None, ApiKey.DESCRIBE_CONFIGS, resources, MAX_CONFIGS_PER_REQUEST, lambda some: {"resources": some}
    ):
        for told in answer["results"]:
            name, code = told["resource_name"], told["error_code"]
            if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # deleted since
                continue
            if code:
                raise refusal(asking.cluster, f"read the configuration of topic {name}", code, told["error_message"])
            config[name] = {
                entry["name"]: entry["value"]
                for entry in told["configs"]
                if entry["config_source"] == OF_THE_TOPIC and entry["value"] is not None
            }
    return config
