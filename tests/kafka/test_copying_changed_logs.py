"""Sources whose logs differ from what producers wrote: stamped by brokers, compacted, truncated at their start."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

import pytest
from confluent_kafka import OFFSET_BEGINNING, TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, Consumer, TopicPartition
from confluent_kafka import Producer as Client
from confluent_kafka.admin import AdminClient

from ha_core.kafka.admin import Admin
from ha_core.kafka.facts import TopicSpec
from ha_core.kafka.takeover import TakenOver
from ha_core.kafka.verifying import Coverage, compare, plan
from ha_core.model import Mirror
from ha_core.model.extent import Extents, Hole, Location, check, identity, locate
from ha_core.plan.mirror.standby import switched
from tests.kafka.clients import Settings, produce
from tests.kafka.mirroring import (
    LOG,
    LOG_PARTITIONS,
    Headers,
    Linked,
    caught_up,
    copy_of,
    copying,
    states,
    stopped,
    wait_until,
)
from tests.kit.consumed import place_of

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("copy_logs")]
Fresh = Callable[[str], str]
OLD_MS = 1_600_000_000_000


class Record(NamedTuple):
    key: bytes | None
    value: bytes | None
    headers: object
    ms: int
    stamped: int
    """Its kind: TIMESTAMP_…"""

    @property
    def said(self) -> tuple[object, ...]:
        """All fields except the kind of timestamp."""
        return self[:4]


def placed(base: Settings, topic: str, partition: int = 0) -> dict[int, Record]:
    """Offset → the record that a consumer reads there, ascending."""
    consumer = Consumer({**base, "group.id": "reads", "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    records: dict[int, Record] = {}
    try:
        while True:
            message = consumer.poll(20)
            assert message is not None
            if message.error():
                return records
            stamped, ms = message.timestamp()
            _, _, offset = place_of(message)
            records[offset] = Record(message.key(), message.value(), message.headers(), ms, stamped)
    finally:
        consumer.close()


def require_equal(east: Admin, west: Admin, topic: str) -> int:
    """`verify` finds no difference in all records; returns how many it counts as gone in the source."""
    mirror = Mirror.of(topic, "east", "west", "east-west", "2026-01-01T00:00:00Z", "test")
    gone = 0
    for ranges in plan(east, west, mirror.changed(log=LOG, log_partitions=LOG_PARTITIONS), Coverage()):
        comparisons = [compare(east, west, (topic, ranges.partition), span, ranges.compacted) for span in ranges.ranges]
        assert (ranges.damage, ranges.not_copied, [each.first for each in comparisons if each.first]) == (None, 0, [])
        assert sum(each.compared for each in comparisons) > 0
        gone += ranges.gone_in_source + sum(each.gone_in_source for each in comparisons)
    return gone


def switched_map(east: Admin, west: Admin, topic: str, partition: int = 0) -> Extents:
    """The map of the partition if it were switched to its copy now."""
    copy = copy_of(topic, partition)
    end = east.ends([copy.key])[copy.key].log_end
    taken = west.take_over([copy], whole_map=True)[copy.id]
    assert isinstance(taken, TakenOver), taken
    return switched(identity("east"), "east", "west", taken.runs, end, taken.end, whole=True)


def require_led_right(extents: Extents, source: Mapping[int, Record], copied: Mapping[int, Record], end: int) -> None:
    """Each record of the source is read from the copy at its client offset, and nothing else below its end."""
    assert list(check(extents)) == []
    for offset in range(end):
        found = locate(extents, offset)
        if offset in source:
            assert isinstance(found, Location), offset
            assert (found.extent.cluster, copied[found.physical].said) == ("west", source[offset].said)
        else:
            assert isinstance(found, Hole), offset


def test_log_append_times_of_the_source_are_kept_in_the_copy(
    east: Admin, west: Admin, here: Settings, there: Settings, fresh: Fresh
) -> None:
    # Given a topic whose brokers stamp records, whatever producers say, and its copy, which must not be stamped anew
    name, codecs = fresh("stamped"), ("none", "zstd")
    east.create_topics([TopicSpec(name, len(codecs), 1, {"message.timestamp.type": "LogAppendTime"})])
    west.create_topics([TopicSpec(name, len(codecs), 3, {"message.timestamp.type": "CreateTime"})])
    began_ms = time.time_ns() // 1_000_000
    for partition, codec in enumerate(codecs):
        client = Client({**here, "compression.type": codec, "linger.ms": 20})
        for batch in range(5):
            for number in range(7):
                headers: Headers = [("n", b"%d" % number)]
                value = b"%d-%d" % (batch, number)
                client.produce(name, value, b"k", partition, timestamp=OLD_MS + number, headers=headers)
            assert client.flush(30) == 0
    # When it is copied, some time later
    time.sleep(0.2)
    with copying(east, west, [copy_of(name, partition) for partition in range(len(codecs))]) as job:
        wait_until(lambda: caught_up(job, {(name, p): 35 for p in range(len(codecs))}), job.statuses)
    # Then each record has the time that its broker gave it
    for partition in range(len(codecs)):
        source, copied = placed(here, name, partition), placed(there, name, partition)
        assert [record.said for record in copied.values()] == [record.said for record in source.values()]
        assert {record.stamped for record in source.values()} == {TIMESTAMP_LOG_APPEND_TIME}
        assert {record.stamped for record in copied.values()} == {TIMESTAMP_CREATE_TIME}
        times = [record.ms for record in copied.values()]
        assert began_ms <= times[0] < times[-1]
        require_led_right(switched_map(east, west, name, partition), source, copied, 35)
    assert require_equal(east, west, name) == 0


def holes_inside(admin: Admin, topic: str, partition: int) -> int:
    """Batches of which compaction has removed some records."""
    end = admin.ends([(topic, partition)])[topic, partition].log_end
    found = (piece.batch for piece in admin.log((topic, partition), 0, end))
    return sum(0 < batch.records_count <= batch.last_offset_delta for batch in found)


def test_a_topic_that_was_compacted_before_it_is_copied_keeps_its_records_and_its_holes(
    east: Admin, west: Admin, here: Settings, there: Settings, fresh: Fresh
) -> None:
    # Given a topic whose keys are written in turns, so that the cleaner leaves batches with holes inside
    name, codecs, turns = fresh("compacted"), ("none", "lz4"), range(2)
    often = {"min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "1000", "segment.ms": "1000"}
    east.create_topics([TopicSpec(name, len(codecs), 1, {"cleanup.policy": "compact", **often})])
    west.create_topics([TopicSpec(name, len(codecs), 3, {"cleanup.policy": "compact"})])
    clients = [Client({**here, "compression.type": codec, "linger.ms": 50}) for codec in codecs]
    for client, partition in zip(clients, turns, strict=True):
        for written in (range(40), range(0, 40, 3), range(0, 40, 4), (7, 8, 9, 10)):
            for number in written:
                value = None if number == 9 and written == (7, 8, 9, 10) else b"%d of %d" % (number, len(written))
                client.produce(name, value, b"k%d" % number, partition, headers=[("n", b"%d" % number)])
            assert client.flush(30) == 0

    def cleaned() -> bool:
        for client, partition in zip(clients, turns, strict=True):
            client.produce(name, b"rolls the segment", b"tick", partition)
            assert client.flush(30) == 0
        time.sleep(0.3)
        return all(holes_inside(east, name, partition) > 1 for partition in turns)

    wait_until(cleaned, lambda: [holes_inside(east, name, partition) for partition in turns], 60)
    before = [placed(here, name, partition) for partition in turns]
    # When it is copied
    ends = {key: one.log_end for key, one in east.ends([(name, partition) for partition in turns]).items()}
    with copying(east, west, [copy_of(name, partition) for partition in turns]) as job:
        wait_until(lambda: caught_up(job, ends), job.statuses)
    # Then the copy has the remaining records, each reachable after a switch, and no others
    for partition in turns:
        left, copied = placed(here, name, partition), placed(there, name, partition)
        said = [record.said for record in copied.values()]
        assert [record.said for record in before[partition].values() if record.said in said] == said
        assert set(left) <= set(before[partition])
        kept = {offset: record for offset, record in before[partition].items() if record.said in said}
        assert set(left) <= set(kept)
        assert len(kept) < ends[name, partition] - 10
        require_led_right(switched_map(east, west, name, partition), kept, copied, ends[name, partition])
    require_equal(east, west, name)


def delete_records(base: Settings, topic: str, before: int) -> None:
    admin, where = AdminClient(base), TopicPartition(topic, 0, before)
    admin.delete_records([where])[where].result(30)


@pytest.fixture
def name(linked: Linked, here: Settings) -> str:
    """A topic with 100 records in batches of ten, and its empty copy."""
    topic = linked()
    for _ in range(10):
        produce(here, topic, 10, linger_ms="50")
    return topic


@pytest.mark.parametrize("start", [40, 37, 100], ids=["between batches", "in a batch", "nothing is left"])
def test_a_source_that_starts_above_0_is_copied_from_there(
    east: Admin, west: Admin, here: Settings, there: Settings, name: str, start: int
) -> None:
    # Given a topic whose first records were deleted before copying began
    delete_records(here, name, start)
    with copying(east, west, [copy_of(name)], starts={}) as job:
        wait_until(lambda: states(job) == {"copying"}, job.statuses)
        # When it is copied, and written to
        produce(here, name, 5)
        wait_until(lambda: caught_up(job, {(name, 0): 105}), job.statuses)
    # Then the copy has the remaining records at their client offsets, above a hole
    source, copied = placed(here, name), placed(there, name)
    assert list(source) == list(range(start, 105))
    assert [record.said for record in copied.values()] == [record.said for record in source.values()]
    require_led_right(switched_map(east, west, name), source, copied, 105)
    assert require_equal(east, west, name) == 0


def test_records_deleted_below_the_position_of_a_copier_stay_in_the_copy_and_it_goes_on(
    east: Admin, west: Admin, here: Settings, there: Settings, name: str
) -> None:
    source = placed(here, name)
    with copying(east, west, [copy_of(name)]) as job:
        wait_until(lambda: caught_up(job, {(name, 0): 100}), job.statuses)
        # When records that it has copied are deleted, also all of them, while it is at work
        for start, reached in ((45, 105), (105, 110)):
            delete_records(here, name, start)
            produce(here, name, 5)
            source |= placed(here, name)
            wait_until(partial(caught_up, job, {(name, 0): reached}), job.statuses)
    # Then the copy has them all, at their client offsets
    copied = placed(there, name)
    assert [record.said for record in copied.values()] == [record.said for record in source.values()]
    require_led_right(switched_map(east, west, name), source, copied, 110)
    assert require_equal(east, west, name) == 105


def test_records_deleted_above_the_position_of_a_copier_stop_it_with_their_number(
    east: Admin, west: Admin, here: Settings, there: Settings, name: str
) -> None:
    # Given a copier held back by a limit, so that it lags far
    client = Client({**here, "linger.ms": 0})
    for number in range(60):
        client.produce(name, bytes([number]) * 20_000, partition=0)
        assert client.flush(30) == 0
    source = placed(here, name)
    with copying(east, west, []) as job:
        job.limit(None, {("east-west", name): 20_000})
        job.add([copy_of(name)], {})
        wait_until(
            lambda: any(status.has(1) and not status.has(155) for status in job.statuses().values()), job.statuses
        )
        # When records are deleted that it has not copied
        delete_records(here, name, 158)
        # Then it stops, and reports how many it cannot copy any more
        reason = stopped(job, "retention has overtaken the copy").reason
    # And nothing was appended above the gap, which would hide it
    copied = placed(there, name)
    assert [record.said for record in copied.values()] == [source[offset].said for offset in range(len(copied))]
    assert f"begins at 158, and offset {len(copied)} would be copied next" in reason
    assert f"{158 - len(copied)} offsets are lost to it" in reason
