"""A partition copied batch by batch: the contents of the copy, and the notes written before."""

from struct import pack
from typing import Any

import pytest
from kafka.record.default_records import DefaultRecordBatch

from ha_core.mirror import partition as limits
from ha_core.mirror.partition import SLOTS, Aborted, PartitionCopy
from ha_core.mirror.progress import DisplacedError, Progress, Writer
from ha_core.mirror.recovery import DataEnd, recover
from ha_core.mirror.split import split
from ha_core.model import Run
from ha_core.wire.errors import RemoteProtocolError
from ha_core.wire.records import batches
from tests.mirror.batches import MS, Target, empty, marker, records

START = Progress(Writer(900, 3), source=0, target=0)
CODECS = pytest.mark.parametrize("codec", [0, 1, 2, 3, 4], ids=["none", "gzip", "snappy", "lz4", "zstd"])


def content(record: Any) -> tuple[Any, ...]:
    return record.key, record.value, record.headers, record.timestamp


@CODECS
def test_copy_has_the_records_at_the_offsets_of_its_map(codec: int) -> None:
    # Given batches, one of them compacted in its middle and at its end
    data = [records(0, range(4), codec), records(4, (0, 1, 4, 5, 9), codec), records(20, range(2), codec)]
    copy, target = PartitionCopy(START), Target(START.writer)
    # When they are copied
    target.copy_all(copy, b"".join(data))
    # Then every record is there once
    source = {record.offset: content(record) for one in data for record in DefaultRecordBatch(one)}
    found = {
        run.source + target_offset - run.target: content(record)
        for target_offset, record in target.log
        for run in copy.progress.runs
        if run.target <= target_offset < run.target + run.records
    }
    assert found == source
    # And each gap begins a run
    assert copy.progress.runs == (Run(0, 0, 6), Run(8, 6, 2), Run(13, 8, 1), Run(20, 9, 2))
    assert copy.next_offset == 22
    # And a successor recovers the same state
    assert recover(START, target.intents, DataEnd(11)) == copy.progress


def test_an_answer_is_held_until_its_last_batch_is_appended() -> None:
    # Given an answer of three batches, one without anything to copy, and one of a batch
    first, second = records(0, range(4)) + records(4, range(4)) + records(8, range(4)), records(13, range(2))
    copy = PartitionCopy(START)
    for data in (first, marker(12, 5, 1), second):
        copy.fetched(bytearray(data))
    assert copy.held == len(first) + len(second)
    held = []
    # When one after the other is appended
    for _ in range(2):
        for _ in copy.noted():
            copy.appended(copy.progress.target)
            held.append(copy.held)
    # Then the first buffer is held until all of it is appended
    assert held == [len(first) + len(second)] * 2 + [len(second), 0]


def test_split_batches_are_held_beside_the_receive_buffer() -> None:
    # Given an answer in a shared buffer, with an unchanged batch and one with a gap; and an answer with only the latter
    plain, gap = records(0, range(4)), records(4, (0, 1, 3))
    copy, shared = PartitionCopy(START), bytearray(1000)
    part = memoryview(shared)[100:][: len(plain + gap)]
    part[:] = plain + gap
    copy.fetched(part)
    made, held = copy.made, copy.held
    assert 0 < made < 2 * len(gap)
    assert held == len(plain + gap) + made
    copy.fetched(bytearray(records(8, (0, 2))))
    # Then only the buffer of the first is held
    assert [id(one) for one in copy.buffers] == [id(shared)]
    assert copy.held - held == copy.made - made > 0
    # When all of it is appended
    for _ in range(2):
        for _ in copy.noted():
            copy.appended(copy.progress.target)
    # Then nothing is held
    assert (copy.held, copy.made, list(copy.buffers)) == (0, 0, [])


def test_only_committed_records_are_copied() -> None:
    # Given a transaction that was aborted beside one that was committed
    data = b"".join(
        [
            records(0, range(3), producer=5, sequence=0, transactional=True),
            records(3, range(2), producer=6, sequence=0, transactional=True),
            marker(5, 5, 0),
            marker(6, 6, 1),
            records(7, range(2), producer=5, sequence=3, transactional=True),
            marker(9, 5, 1),
        ]
    )
    copy, target = PartitionCopy(START), Target(START.writer)
    # When they are copied
    target.copy_all(copy, data, (Aborted(5, 0),))
    # Then the aborted records and the markers are gaps
    assert copy.progress.runs == (Run(3, 0, 2), Run(7, 2, 2))
    assert copy.progress.producers == {6: (1, 1), 5: (1, 4)}
    assert copy.next_offset == 10


def test_answer_without_anything_to_copy_is_skipped() -> None:
    copy = PartitionCopy(START)
    aborted = records(0, range(3), producer=5, sequence=0, transactional=True) + marker(3, 5, 0)
    assert copy.fetched(bytearray(aborted), (Aborted(5, 0),)) == []
    assert (copy.next_offset, copy.idle) == (4, True)


def test_a_batch_that_begins_before_the_next_offset_is_copied_from_there_on() -> None:
    copy, target = PartitionCopy(Progress(START.writer, source=2, target=0)), Target(START.writer)
    target.copy_all(copy, records(0, range(5), producer=7, sequence=10))
    assert copy.progress.runs == (Run(2, 0, 3),)
    assert copy.progress.producers == {7: (1, 14)}


def test_records_compacted_at_the_end_of_a_batch_count_for_its_producer() -> None:
    batch = bytearray(records(0, (0, 2), producer=7, sequence=10))
    batch[23:27] = pack(">i", 6)  # the last offset stays when the last records go
    copy, target = PartitionCopy(START), Target(START.writer)
    target.copy_all(copy, bytes(batch))
    assert copy.progress.producers == {7: (1, 16)}
    assert copy.next_offset == 7


def test_log_append_times_are_kept() -> None:
    batch = bytearray(records(0, range(3)))
    batch[21:23] = pack(">h", 8)
    ((copied, data),) = split(batch, next(batches(batch, 0, len(batch))), 0)
    assert copied.records == 3
    assert {record.timestamp for record in DefaultRecordBatch(bytes(data))} == {MS + 6}


def test_a_batch_that_cannot_be_read_is_named() -> None:
    broken = bytearray(records(0, (0, 2), codec=3))
    broken[70:80] = b"x" * 10
    with pytest.raises(RemoteProtocolError, match="batch at offset 0"):
        PartitionCopy(START).fetched(broken)


def test_foreign_writes_are_noticed_at_the_next_append() -> None:
    copy = PartitionCopy(START)
    copy.fetched(bytearray(records(0, range(3))))
    copy.noted()
    with pytest.raises(DisplacedError, match="offset 4, and 0 comes next"):
        copy.appended(4)


def test_intent_slots_are_not_reused_before_a_progress() -> None:
    # Given a copy whose progress is never written
    copy, target = PartitionCopy(START), Target(START.writer)
    at = 0
    while copy.has_slots:
        target.copy_all(copy, records(at, range(1)))
        at += 1
    # Then it stops before the first slot would be overwritten, and a progress has long been due
    assert len({intent.number % SLOTS for intent in target.intents}) == len(target.intents) == SLOTS - 1
    assert copy.due
    # When it is written
    copy.recorded(copy.progress)
    # Then it continues
    assert copy.has_slots
    assert not copy.due


def test_bytes_in_flight_are_counted() -> None:
    copy, data = PartitionCopy(START), records(0, range(50))
    copy.fetched(bytearray(data))
    assert copy.bytes == len(data)
    for _ in copy.noted():
        copy.appended(0)
    assert copy.bytes == 0


def test_tiny_batches_are_spread_over_intents_and_the_rest_is_refetched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given an answer of more batches than fit into the intents that may be open
    monkeypatch.setattr(limits, "MAX_BATCHES", 10)
    data = b"".join(records(at, range(1)) for at in range(10 * SLOTS + 5))
    copy, target = PartitionCopy(START), Target(START.writer)
    # When it is taken
    intents = copy.fetched(bytearray(data))
    # Then no intent is over its limit, and the next fetch begins where they end
    assert [len(intent.batches) for intent in intents] == [10] * (SLOTS - 1)
    assert copy.next_offset == 10 * (SLOTS - 1)
    # And once a progress is written the rest follows
    for _ in intents:
        for ready in copy.noted():
            copy.appended(target.append(bytes(ready.data)))
    copy.recorded(copy.progress)
    target.copy_all(copy, data)
    assert copy.progress.runs == (Run(0, 0, 10 * SLOTS + 5),)


def test_a_batch_with_more_gaps_than_an_intent_takes_is_copied_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "MAX_BATCHES", 3)
    copy, target = PartitionCopy(START), Target(START.writer)
    data = records(0, range(0, 600, 2))
    while copy.next_offset < 599:
        target.copy_all(copy, data)
        copy.recorded(copy.progress)
    assert copy.progress.runs == tuple(Run(2 * i, i, 1) for i in range(300))
    assert max(len(intent.batches) for intent in target.intents) == 3


def test_batches_of_two_leader_epochs_are_in_separate_intents() -> None:
    copy = PartitionCopy(START)
    data = records(0, range(2), leader_epoch=4) + records(2, range(2), leader_epoch=7) + marker(4, 5, 1)
    assert [intent.leader_epoch for intent in copy.fetched(bytearray(data))] == [4, 7]
    # The marker was written by the leader of epoch 0, as far as it says: it is below the next offset
    assert (copy.next_offset, copy.next_epoch) == (5, 0)
    for _ in copy.noted():
        copy.appended(0)
    assert copy.progress.leader_epoch == 4


def test_producer_with_compacted_last_records_is_known() -> None:
    copy, target = PartitionCopy(START), Target(START.writer)
    target.copy_all(copy, records(0, range(2)) + empty(2, 4, producer=7, sequence=10) + records(7, range(1)))
    assert copy.progress.producers == {7: (1, 14)}
    assert copy.progress.runs == (Run(0, 0, 2), Run(7, 2, 1))
    assert recover(START, target.intents, DataEnd(3)) == copy.progress


def test_copied_time_follows_seen_time() -> None:
    copy = PartitionCopy(START)
    copy.fetched(bytearray(records(0, range(3)) + records(3, range(5))))
    first, _ = copy.noted()
    assert (copy.copied_ms, copy.seen_ms) == (-1, MS + 12)
    copy.appended(0)
    assert copy.copied_ms == first.newest_ms == MS + 6


def test_emptied_marker_is_skipped_and_ends_no_transaction() -> None:
    # Given an emptied marker in the middle of an aborted transaction of its producer, and another one at the end
    data = b"".join(
        [
            records(0, range(2)),
            records(2, range(2), producer=5, sequence=0, transactional=True),
            empty(4, 0, 5, -1, attributes=0x30),
            records(5, range(2), producer=5, sequence=2, transactional=True),
            marker(7, 5, 0),
            empty(8, 0, 6, -1, attributes=0x30),
        ]
    )
    copy, target = PartitionCopy(START), Target(START.writer)

    target.copy_all(copy, data, (Aborted(5, 2),))

    assert copy.progress.runs == (Run(0, 0, 2),)
    assert copy.next_offset == 9
