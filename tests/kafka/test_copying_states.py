"""Status of a partition by state, and retries after failures."""

import pytest

from ha_core.kafka.copying.states import IN_FLIGHT, OLD_MS, AwaitingTakeover, CopyLane, StoppedCopy, not_copied
from ha_core.kafka.copying.statuses import SourceEnds
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


def test_pauses_grow_after_the_first_failure() -> None:
    state, now, waits = AwaitingTakeover("", 0.0), 100.0, list[float]()
    for _ in range(12):
        state = state.again("no leader", now)
        waits.append(state.until - now)
    assert [round(one, 3) for one in waits[:3]] == [0.0, 0.1, 0.2]
    assert waits[-1] == 30.0
    assert waits == sorted(waits)


def test_lag_is_the_time_between_copied_and_newest_known_records() -> None:
    # Given a partition without any facts
    copy_lane = lane()
    assert copy_lane.status(1.0, NOW_MS).lag_ms is None
    # When a record of several is copied, and the source says that it has newer ones
    copy_lane.ends, copy_lane.newest_ms = SourceEnds(8, 8), MS + 60_000
    copy_lane.partition.fetched(bytearray(records(0, range(3)) + records(3, range(3))))
    copy_lane.partition.noted()
    copy_lane.partition.appended(0)
    status = copy_lane.status(1.0, NOW_MS)
    assert (status.lag_records, status.lag_ms) == (5, 60_000 - 6)
    # Then it lags until all of it is copied
    copy_lane.partition.appended(3)
    copy_lane.partition.fetched(bytearray(records(6, range(2))))
    copy_lane.partition.noted()
    copy_lane.partition.appended(6)
    assert copy_lane.status(1.0, NOW_MS)[:5] == ("copying", 8, (8, 8), "", 0)


def test_records_above_an_open_transaction_count_as_lag() -> None:
    # Given a source without more to copy, and 20 records above an open transaction
    copy_lane = lane()
    copy_lane.hear(SourceEnds(0, 0), asked_at=10.0)
    copy_lane.hear(SourceEnds(0, 20), asked_at=12.0)
    # When its status is read 30 s later
    status = copy_lane.status(14.0, NOW_MS)
    # Then they count as possible loss while they exist, but cannot be copied
    assert (status.lag_records, status.to_copy, status.lag_ms, status.rpo_s) == (20, 0, 4_000, 4.0)
    assert not copy_lane.lags


def test_rpo_counts_from_now_until_a_copier_reaches_an_end() -> None:
    # Given a backlog written within a second, of which the first record is copied
    copy_lane = lane()
    copy_lane.partition.fetched(bytearray(records(0, range(1))))
    copy_lane.partition.noted()
    copy_lane.partition.appended(0)
    copy_lane.newest_ms = MS + 1_000
    copy_lane.hear(SourceEnds(100, 100), asked_at=5.0)
    # Then missing records are as old as their timestamps say, and at least as old as their first sight
    assert copy_lane.status(5.0, MS + 40_000).rpo_s == 40.0
    assert copy_lane.status(50.0, MS).rpo_s == 45.0
    # And no RPO is reported if no record is copied
    other = lane()
    other.hear(SourceEnds(100, 100), asked_at=5.0)
    assert other.status(50.0, NOW_MS).rpo_s is None


def test_lag_grows_while_the_source_is_silent() -> None:
    copy_lane = lane()
    copy_lane.hear(SourceEnds(0, 0), asked_at=10.0)
    copy_lane.trouble = "it has no leader"
    assert copy_lane.status(10.5, NOW_MS).unheard_s is None
    status = copy_lane.status(610.0, NOW_MS)
    assert (status.lag_records, status.lag_ms, status.unheard_s) == (0, 600_000, 600.0)


@pytest.mark.parametrize("state", [StoppedCopy("why"), AwaitingTakeover("why", 0.0)])
def test_lag_of_an_uncopied_partition_is_unknown(state: StoppedCopy | AwaitingTakeover) -> None:
    lag_tracker = LagTracker()
    assert not_copied(state, lag_tracker, 100.0).rpo_s is None
    lag_tracker.saw(40.0, end=5, copied=5)
    status = not_copied(state, lag_tracker, 100.0)
    assert (status.source, status.ends, status.lag_records, status.to_copy, status.rpo_s) == (
        None,
        None,
        None,
        None,
        60.0,
    )
    assert not status.has(0)
    assert not status.within(1_000_000)


def test_silent_source_means_waiting_with_the_last_figures() -> None:
    copy_lane = lane()
    copy_lane.ends, copy_lane.trouble = SourceEnds(8, 8), "it has no leader"
    assert copy_lane.status(1.0, NOW_MS)[:4] == ("waiting", 0, (8, 8), "it has no leader")


def test_coverage_has_the_newest_runs_and_whether_the_copy_is_near() -> None:
    # Given a copy with a gap in its source, and a source that has shown much newer records
    copy_lane = lane()
    copy_lane.ends, copy_lane.newest_ms = SourceEnds(9, 9), MS + 60_000
    for first in (0, 5):
        copy_lane.partition.fetched(bytearray(records(first, range(3))))
        copy_lane.partition.noted()
        copy_lane.partition.appended(0 if not first else 3)
    # Then its runs are reported, and that readers should not wait for it
    copy_lane.source_start = 2
    assert copy_lane.known(10, 1.0, NOW_MS) == (8, False, (Run(0, 0, 3), Run(5, 3, 3)), 2, 6, 0)
    assert copy_lane.known(1, 1.0, NOW_MS).runs == (Run(5, 3, 3),)
    # When the source has nothing newer
    copy_lane.ends = SourceEnds(8, 8)
    assert copy_lane.known(1, 1.0, NOW_MS).level
    # And when the source falls silent
    copy_lane.trouble = "it has no leader"
    assert not copy_lane.known(1, 1.0, NOW_MS).level


def test_successor_reads_the_copy_log_from_the_oldest_relevant_note() -> None:
    copy_lane = lane()
    copy_lane.noted_at.extend([(0, 100), (1, 105), (2, 107)])
    copy_lane.recorded_as(Progress(Writer(7, 0), 0, 0, number=0), 110, 1.0)
    assert copy_lane.since == 105
    copy_lane.recorded_as(Progress(Writer(7, 0), 0, 0, number=2), 120, 1.0)
    assert copy_lane.since == 120


def batch(newest_ms: int) -> Claimed:
    return Claimed((), memoryview(b""), newest_ms)


def sent_before_an_answer(copy_lane: CopyLane, *newest_ms: int) -> int:
    """Number of these batches in flight at once."""
    copy_lane.to_append.extend(map(batch, newest_ms))
    while copy_lane.may_append(MS):
        copy_lane.appending.append(copy_lane.to_append.popleft().newest_ms)
    return len(copy_lane.appending)


def test_recent_batches_are_in_flight_up_to_the_brokers_limit() -> None:
    assert sent_before_an_answer(lane(), *[MS] * 7) == IN_FLIGHT


@pytest.mark.parametrize("old_ms", [-1, MS - OLD_MS], ids=["without a time", "of yesterday"])
def test_old_batch_is_in_flight_alone(old_ms: int) -> None:
    # Whether it is sent first, or next
    assert sent_before_an_answer(lane(), old_ms, MS) == 1
    assert sent_before_an_answer(lane(), MS, MS, old_ms, MS) == 2
    # or was appended last: the broker may refuse the first of those after it, and take the second
    copy_lane = lane()
    copy_lane.appended_ms = old_ms
    assert sent_before_an_answer(copy_lane, MS, MS) == 1
    copy_lane = lane()
    copy_lane.appended_ms = MS
    assert sent_before_an_answer(copy_lane, MS, MS) == 2
