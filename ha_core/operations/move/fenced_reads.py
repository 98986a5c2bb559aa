"""Reads on the Kafka side while a move's fence stands: log ends, producers and committed offsets.

Everything is read once before the fence, so that connections, leaders and coordinators are known: clients wait for
each read after it.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import UnsupportedByClusterError
from ha_core.kafka.facts import LogEnds
from ha_core.kafka.groups import Committed
from ha_core.model import Member
from ha_core.model.evidence import AdoptedGroup
from ha_core.operations.clusters.last_seen import LastKnown
from ha_core.operations.engine.cluster_admins import DYING_S, ask_dying
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import BypassError, StepFailedError
from ha_core.plan.facts.clusters import Partition, PartitionEnds, ProducerFacts
from ha_core.plan.facts.verdict import listed
from ha_core.plan.move.step_verdicts import past_gateways

SETTLING_PAUSE_S = 0.005


@dataclass(frozen=True, slots=True)
class FencedFacts:
    """The facts about logs that the cut needs."""

    ends: Mapping[Partition, PartitionEnds]
    producers: Mapping[Partition, tuple[ProducerFacts, ...]]
    origin: Mapping[Partition, LogEnds] = field(default_factory=dict)
    """Empty if the origin cannot be asked."""


@dataclass
class FencedReads:
    """The two clusters of a move. `origin` is None if it is dead: then it answers nothing."""

    environment: Environment
    origin: Admin | None
    target: Admin
    partitions: tuple[Partition, ...]
    """All partitions of the topics."""
    groups: tuple[str, ...]
    timeout_s: float
    leaving: tuple[Partition, ...] | None = None
    """Partitions that move; None: all. The origin is asked only for these: others may have no leader."""
    forced: bool = False
    last_known: LastKnown = field(default_factory=LastKnown)
    """For an origin that may not answer, in forced moves only."""
    committed: Mapping[str, Mapping[Partition, Committed]] = field(default_factory=dict)
    left_out: tuple[str, ...] = ()
    """Committed partitions that the target does not have, `group topic-partition`."""
    still_ours: Callable[[], None] = lambda: None
    """Raises when another executor has taken the operation over."""

    @property
    def here(self) -> tuple[Partition, ...]:
        return self.partitions if self.leaving is None else self.leaving

    def warm(self) -> None:
        """Read once everything that is read again after the fence."""
        pool = self.environment.pool
        jobs: list[Future[Any]] = [pool.submit(self.target.ends, self.partitions), pool.submit(self._read_groups)]
        if self.origin is not None and not self.forced:
            jobs.append(pool.submit(self.origin.ends, self.here))
            self._producers()
        for job in jobs:
            job.result()
        self.target.describe_groups(self.groups)

    def read(self) -> FencedFacts:
        """Ends of both sides, twice for the origin, its producers, and the records that clients have deleted. Reads the
        groups' offsets at the same time.

        Gateways record deletions only while there is no fence, so after it all of them are in the store.

        :raises StepFailedError: replication does not catch up or a transaction stays open for the drain timeout.
            Or a topic has got partitions since `warm`.
        :raises BypassError: the origin's ends move although no request passes the gateways.
        """
        pool = self.environment.pool
        there: Future[dict[Partition, LogEnds]] = pool.submit(self.target.ends, self.partitions)
        groups = pool.submit(self._read_groups)
        names = Counter(topic for topic, _ in self.partitions)
        deleted = pool.submit(self.environment.store.deleted_records, names)
        if self.origin is None or self.forced:
            here, producers = self._last_words()
            groups.result()
            known = self.last_known.ends
            ends = {
                key: known(self.environment, key, one.log_end, here.get(key), one.start)
                for key, one in there.result().items()
            }
            return FencedFacts(_with_deleted(ends, deleted.result()), producers)
        counts = pool.submit(self.origin.partition_counts, names)
        first = quiet_ends(self.environment, self.origin, self.here, self.timeout_s)
        producers = self._producers()
        second = self.origin.ends(self.here)
        require_unmoved(self.origin, first, second)
        require_not_grown(names, counts.result())
        groups.result()
        ends = {
            key: PartitionEnds(one.log_end, second[key].log_end, origin_start=second[key].start, target_start=one.start)
            if key in second
            else PartitionEnds(one.log_end, target_start=one.start)
            for key, one in there.result().items()
        }
        return FencedFacts(_with_deleted(ends, deleted.result()), producers, second)

    def transactional(self) -> Collection[Partition]:
        """Partitions whose leaders in the origin remember transactional producers.

        Empty for brokers older than 2.8, which do not list producers.
        """
        return [
            key
            for key, facts in self._producers().items()
            if any(producer_facts.transactional for producer_facts in facts)
        ]

    def open_transactions(self) -> dict[Partition, tuple[ProducerFacts, ...]]:
        """Producers with an open transaction, by partition; partitions without any are left out."""
        known = self._producers().items()
        return {
            key: some for key, all_of in known if (some := tuple(facts for facts in all_of if facts.in_transaction))
        }

    def copy_offsets(self, adopted: Mapping[str, AdoptedGroup]) -> dict[str, int]:
        """Commit in the target the groups' offsets of the origin; group → number of partitions."""

        def one(group: str) -> int:
            committed = self.committed.get(group, {})
            if not committed:
                return 0
            member = None
            if joined := adopted.get(group):
                member = Member(member_id=next(iter(joined.members.values())), generation=joined.generation)
            self.target.set_group_offsets(group, committed, member, still_ours=self.still_ours)
            return len(committed)

        return dict(zip(self.groups, self.environment.pool.map(one, self.groups), strict=True))

    def _last_words(self) -> tuple[Mapping[Partition, LogEnds], Mapping[Partition, tuple[ProducerFacts, ...]]]:
        """Ends and producers that a dying origin still answers. A forced move does not wait for them."""

        def ends_of(origin: Admin) -> dict[Partition, LogEnds]:
            # Without partitions that have no leader: one of them would fail the request for the others.
            spots = origin.leaderships(self.here, timeout_s=DYING_S)
            return origin.ends([key for key, spot in spots.items() if spot.node >= 0], timeout_s=DYING_S)

        ends = ask_dying(self.environment, self.origin, ends_of)
        if ends is None:
            return {}, {}
        producers = ask_dying(self.environment, self.origin, lambda _: self._producers([*ends], DYING_S))
        return ends, producers or {}

    def _read_groups(self) -> None:
        if not self.groups:
            return
        found: Mapping[str, Mapping[Partition, Committed]]
        if self.forced or self.origin is None:
            answer = ask_dying(
                self.environment, self.origin, lambda origin: origin.group_offsets(self.groups, timeout_s=DYING_S)
            )
            found = self.last_known.group_offsets() if answer is None else answer
        else:
            found = self.origin.group_offsets(self.groups)
        topics = {topic for committed in found.values() for topic, _ in committed}
        there = self.target.topics(topics, offsets=False) if topics else {}
        known = {
            (name, partition) for name, description in there.items() for partition in range(description.partitions)
        }
        self.committed = {
            group: {key: value for key, value in committed.items() if key in known}
            for group, committed in found.items()
        }
        self.left_out = tuple(
            f"{group} {topic}-{part}" for group in sorted(found) for topic, part in sorted(found[group].keys() - known)
        )

    def _producers(
        self, partitions: Collection[Partition] | None = None, timeout_s: float | None = None
    ) -> dict[Partition, tuple[ProducerFacts, ...]]:
        """Producer states of the origin's leaders, of some partitions or all; empty if its brokers do not list them."""
        if self.origin is None:
            return {}
        try:
            return self.origin.producers(self.here if partitions is None else partitions, timeout_s=timeout_s)
        except UnsupportedByClusterError:
            return {}


def _with_deleted(
    ends: Mapping[Partition, PartitionEnds], deleted: Mapping[Partition, int]
) -> dict[Partition, PartitionEnds]:
    return {key: replace(one, deleted_below=deleted.get(key, 0)) for key, one in ends.items()}


def quiet_ends(
    environment: Environment, origin: Admin, partitions: Collection[Partition], timeout_s: float
) -> dict[Partition, LogEnds]:
    """Log ends that every in-sync replica has, without an open transaction.

    :raises StepFailedError: the cluster does not come to rest.
    """
    deadline = environment.monotonic() + timeout_s
    while True:
        ends = origin.ends(partitions)
        restless = sorted(key for key, one in ends.items() if not one.replicated or one.open_transaction)
        if not restless:
            return ends
        if environment.monotonic() >= deadline:
            named = listed(f"{topic}-{part} ({_why(ends[topic, part])})" for topic, part in restless)
            raise StepFailedError(
                f"Cluster {origin.cluster.name} did not come to rest within {timeout_s:g} s: {named}. Let "
                "transactions end and replicas catch up, then repeat the move, or give it a longer --drain-timeout."
            )
        environment.sleep(SETTLING_PAUSE_S)


def require_unmoved(origin: Admin, first: Mapping[Partition, LogEnds], second: Mapping[Partition, LogEnds]) -> None:
    """:raises BypassError: ends have moved between two reads after a fence that every gateway had drained."""
    ends = {key: (one.log_end, second[key].log_end) for key, one in sorted(first.items())}
    moved = {key: (low, high) for key, (low, high) in ends.items() if low != high}
    if moved:
        named = listed(f"{topic}-{part} went from {low} to {high}" for (topic, part), (low, high) in moved.items())
        way = (
            f"Find who produces directly to {origin.cluster.bootstrap}, let it go through a gateway or stop it, then "
            "repeat the move."
        )
        raise BypassError(
            f"A producer writes to cluster {origin.cluster.name} without passing through the gateways: {named} "
            f"while the fence stood and every gateway had drained. {way}",
            past_gateways(origin.cluster.name, moved, way),
        )


def require_not_grown(before: Mapping[str, int], now: Mapping[str, int]) -> None:
    """:raises StepFailedError: topics have got partitions. A partition that the map does not list belongs to the
    writer's cluster: new ones would be left in the origin, with their records."""
    if grown := [name for name, count in before.items() if now.get(name, count) > count]:
        name = min(grown)
        raise StepFailedError(
            f"Topic {name} has {now[name]} partitions in the origin, {before[name]} when the move began: the new ones "
            "would stay in the origin. Give the copy in the target as many, if it stays, then try again."
        )


def _why(ends: LogEnds) -> str:
    return "replicas lag" if not ends.replicated else f"a transaction is open since offset {ends.last_stable}"
