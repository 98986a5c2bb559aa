"""What topics look like: partitions, replication, configuration of their own, offsets.

Read with raw requests: confluent-kafka's topic metadata has no leader epochs and can create the topic that it asks for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import partial

from ha_core.kafka.brokers import Brokers, pages
from ha_core.kafka.deadline import Deadline
from ha_core.kafka.errors import KafkaAdminError, TopicMissingError, refusal
from ha_core.kafka.facts import LogEnds, TopicSpec
from ha_core.kafka.offsets import check_topic, ends
from ha_core.plan.facts import Partition
from ha_core.wire.codes import ApiKey, ErrorCode

_TOPIC_RESOURCE, _BROKER_RESOURCE = 2, 4
_OF_THE_TOPIC = 1
"""Config source of what was set on the topic itself."""
_MAX_PER_REQUEST = 1_000
_AT_ONCE_S = 1.0


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """One topic. `replication` is that of its least replicated partition."""

    name: str
    partitions: int
    replication: int
    config: Mapping[str, str]
    """What was set on the topic itself; the broker's defaults are not in it."""
    ends: Mapping[int, LogEnds]
    internal: bool = False

    @property
    def never_used(self) -> bool:
        return len(self.ends) == self.partitions and all(one.never_used for one in self.ends.values())

    def spec(self) -> TopicSpec:
        """What another cluster needs to make its like."""
        return TopicSpec(self.name, self.partitions, self.replication, self.config)


def describe(
    brokers: Brokers, names: Collection[str] | None, deadline: Deadline, offsets: bool = True, partial: bool = False
) -> dict[str, TopicDescription]:
    """The topics of `names` that exist (None: all); without `offsets` their `ends` are empty.

    With `partial` partitions whose leader does not answer in half of the time that is left are missing in `ends`.
    """
    if names is not None and not names:
        return {}
    found = {}
    for topic in brokers.metadata(names, deadline)["topics"]:
        try:
            check_topic(brokers.cluster, topic["name"], topic["error_code"])
        except TopicMissingError:
            continue
        found[topic["name"]] = topic
    config = own_config(brokers, found, deadline)
    keys = [(name, part["partition_index"]) for name, topic in found.items() for part in topic["partitions"]]
    patience = deadline.within(deadline.left_s / 2) if partial else deadline
    read: dict[Partition, LogEnds] = ends(brokers, keys, patience, partial) if offsets else {}
    by_topic: dict[str, dict[int, LogEnds]] = {name: {} for name in found}
    for (name, index), one in read.items():
        by_topic[name][index] = one
    return {
        name: TopicDescription(
            name=name,
            partitions=len(topic["partitions"]),
            replication=min((len(part["replica_nodes"]) for part in topic["partitions"]), default=0),
            config=config[name],
            ends=by_topic[name],
            internal=topic["is_internal"],
        )
        for name, topic in found.items()
    }


def partition_counts(brokers: Brokers, names: Collection[str], deadline: Deadline) -> dict[str, int]:
    """topic → how many partitions it has by now, as that broker says which knows of most: the others learn of new ones
    a little later, when clients may write to them already. One that does not answer at once is not waited for."""
    at_once = deadline.within(_AT_ONCE_S)
    answers = brokers.on_each({node: partial(brokers.metadata, names, at_once, node) for node in brokers.nodes})
    said = [answer for answer in answers.values() if not isinstance(answer, KafkaAdminError)]
    counts: dict[str, int] = {}
    for topic in (topic for answer in said or [brokers.metadata(names, deadline)] for topic in answer["topics"]):
        counts[topic["name"]] = max(counts.get(topic["name"], 0), len(topic["partitions"]))
    return counts


def own_config(brokers: Brokers, names: Collection[str], deadline: Deadline) -> dict[str, dict[str, str]]:
    """topic → what was set on the topic itself. Values that brokers keep secret are left out."""
    out: dict[str, dict[str, str]] = {name: {} for name in names}
    for some in pages(sorted(names), _MAX_PER_REQUEST):
        resources = [
            {"resource_type": _TOPIC_RESOURCE, "resource_name": name, "configuration_keys": None} for name in some
        ]
        answer = brokers.call(None, ApiKey.DESCRIBE_CONFIGS, {"resources": resources}, deadline)
        for one in answer["results"]:
            name, code = one["resource_name"], one["error_code"]
            if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:  # deleted since
                continue
            if code:
                raise refusal(brokers.cluster, f"read the configuration of topic {name}", code, one["error_message"])
            out[name] = {
                entry["name"]: entry["value"]
                for entry in one["configs"]
                if entry["config_source"] == _OF_THE_TOPIC and entry["value"] is not None
            }
    return out


def broker_setting(brokers: Brokers, node: int, key: str, deadline: Deadline) -> str | None:
    """A broker's setting; None where the account may not read it or the broker does not know it."""
    resource = {"resource_type": _BROKER_RESOURCE, "resource_name": str(node), "configuration_keys": [key]}
    answer = brokers.call(node, ApiKey.DESCRIBE_CONFIGS, {"resources": [resource]}, deadline)
    for one in answer["results"]:
        if not one["error_code"]:
            for entry in one["configs"]:
                value: str | None = entry["value"]
                return value
    return None
