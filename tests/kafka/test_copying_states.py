"""How a partition stands, as told from its state, and when one that failed is tried again."""

from __future__ import annotations

import pytest

from ha_core.kafka.copying.states import (
    IN_FLIGHT,
    OLD_MS,
    AwaitingTakeover,
    CopyLane,
    SourceEnds,
    StoppedCopy,
    not_copied,
)
from ha_core.kafka.takeover import CopyPartition
from ha_core.mirror.lag import LagTracker
from ha_core.mirror.notes import CopyId
from ha_core.mirror.pace import RateMeter
from ha_core.mirror.partition import Claimed, PartitionCopy
from ha_core.mirror.progress import Progress, Writer
from ha_core.model import Run
from tests.mirror.batches import MS, records

NOW_MS = MS + 100_000


def lane() -> CopyLane:
    copy = CopyPartition(CopyId("east-west", "orders", 0), ("copies", 0))
    return CopyLane(copy, PartitionCopy(Progress(Writer(7, 0), 0, 0)), 0.0, RateMeter(0.0), LagTracker(), 1, 1, tries=0)


def test_the_first_failure_costs_no_time_and_the_others_more_and_more() -> None:
    state, now, waits = AwaitingTakeover("", 0.0), 100.0, list[float]()
    for _ in range(12):
        state = state.again("no leader", now)
        waits.append(state.until - now)
    assert [round(one, 3) for one in waits[:3]] == [0.0, 0.1, 0.2]
    assert waits[-1] == 30.0
    assert waits == sorted(waits)


def test_a_lag_is_between_what_is_copied_and_what_the_source_has_shown() -> None:
    # Given a partition of which nothing is known
    one = lane()
    assert one.status(1.0, NOW_MS).lag_ms is None
    # When a record of several is copied, and the source says that it has newer ones
    one.ends, one.newest_ms = SourceEnds(8, 8), MS + 60_000
    one.partition.fetched(bytearray(records(0, range(3)) + records(3, range(3))))
    one.partition.noted()
    one.partition.appended(0)
    found = one.status(1.0, NOW_MS)
    assert (found.lag_records, found.lag_ms) == (5, 60_000 - 6)
    # Then it lags until all of it is copied
    one.partition.appended(3)
    one.partition.fetched(bytearray(records(6, range(2))))
    one.partition.noted()
    one.partition.appended(6)
    assert one.status(1.0, NOW_MS)[:5] == ("copying", 8, (8, 8), "", 0)


def test_records_that_are_acknowledged_behind_an_open_transaction_are_in_the_lag() -> None:
    # Given a source with nothing more to copy, and 20 records of others behind a transaction that is open
    one = lane()
    one.hear(SourceEnds(0, 0), asked_at=10.0)
    one.hear(SourceEnds(0, 20), asked_at=12.0)
    # When it is asked how it stands 30 s later
    found = one.status(14.0, NOW_MS)
    # Then they would be lost, for as long as they lie there; and nothing of them can be copied
    assert (found.lag_records, found.to_copy, found.lag_ms, found.rpo_s) == (20, 0, 4_000, 4.0)
    assert not one.lags


def test_the_age_of_what_would_be_lost_counts_from_now_before_a_copier_has_come_to_any_end() -> None:
    # Given a backlog written within a second, of which the first record is copied
    one = lane()
    one.partition.fetched(bytearray(records(0, range(1))))
    one.partition.noted()
    one.partition.appended(0)
    one.newest_ms = MS + 1_000
    one.hear(SourceEnds(100, 100), asked_at=5.0)
    # Then what is missing is as old as its records are now, and no younger than its first sight
    assert one.status(5.0, MS + 40_000).rpo_s == 40.0
    assert one.status(50.0, MS).rpo_s == 45.0
    # And nothing is claimed where no record is copied
    other = lane()
    other.hear(SourceEnds(100, 100), asked_at=5.0)
    assert other.status(50.0, NOW_MS).rpo_s is None


def test_a_lag_grows_while_the_source_is_not_heard_of() -> None:
    one = lane()
    one.hear(SourceEnds(0, 0), asked_at=10.0)
    one.trouble = "it has no leader"
    assert one.status(10.5, NOW_MS).unheard_s is None
    found = one.status(610.0, NOW_MS)
    assert (found.lag_records, found.lag_ms, found.unheard_s) == (0, 600_000, 600.0)


@pytest.mark.parametrize("state", [StoppedCopy("why"), AwaitingTakeover("why", 0.0)])
def test_how_far_a_copy_is_that_nobody_copies_is_unknown(state: StoppedCopy | AwaitingTakeover) -> None:
    behind = LagTracker()
    assert not_copied(state, behind, 100.0).rpo_s is None
    behind.saw(40.0, end=5, copied=5)
    found = not_copied(state, behind, 100.0)
    assert (found.source, found.ends, found.lag_records, found.to_copy, found.rpo_s) == (None, None, None, None, 60.0)
    assert not found.has(0)
    assert not found.within(1_000_000)


def test_what_comes_from_the_source_no_more_is_a_reason_to_wait_and_keeps_its_figures() -> None:
    one = lane()
    one.ends, one.trouble = SourceEnds(8, 8), "it has no leader"
    assert one.status(1.0, NOW_MS)[:4] == ("waiting", 0, (8, 8), "it has no leader")


def test_what_is_copied_is_told_to_readers_with_the_newest_runs_and_whether_it_is_near_the_source() -> None:
    # Given a copy with a gap in its source, and a source that has shown much newer records
    one = lane()
    one.ends, one.newest_ms = SourceEnds(9, 9), MS + 60_000
    for first in (0, 5):
        one.partition.fetched(bytearray(records(first, range(3))))
        one.partition.noted()
        one.partition.appended(0 if not first else 3)
    # Then its runs are told, and that nobody should wait for it
    one.source_start = 2
    assert one.known(10, 1.0, NOW_MS) == (8, False, (Run(0, 0, 3), Run(5, 3, 3)), 2)
    assert one.known(1, 1.0, NOW_MS).runs == (Run(5, 3, 3),)
    # When the source has nothing newer
    one.ends = SourceEnds(8, 8)
    assert one.known(1, 1.0, NOW_MS).level
    # And when nothing comes from it any more
    one.trouble = "it has no leader"
    assert not one.known(1, 1.0, NOW_MS).level


def test_a_successor_reads_the_copy_log_from_the_oldest_note_that_counts() -> None:
    one = lane()
    one.noted_at.extend([(0, 100), (1, 105), (2, 107)])
    one.recorded_as(Progress(Writer(7, 0), 0, 0, number=0), 110, 1.0)
    assert one.since == 105
    one.recorded_as(Progress(Writer(7, 0), 0, 0, number=2), 120, 1.0)
    assert one.since == 120


def batch(newest_ms: int) -> Claimed:
    return Claimed((), memoryview(b""), newest_ms)


def sent_before_an_answer(one: CopyLane, *newest_ms: int) -> int:
    """How many of these batches are in flight at once."""
    one.to_append.extend(map(batch, newest_ms))
    while one.may_append(MS):
        one.appending.append(one.to_append.popleft().newest_ms)
    return len(one.appending)


def test_batches_of_these_hours_are_in_flight_together_up_to_what_a_broker_knows_again() -> None:
    assert sent_before_an_answer(lane(), *[MS] * 7) == IN_FLIGHT


@pytest.mark.parametrize("old_ms", [-1, MS - OLD_MS], ids=["without a time", "of yesterday"])
def test_no_batch_is_in_flight_with_one_for_which_brokers_may_forget_the_copier(old_ms: int) -> None:
    # Whether it is sent first, or next
    assert sent_before_an_answer(lane(), old_ms, MS) == 1
    assert sent_before_an_answer(lane(), MS, MS, old_ms, MS) == 2
    # or was appended last: the broker may refuse the first of those behind it, and take the second
    one = lane()
    one.appended_ms = old_ms
    assert sent_before_an_answer(one, MS, MS) == 1
    one = lane()
    one.appended_ms = MS
    assert sent_before_an_answer(one, MS, MS) == 2
