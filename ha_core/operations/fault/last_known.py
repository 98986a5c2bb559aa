"""What a forced move goes by where its origin does not answer: the last look at it, and what groups have said since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from ha_core.kafka.facts import Partition, TopicSpec
from ha_core.kafka.group_offsets import Committed
from ha_core.model import KnownGroup, KnownTopic, MoveSet
from ha_core.operations.context import Environment
from ha_core.operations.fault.known import age_s
from ha_core.plan.facts import Facts, GroupFacts, PartitionEnds, TopicFacts

WOBBLE_S = 5.0
"""Clocks that NTP keeps differ by less. What was seen further in the future was seen at no known time."""


@dataclass(frozen=True, slots=True)
class LastKnown:
    """Of the topics and groups of one move. Empty where the origin answers, or was never looked at."""

    topics: Mapping[str, KnownTopic] = field(default_factory=dict)
    groups: Mapping[str, KnownGroup] = field(default_factory=dict)
    committed: Mapping[Partition, int] = field(default_factory=dict)
    """The highest client offset that any group of any cluster had committed."""
    ages_s: Mapping[str, float | None] = field(default_factory=dict)
    """Topic → how long ago it was looked at, at `read_at`; None where clocks contradict each other."""
    read_at: float = 0.0
    """On the monotonic clock."""

    @classmethod
    def read(cls, environment: Environment, origin: str, moves: MoveSet) -> LastKnown:
        store = environment.store
        committed: dict[Partition, int] = {}
        for cluster in store.load().clusters:
            for group in store.known(KnownGroup, cluster).values():
                for topic in moves.topics:
                    for partition, offset in group.offsets.get(topic, {}).items():
                        committed[topic, partition] = max(offset, committed.get((topic, partition), 0))
        read_at = environment.monotonic()
        topics = store.known(KnownTopic, origin, moves.topics)
        written = store.known_ages_s(KnownTopic, origin, topics)
        ages = {name: _age_s(environment, topic, written.get(name)) for name, topic in topics.items()}
        return cls(topics, store.known(KnownGroup, origin, moves.groups), committed, ages, read_at)

    def specs(self) -> dict[str, TopicSpec]:
        """How each topic was made in the origin."""
        return {
            name: TopicSpec(name, topic.partitions, topic.replication, topic.config)
            for name, topic in self.topics.items()
        }

    def ends(self, environment: Environment, key: Partition, target: int, origin: int | None) -> PartitionEnds:
        """All that is known of where a partition of the origin ends.

        :param target: log end in the target; `origin`: in the origin, if it still said so.
        """
        topic = self.topics.get(key[0])
        seen = None if topic is None else topic.ends.get(key[1])
        age = self.ages_s.get(key[0])
        if age is not None:
            age += environment.monotonic() - self.read_at
        return PartitionEnds(target, origin, seen, age, self.committed.get(key))

    def group_offsets(self) -> dict[str, dict[Partition, Committed]]:
        """group → partition → (offset, metadata), as they were committed in the origin."""
        return {
            name: {
                (topic, partition): (offset, "")
                for topic, offsets in group.offsets.items()
                for partition, offset in offsets.items()
            }
            for name, group in self.groups.items()
        }


def _age_s(environment: Environment, topic: KnownTopic, written_s: float | None) -> float | None:
    """How long ago a topic was looked at, by the clock that makes it longer: that of ZooKeeper, which has written it,
    or those of the two machines that looked then and ask now."""
    clocks_s = (datetime.fromisoformat(environment.now()) - datetime.fromisoformat(topic.at)).total_seconds()
    if written_s is None or min(clocks_s, written_s) < -WOBBLE_S:
        return None
    return max(0.0, clocks_s, written_s + topic.look_s)


def with_last_known(environment: Environment, origin: str, moves: MoveSet, facts: Facts) -> Facts:
    """`facts` with what was last seen of the origin, if it cannot be asked now."""
    reached = facts.clusters.get(origin)
    if reached is None or reached.reachable or reached.refused:
        return facts
    store = environment.store
    topics = {
        (origin, name): TopicFacts(
            exists=True,
            partitions=topic.partitions,
            config=topic.config,
            ends=topic.ends,
            replication=topic.replication,
            age_s=age_s(environment, topic.at),
        )
        for name, topic in store.known(KnownTopic, origin, moves.topics).items()
    }
    groups = {
        (origin, name): GroupFacts(
            state=group.state or "Dead",
            offsets={(t, p): offset for t, offsets in group.offsets.items() for p, offset in offsets.items()},
            age_s=age_s(environment, group.at),
        )
        for name, group in store.known(KnownGroup, origin, moves.groups).items()
    }
    return replace(facts, topics={**facts.topics, **topics}, groups={**facts.groups, **groups})
