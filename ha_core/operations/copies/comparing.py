"""Compares mirrors with their sources in this process: several ranges in parallel, in random order.

Operations that wait for it (a switch before it takes the copies; reconciling a returned cluster) compare a *sample*,
within `SAMPLE_S`. The offset of a difference is the first one that differs among the compared ones.
"""

import threading
from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import wait
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, cast, get_args

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.verifying import Coverage, PartitionRanges, compare, plan_all
from ha_core.mirror.partition_diff import Compared, Range
from ha_core.mirror.progress import CopyDamagedError
from ha_core.model import Mirror
from ha_core.model.move_request import Verify
from ha_core.operations.engine.cluster_admins import mirrors_by_route
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import unchanged
from ha_core.plan.facts.clusters import Partition

SAMPLE = 0.1
"""Share of each partition, spread over its length: the default sample."""
SIDE_BY_SIDE = 4
"""Ranges in parallel: each keeps a few fetches of 4 MB of both logs."""
SAMPLE_S, RANGE_S = 30.0, 2.0
"""Time limits of a sample that an operation waits for, and of one of its ranges: at least some 60 ranges are compared,
and all if they are small."""
_SAY_S = 5.0


State = Literal["differs", "lacks", "not-compared", "nothing-there", "equal"]
"""The result for a partition. `lacks`: the copy has deleted records that its source has. `not-compared`: no record was
compared, although the source may have some. `nothing-there`: the source has none."""
WELL = frozenset[State]({"nothing-there", "equal"})


def state_of(differs: bool, lacking: int, compared: int, unseen: bool) -> State:
    """
    :param compared: number of equal records.
    :param unseen: part of the source was not looked at, or is not copied yet.
    """
    if differs:
        return "differs"
    if lacking:
        return "lacks"
    if compared:
        return "equal"
    return "not-compared" if unseen else "nothing-there"


@dataclass(frozen=True, slots=True)
class PartitionCompared:
    """The result for a partition."""

    mirror: Mirror
    plan: PartitionRanges
    compared: Compared
    ranges: int
    """Number of compared ranges."""

    @property
    def state(self) -> State:
        unseen = self.plan.not_copied > 0 or self.ranges < self.plan.of
        return state_of(self.compared.first is not None, self.compared.lacking, self.compared.compared, unseen)

    def to_json(self) -> dict[str, Any]:
        first = self.compared.first
        return {
            "topic": self.plan.topic,
            "partition": self.plan.partition,
            "from": self.mirror.source,
            "to": self.mirror.target,
            "state": self.state,
            "compared": self.compared.compared,
            "first_difference": first and first.offset,
            "difference": first and first.what,
            "gone_in_source": self.compared.gone_in_source,
            "gone_in_copy": self.compared.gone_in_copy,
            "lacking": self.compared.lacking,
            "behind": self.plan.not_copied,
            "ranges": self.ranges,
            "of_ranges": self.plan.of,
        }


@dataclass(frozen=True, slots=True)
class MirrorsCompared:
    extent: Coverage
    partitions: tuple[PartitionCompared, ...]

    @property
    def equal(self) -> bool:
        """Whether copies equal their sources as far as compared. False if a partition was not compared at all."""
        return all(partition.state in WELL for partition in self.partitions)

    @property
    def lacking(self) -> int:
        """Records that the copies have deleted and their sources have."""
        return sum(partition.compared.lacking for partition in self.partitions)

    @property
    def sampled(self) -> bool:
        return self.extent.sampled

    @property
    def records(self) -> int:
        """Number of equal records."""
        return sum(partition.compared.compared for partition in self.partitions)

    @property
    def ranges(self) -> tuple[int, int]:
        """Numbers of compared ranges, and of all."""
        return sum(partition.ranges for partition in self.partitions), sum(
            partition.plan.of for partition in self.partitions
        )

    @property
    def differing(self) -> dict[Partition, tuple[int, str]]:
        """Partition → the first differing offset in the source, and the difference."""
        return {
            (partition.plan.topic, partition.plan.partition): (first.offset, first.what)
            for partition in self.partitions
            if (first := partition.compared.first) is not None
        }

    def to_json(self) -> dict[str, Any]:
        sample = {"share": self.extent.share, "seed": self.extent.seed} if self.sampled else None
        return {
            "equal": self.equal,
            "sample": sample,
            "partitions": [partition.to_json() for partition in self.partitions],
        }


def verify_of(text: str) -> Verify:
    """From an operator's input. :raises RefusedError: it is none of the allowed values."""
    if text not in get_args(Verify):
        raise unchanged(f"--verify {text!r} is not usable: give {', '.join(get_args(Verify))}.")
    return cast(Verify, text)


def coverage(verify: Verify, about: str) -> Coverage:
    """The ranges that an operation compares; the same at each call.

    :param verify: not `none`.
    :param about: the operation's id, the seed of its sample.
    """
    seed = int.from_bytes(blake2b(about.encode(), digest_size=4).digest()) >> 1
    return Coverage(SAMPLE if verify == "sample" else 1.0, seed)


def compare_mirrors(
    environment: Environment, topics: Collection[str], target: str, share: float, seed: int
) -> MirrorsCompared:
    """Compare the mirrors of `topics`, see `ha_core.plan.mirror.mirrored_topics`. Changes nothing.

    :param share: of each partition, in ranges drawn by the seed; 1: all.
    :raises RefusedError: a topic has no mirror, or several and no `target` is given.
    :raises KafkaAdminError: one of the clusters cannot be asked.
    """
    extent = Coverage(share, seed)
    view = environment.store.load()
    planned = list[PlannedComparison]()
    for route, some in mirrors_by_route(view, topics, target).items():
        theirs, ours = (environment.admin(view.clusters[name]) for name in route)
        planned += plan_mirrors(theirs, ours, some, extent)
    return MirrorsCompared(extent, compare_all(environment, planned, extent.seed))


class PlannedComparison(NamedTuple):
    """The planned comparison of a partition, with its clusters."""

    mirror: Mirror
    source: Admin
    target: Admin
    plan: PartitionRanges


def plan_mirrors(
    source: Admin, target: Admin, mirrors: Collection[Mirror], extent: Coverage
) -> list[PlannedComparison]:
    """All partitions of mirrors from one cluster to another.

    :raises KafkaAdminError: one of them cannot be asked, or the copiers' notes cannot be read.
    """
    try:
        plans = plan_all(source, target, mirrors, extent)
    except CopyDamagedError as error:
        raise KafkaAdminError(target.cluster.name, str(error)) from error
    return [PlannedComparison(mirror, source, target, ranges) for mirror in mirrors for ranges in plans[mirror.topic]]


def compare_all(
    environment: Environment, planned: Sequence[PlannedComparison], seed: int, within_s: float | None = None
) -> tuple[PartitionCompared, ...]:
    """Compare the planned partitions.

    :param seed: draws the order of the ranges, so that the load is spread over all brokers; the first range of each
        partition comes before the second one of any.
    :param within_s: time limit, after which the rest is left out; a range is cut short after `RANGE_S`. None: compare
        all.
    :raises KafkaAdminError: one of the clusters does not answer.
    """
    work = _Work(environment, planned, seed, within_s)
    running = [environment.pool.submit(work.run) for _ in range(SIDE_BY_SIDE)]
    try:
        while wait(running, _SAY_S).not_done:
            environment.progress(work.words)
        for future in running:
            future.result()
    finally:
        work.ending.set()
    return work.result()


class _Work:
    """The ranges that are left, and the results of the others. Several threads take from it."""

    def __init__(
        self, environment: Environment, planned: Sequence[PlannedComparison], seed: int, within_s: float | None
    ) -> None:
        self.ending = threading.Event()
        self._planned, self._now = planned, environment.monotonic
        self._limited, self._until = within_s is not None, self._now() + (within_s or 0)
        self._totals = [comparison.plan.before_reading for comparison in planned]
        self._looked = [0] * len(planned)
        drawn = (
            sorted(comparison.plan.ranges, key=partial(_drawn, seed, number))
            for number, comparison in enumerate(planned)
        )
        every = [(rank, number, span) for number, one in enumerate(drawn) for rank, span in enumerate(one)]
        every.sort(key=lambda one: (one[0], _drawn(seed, *one[1:])))
        self._count = len(every)
        self._left = deque((number, span) for _, number, span in every)
        self._guard = threading.Lock()

    def run(self) -> None:
        try:
            self._run()
        except BaseException:
            self.ending.set()  # ends the other threads, too
            raise

    def _run(self) -> None:
        while not self._over() and (taken := self._take()) is not None:
            number, span = taken
            planned_comparison = self._planned[number]
            comparison = compare(
                planned_comparison.source,
                planned_comparison.target,
                (planned_comparison.plan.topic, planned_comparison.plan.partition),
                span,
                planned_comparison.plan.compacted,
                apart=planned_comparison.plan.apart,
                most_bytes=planned_comparison.plan.most_bytes,
                outlived=planned_comparison.plan.outlived,
                over=self._over_by(self._now() + RANGE_S),
            )
            with self._guard:
                self._totals[number] = _sum(self._totals[number], comparison)
                self._looked[number] += 1

    @property
    def words(self) -> str:
        with self._guard:
            records = sum(comparison.compared for comparison in self._totals)
            return f"records compared: {records:,}, in {sum(self._looked):,} of {self._count:,} ranges"

    def result(self) -> tuple[PartitionCompared, ...]:
        every = zip(self._planned, self._totals, self._looked, strict=True)
        return tuple(
            PartitionCompared(comparison.mirror, comparison.plan, total, looked) for comparison, total, looked in every
        )

    def _over_by(self, until: float) -> Callable[[], bool]:
        return lambda: self._over() or (self._limited and self._now() >= until)

    def _over(self) -> bool:
        return self.ending.is_set() or (self._limited and self._now() >= self._until)

    def _take(self) -> tuple[int, Range] | None:
        """The next range that may have an earlier difference than its partition has; None: there is none."""
        with self._guard:
            while self._left:
                number, span = self._left.popleft()
                first = self._totals[number].first
                if first is None or span.start < first.offset:
                    return number, span
            return None


def _drawn(seed: int, number: int, span: Range) -> bytes:
    return blake2b(f"{seed}:{number}:{span.start}".encode(), digest_size=8).digest()


def _sum(comparison: Compared, other: Compared) -> Compared:
    return Compared(
        comparison.compared + other.compared,
        comparison.gone_in_source + other.gone_in_source,
        comparison.gone_in_copy + other.gone_in_copy,
        comparison.lacking + other.lacking,
        comparison.read + other.read,
        min(filter(None, (comparison.first, other.first)), default=None),
        comparison.cut_short or other.cut_short,
    )
