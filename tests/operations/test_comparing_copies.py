"""Ranges compared side by side by one process: all of them, or for so long; without clusters."""

import threading
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ha_core.kafka.errors import KafkaAdminError, NotReadyError
from ha_core.kafka.verifying import PartitionRanges
from ha_core.mirror.key_states import Compacted
from ha_core.mirror.partition_diff import Compared, Range, RecordDifference
from ha_core.model import Mirror
from ha_core.operations.copies import comparing
from ha_core.operations.copies.comparing import (
    RANGE_S,
    SIDE_BY_SIDE,
    MirrorsCompared,
    PartitionCompared,
    PlannedComparison,
    compare_all,
    coverage,
)
from ha_core.operations.engine.environment import Environment
from ha_core.plan.move.step_verdicts import MAX_TOPICS, copies_differ, not_compared
from ha_core.present.mirrors import compared_page
from ha_core.present.page import Table

MIRROR = Mirror.of("orders", "east", "west", "link-1", "2026-11-23T10:00:00Z", "test")
PARTITIONS, RANGES, LENGTH = 3, 10, 100


@dataclass
class Clock:
    """Time passes only while something is compared."""

    now_s: float = 0.0
    guard: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self) -> float:
        return self.now_s

    def pass_s(self, seconds: float) -> None:
        with self.guard:
            self.now_s += seconds


@pytest.fixture
def clock(environment: Environment) -> Clock:
    environment.monotonic = clock = Clock()
    return clock


def planned(damage: RecordDifference | None = None) -> list[PlannedComparison]:
    spans = [Range(at, at + LENGTH, at, at + LENGTH, ()) for at in range(0, RANGES * LENGTH, LENGTH)]
    plans = [PartitionRanges("orders", number, spans, RANGES, damage=damage) for number in range(PARTITIONS)]
    return [PlannedComparison(MIRROR, None, None, ranges) for ranges in plans]  # type: ignore[arg-type]


def looks_at(monkeypatch: pytest.MonkeyPatch, compare: Callable[[int, Range, Callable[[], bool]], Compared]) -> None:
    def fake(_source: Any, _target: Any, key: tuple[str, int], span: Range, *_: Any, **more: Any) -> Compared:
        return compare(key[1], span, more["over"])

    monkeypatch.setattr(comparing, "compare", fake)


def test_all_ranges_are_compared_and_the_first_difference_of_each_partition_is_reported(
    monkeypatch: pytest.MonkeyPatch, environment: Environment
) -> None:
    # Given records that differ in two ranges of one partition
    def compare(partition: int, span: Range, _over: Callable[[], bool]) -> Compared:
        if partition == 1 and span.start in {300, 700}:
            return Compared(5, first=RecordDifference(span.start + 5, span.start + 5, "another value"))
        return Compared(LENGTH)

    looks_at(monkeypatch, compare)
    # When all is compared, in whatever order
    for seed in range(5):
        comparison = MirrorsCompared(coverage("full", "op"), compare_all(environment, planned(), seed))
        # Then the first one is named, and later ones need not be looked at
        assert comparison.differing == {("orders", 1): (305, "another value")}
        assert [one.ranges for one in comparison.partitions][::2] == [RANGES, RANGES]


def test_damage_in_notes_is_reported_and_records_below_it_are_compared(
    monkeypatch: pytest.MonkeyPatch, environment: Environment
) -> None:
    looks_at(monkeypatch, lambda _partition, _span, _over: Compared(LENGTH))
    damage = RecordDifference(500, -1, "the source ends at 500")
    comparison = MirrorsCompared(coverage("full", "op"), compare_all(environment, planned(damage), 1))
    assert set(comparison.differing.values()) == {(500, "the source ends at 500")}
    assert [partition.ranges for partition in comparison.partitions] == [5] * PARTITIONS


def a_second_each(clock: Clock) -> Callable[[int, Range, Callable[[], bool]], Compared]:
    def compare(_partition: int, _span: Range, _over: Callable[[], bool]) -> Compared:
        clock.pass_s(1)
        return Compared(LENGTH)

    return compare


def test_when_the_time_is_over_the_rest_is_left_out(
    monkeypatch: pytest.MonkeyPatch, environment: Environment, clock: Clock
) -> None:
    looks_at(monkeypatch, a_second_each(clock))
    comparison = MirrorsCompared(coverage("sample", "op"), compare_all(environment, planned(), 1, within_s=10))
    looked, of = comparison.ranges
    assert 10 <= looked < 10 + SIDE_BY_SIDE
    assert of == PARTITIONS * RANGES
    assert comparison.records == looked * LENGTH


def test_where_there_is_little_time_each_partition_is_looked_at_before_any_is_a_second_time(
    monkeypatch: pytest.MonkeyPatch, environment: Environment, clock: Clock
) -> None:
    looks_at(monkeypatch, a_second_each(clock))
    for seed in range(10):
        comparisons = compare_all(environment, planned(), seed, within_s=PARTITIONS)
        assert min(comparison.ranges for comparison in comparisons) >= 1


def test_a_slow_range_is_cut_short_only_if_an_operation_waits(
    monkeypatch: pytest.MonkeyPatch, environment: Environment, clock: Clock
) -> None:
    # Given ranges in which a record takes a second
    def compare(_partition: int, _span: Range, over: Callable[[], bool]) -> Compared:
        records = 0
        while records < LENGTH and not over():
            clock.pass_s(1)
            records += 1
        return Compared(records, cut_short=records < LENGTH)

    looks_at(monkeypatch, compare)
    # When an operation waits for 50 seconds
    limited = compare_all(environment, planned(), 1, within_s=50)
    # Then many ranges are looked at, each for a moment; else each to its end
    assert sum(comparison.ranges for comparison in limited) >= 50 / (RANGE_S * SIDE_BY_SIDE)
    assert all(
        comparison.compared.compared <= comparison.ranges * (RANGE_S * SIDE_BY_SIDE + 1) for comparison in limited
    )
    assert {comparison.compared.compared for comparison in compare_all(environment, planned(), 1)} == {RANGES * LENGTH}


def test_a_cluster_that_does_not_answer_ends_the_comparison_at_once(
    monkeypatch: pytest.MonkeyPatch, environment: Environment
) -> None:
    looked: list[int] = []

    def compare(_partition: int, span: Range, over: Callable[[], bool]) -> Compared:
        looked.append(span.start)
        if len(looked) == 3:
            raise NotReadyError("west", "its leader does not answer")
        while not over():
            time.sleep(0.001)
        return Compared()

    looks_at(monkeypatch, compare)
    with pytest.raises(KafkaAdminError, match="its leader does not answer"):
        compare_all(environment, planned(), 1)
    assert len(looked) <= SIDE_BY_SIDE


@pytest.mark.parametrize(
    ("comparison", "plan", "looked", "state", "equal"),
    [
        (Compared(5), {"of": 1}, 1, "equal", True),
        (Compared(5, first=RecordDifference(1, 1, "x")), {"of": 1}, 1, "differs", False),
        (Compared(5, gone_in_copy=60, lacking=60), {"of": 1}, 1, "lacks", False),
        (Compared(5, gone_in_copy=60), {"of": 1}, 1, "equal", True),
        (Compared(), {"of": 2}, 0, "not-compared", False),
        (Compared(), {"not_copied": 3}, 0, "not-compared", False),
        (Compared(), {}, 0, "nothing-there", True),
        (Compared(gone_in_source=9), {"of": 1}, 1, "nothing-there", True),
    ],
)
def test_a_copy_that_lacks_records_or_was_not_compared_is_not_equal(
    comparison: Compared, plan: dict[str, int], looked: int, state: str, equal: bool
) -> None:
    partition_compared = PartitionCompared(MIRROR, PartitionRanges("orders", 0, **plan), comparison, looked)  # type: ignore[arg-type]
    every = MirrorsCompared(coverage("full", "op"), (partition_compared,))

    assert (partition_compared.state, every.equal, partition_compared.to_json()["state"]) == (state, equal, state)
    *_, last = (part for part in compared_page(every) if not isinstance(part, Table))
    assert ("equal" in str(last) or "no records" in str(last)) == equal
    assert ("lacks records" in str(list(compared_page(every)))) == (state == "lacks")


def test_records_that_a_copy_has_deleted_are_not_lacking_if_its_source_may_delete_them_too() -> None:
    plan = PartitionRanges("orders", 0, deleted=7)
    assert plan.before_reading == Compared(gone_in_copy=7, lacking=7)
    assert replace(plan, outlived=True).before_reading == Compared(gone_in_copy=7)
    # And those of a compacted topic are counted record by record
    assert replace(plan, compacted=Compacted(source=True, copy=False)).before_reading == Compared()


def test_an_operation_always_draws_the_same_sample_and_another_operation_a_different_one() -> None:
    assert coverage("sample", "switch-1") == coverage("sample", "switch-1")
    assert coverage("sample", "switch-1").seed != coverage("sample", "switch-2").seed
    assert (coverage("sample", "s").share, coverage("full", "s").share) == (0.1, 1.0)


def test_copies_that_differ_are_a_verdict_for_each_topic_with_the_first_offsets_and_the_way_out() -> None:
    differing = {("orders", 1): (17, "another value"), ("orders", 0): (4, "another key"), ("bills", 2): (9, "x")}
    bills, orders = copies_differ("east", "west", differing)
    assert (bills.code, bills.about, bills.number, bills.unit) == ("copy-differs", "topic bills", 1, "partitions")
    assert "partition 0 at offset 4 (another key), partition 1 at offset 17 (another value)" in orders.text
    assert "mirror unlink orders --to west" in orders.remedy
    assert (orders.level, orders.number) == ("error", 2)


def test_verdicts_of_many_topics_are_bounded() -> None:
    many: Collection[int] = range(MAX_TOPICS + 5)
    assert len(copies_differ("east", "west", {(f"t{number}", 0): (1, "x") for number in many})) == MAX_TOPICS


def test_copies_that_cannot_be_compared_are_a_verdict_too() -> None:
    verdict = not_compared("east", "west", "it does not answer.")
    assert (verdict.code, verdict.cause) == ("not-compared", "away")
    assert "it does not answer" in verdict.text
