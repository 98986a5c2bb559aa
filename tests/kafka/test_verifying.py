"""Copies on real clusters compared with their sources, while copiers are at work and after foreign changes."""

import threading
import time
from collections.abc import Callable
from functools import partial

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ha_core.kafka.admin import Admin
from ha_core.kafka.facts import TopicSpec
from ha_core.kafka.verifying import Coverage, PartitionRanges, compare, kept_ms, outlived, plan
from ha_core.mirror.key_states import NEITHER
from ha_core.mirror.notes import encode, log_partition
from ha_core.mirror.partition_diff import Compared
from ha_core.mirror.progress import Copied, Progress, Writer
from ha_core.model import Mirror
from tests.kafka.clients import Settings, produce
from tests.kafka.mirroring import (
    LOG,
    LOG_PARTITIONS,
    Headers,
    Linked,
    all_are,
    caught_up,
    content,
    copy_of,
    copying,
    wait_until,
)

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("copy_logs")]
Fresh = Callable[[str], str]
MS = 1_600_000_000_000
GONE = ("gone_in_source", "gone_in_copy")


def mirror_of(topic: str) -> Mirror:
    made = Mirror.of(topic, "east", "west", "east-west", "2026-01-01T00:00:00Z", "test")
    return made.changed(log=LOG, log_partitions=LOG_PARTITIONS)


def verify(east: Admin, west: Admin, topic: str, records: int = 500) -> list[tuple[PartitionRanges, list[Compared]]]:
    """Results of each partition's ranges."""
    return [
        (ranges, [compare(east, west, (topic, ranges.partition), span, ranges.compacted) for span in ranges.ranges])
        for ranges in plan(east, west, mirror_of(topic), Coverage(records=records))
    ]


def noted_source(west: Admin, topic: str) -> int:
    """Source offset in the newest note of the copier about its progress."""
    (notes,) = west.notes_of([copy_of(topic)]).values()
    return notes.progress.source if notes.progress else 0


FOR_EVER = {"retention_ms": "-1"}
"""Some records are years old, which retention would delete."""


def delete(base: Settings, topic: str, before: int) -> None:
    admin = AdminClient(base)
    for deleted in admin.delete_records([TopicPartition(topic, 0, before)]).values():
        deleted.result(30)


def old_enough(east: Admin, west: Admin, topic: str) -> dict[str, bool]:
    """True per topic if by retention time the source may delete the records that its copy has deleted."""
    key, now_ms = (topic, 0), int(time.time() * 1000) + 60_000
    both = {key: (east.ends([key])[key], west.ends([key])[key])}
    kept = {"a moment": 1_000, "an hour": 3_600_000, "for ever": None}
    return {words: key in outlived(east, west, both, {topic: ms}, now_ms) for words, ms in kept.items()}


@pytest.mark.parametrize(
    ("config", "defaults", "kept"),
    [
        ({"retention.ms": "5"}, {"retention.ms": "7"}, 5),
        ({}, {"retention.ms": "7"}, 7),
        ({"retention.ms": "-1"}, {"retention.ms": "7"}, None),
        ({"cleanup.policy": "compact"}, {"retention.ms": "7"}, None),
        ({}, {}, None),
    ],
)
def test_a_source_retains_records_by_its_brokers_settings(
    config: dict[str, str], defaults: dict[str, str], kept: int | None
) -> None:
    assert kept_ms(TopicSpec("t", 1, 1, config, defaults=defaults)) == kept


def transactions(base: Settings, topic: str, count: int) -> int:
    """Writes transactions and aborts every third; returns the number of committed records."""
    producer = Producer(base | {"transactional.id": topic})
    producer.init_transactions(30)
    for number in range(count):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number, partition=0)
        producer.produce(topic, b"%d again" % number, partition=0)
        if number % 3:
            producer.commit_transaction(30)
        else:
            producer.flush(30)
            producer.abort_transaction(30)
    return 2 * (count - (count + 2) // 3)


def test_a_copy_of_everything_that_producers_write_is_equal_while_it_is_copied(
    east: Admin, west: Admin, here: Settings, linked: Linked
) -> None:
    # Given records of every compression, committed and aborted ones, copied by two copiers one after the other
    name = linked(2, **FOR_EVER)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        produce(here, name, 700, partition=0, compression_type=codec, batch_num_messages="20")
    produce(here, name, 300, partition=1, linger_ms="0")
    copies = [copy_of(name, partition) for partition in range(2)]
    with copying(east, west, copies) as job:
        wait_until(lambda: caught_up(job, {(name, 0): 3500, (name, 1): 300}), job.statuses)
    committed = transactions(here, name, 20)
    end = east.ends([(name, 0)])[name, 0].log_end
    with copying(east, west, copies) as job:
        wait_until(lambda: caught_up(job, {(name, 0): end, (name, 1): 300}), job.statuses)
        # When they are compared while the copier runs
        first, second = verify(east, west, name)
    # Then all records are equal, and only batches cut by ranges are decoded
    assert [comparison.first for _, comparisons in (first, second) for comparison in comparisons] == [None] * 9
    assert [sum(comparison.compared for comparison in comparisons) for _, comparisons in (first, second)] == [
        3500 + committed,
        300,
    ]
    assert [plan.not_copied for plan, _ in (first, second)] == [1, 0]  # the last marker, behind which nothing came
    assert sum(comparison.read for _, comparisons in (first, second) for comparison in comparisons) < 500


def test_a_copy_is_equal_at_every_moment_while_copiers_are_taken_over(
    east: Admin, west: Admin, here: Settings, linked: Linked
) -> None:
    # Given a topic that is written all the time, and copiers that take each other over
    name = linked(**FOR_EVER)
    produce(here, name, 10)
    stopped = threading.Event()

    def write() -> None:
        while not stopped.is_set():
            produce(here, name, 50, linger_ms="0")

    writing = threading.Thread(target=write)
    writing.start()
    try:
        looks = []
        for _ in range(4):
            with copying(east, west, [copy_of(name)]) as job:
                wait_until(partial(all_are, job, "copying"), job.statuses)
                until = time.monotonic() + 2
                while time.monotonic() < until:
                    looks.append(verify(east, west, name)[0])
    finally:
        stopped.set()
        writing.join(30)
    # Then it is equal at every look, with more records each time
    assert [(look.damage, [r.first for r in found if r.first]) for look, found in looks] == [(None, [])] * len(looks)
    counts = [sum(one.compared for one in found) for _, found in looks]
    assert counts == sorted(counts)
    assert counts[-1] > counts[0]


def test_records_deleted_on_either_side_are_counted(
    east: Admin, west: Admin, here: Settings, there: Settings, linked: Linked
) -> None:
    # Given two copies
    names = [linked(**FOR_EVER), linked(**FOR_EVER)]
    for name in names:
        produce(here, name, 1000, batch_num_messages="5")
    with copying(east, west, [copy_of(name) for name in names]) as job:
        wait_until(lambda: caught_up(job, dict.fromkeys([(name, 0) for name in names], 1000)), job.statuses)
    # When records are deleted in the source of one, and in the other
    for base, name in ((here, names[0]), (there, names[1])):
        delete(base, name, 300)
    # Then they are no difference, and records that only the source has are missing
    ((at_source, comparisons),) = verify(east, west, names[0])
    assert (at_source.gone_in_source, sum(comparison.compared for comparison in comparisons)) == (300, 700)
    ((in_copy, found_too),) = verify(east, west, names[1])
    assert in_copy.before_reading == Compared(gone_in_copy=299, lacking=299)  # the copy begins with a marker
    assert sum(comparison.compared for comparison in found_too) == 701
    assert not any(comparison.first or comparison.lacking for comparison in [*comparisons, *found_too])
    assert old_enough(east, west, names[1]) == {"a moment": True, "an hour": False, "for ever": False}
    # When all records of the copy are deleted, whose copier has noted its position
    with copying(east, west, [copy_of(names[1])]) as job:
        wait_until(lambda: noted_source(west, names[1]) == 1000, job.statuses)
    end = west.ends([(names[1], 0)])[names[1], 0].log_end
    delete(there, names[1], end)
    # Then all its records are missing, also in a sample
    for share in (1.0, 0.01):
        (nothing,) = plan(east, west, mirror_of(names[1]), Coverage(share))
        assert (nothing.before_reading.lacking, nothing.of) == (1000, 0)
    assert old_enough(east, west, names[1]) == {"a moment": True, "an hour": False, "for ever": False}
    # When the rest of the source is deleted while a range of it is read
    (seen,) = plan(east, west, mirror_of(names[0]), Coverage())
    delete(here, names[0], 900)
    late = compare(east, west, (names[0], 0), seen.ranges[0], NEITHER)
    assert (late.compared, late.gone_in_source, late.first) == (100, 600, None)


def test_uncopied_and_foreign_records_are_reported(
    east: Admin, west: Admin, here: Settings, there: Settings, linked: Linked
) -> None:
    # Given a topic of which nothing is copied
    name = linked(**FOR_EVER)
    produce(here, name, 20)
    ((nothing, _),) = verify(east, west, name)
    assert (nothing.not_copied, nothing.damage and nothing.damage[::2]) == (20, (0, "nothing of it is copied yet"))
    # When a part is copied, and the copier is gone
    with copying(east, west, [copy_of(name)]) as job:
        wait_until(lambda: caught_up(job, {(name, 0): 20}), job.statuses)
    produce(here, name, 5)
    ((part, comparisons),) = verify(east, west, name)
    assert (part.not_copied, part.damage, sum(comparison.compared for comparison in comparisons)) == (5, None, 20)
    # When another producer writes to the copy
    produce(there, name, 3)
    ((foreign, comparisons),) = verify(east, west, name)
    assert foreign.damage is not None
    assert foreign.damage.offset == 20
    assert "is not the copier" in foreign.damage.what
    assert sum(comparison.compared for comparison in comparisons) == 20


Said = tuple[bytes | None, bytes | None, Headers, int]


def written(base: Settings, topic: str, records: list[Said]) -> None:
    producer = Producer(base | {"compression.type": "lz4", "linger.ms": 5})
    for key, value, headers, time_ms in records:
        producer.produce(topic, value, key, partition=0, headers=headers, timestamp=time_ms)
    assert producer.flush(30) == 0


RECORDS: list[Said] = [(b"k%d" % n, b"v%d" % n, [("h", b"%d" % n)], MS + n) for n in range(60)]


def noted(base: Settings, topic: str, records: int, partition: int = 0) -> None:
    """Writes notes that this number of records was copied, each to its offset."""
    id_ = copy_of(topic, partition).id
    key, value = encode(id_, Progress(Writer(1, 0), 0, 0).with_batches([Copied(0, records)]))
    noting = Producer(base)
    noting.produce(LOG, value, key, partition=log_partition(id_, LOG_PARTITIONS))
    assert noting.flush(30) == 0


def replaced(at: int, *said: object) -> list[Said]:
    return [*RECORDS[:at], said, *RECORDS[at + 1 :]]  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("copied", "offset", "what"),
    [
        (RECORDS, None, None),
        (replaced(17, b"k17", b"x", [("h", b"17")], MS + 17), 17, "another value"),
        (RECORDS[:20] + RECORDS[21:], 20, "another key, value, headers, timestamp"),
        (RECORDS[:-1], 59, "the copy does not have it"),
    ],
    ids=["equal", "another value", "missing", "cut off"],
)
def test_copy_that_contradicts_its_notes_is_found(
    east: Admin,
    west: Admin,
    here: Settings,
    there: Settings,
    linked: Linked,
    copied: list[Said],
    offset: int | None,
    what: str | None,
) -> None:
    # Given a copy with a planted fault, and notes that all 60 records are at their offsets
    name = linked(**FOR_EVER)
    written(here, name, RECORDS)
    written(there, name, copied)
    noted(there, name, 60)
    # When it is compared in ranges of 25
    ((ranges, comparisons),) = verify(east, west, name, 25)
    # Then the first difference is named, in its range
    firsts = [each.first for each in comparisons if each.first]
    if offset is None:
        assert (firsts, ranges.damage, sum(each.compared for each in comparisons)) == ([], None, 60)
    else:
        assert firsts, ranges
        assert firsts[0][::2] == (offset, what)


OFTEN = {"min.cleanable.dirty.ratio": "0.01", "max.compaction.lag.ms": "1000", "segment.ms": "1000"}


def test_deleted_key_that_is_live_in_a_compacted_copy_is_found(
    east: Admin, west: Admin, here: Settings, there: Settings, fresh: Fresh
) -> None:
    # Given a key that was written and deleted, and three copies, two of which have lost the tombstone
    lost, gone = fresh("verified"), fresh("verified")
    east.create_topics(
        [
            TopicSpec(lost, 1, 1, {"cleanup.policy": "compact"}),
            TopicSpec(gone, 2, 1, {"cleanup.policy": "compact", "delete.retention.ms": "0", **OFTEN}),
        ]
    )
    west.create_topics([TopicSpec(name, 2, 3, {"cleanup.policy": "compact"}) for name in (lost, gone)])
    writing = Producer(here)
    copying_it = Producer(there | {"transactional.id": lost})
    copying_it.init_transactions(30)
    for topic, partition, kept in ((lost, 0, False), (gone, 0, False), (gone, 1, True)):
        now_ms = int(time.time() * 1000)
        for key, value in ((b"a", b"1"), (b"a", None), (b"b", b"2")):
            writing.produce(topic, value, key, partition=partition, timestamp=now_ms)
        assert writing.flush(30) == 0
        copying_it.begin_transaction()
        copying_it.produce(topic, b"1", b"a", partition=partition, timestamp=now_ms)
        if not kept:
            copying_it.commit_transaction(30)  # in the tombstone's place lies a marker
            copying_it.begin_transaction()
        else:
            copying_it.produce(topic, None, b"a", partition=partition, timestamp=now_ms)
        copying_it.produce(topic, b"2", b"b", partition=partition, timestamp=now_ms)
        copying_it.commit_transaction(30)
        noted(there, topic, 3, partition)

    # When the cluster of the source has removed the tombstone as well, of one topic
    def cleaned() -> bool:
        for partition in range(2):
            writing.produce(gone, b"3", b"c", partition=partition)
        assert writing.flush(30) == 0
        return all({key for key, *_ in content(here, gone, partition)} == {b"b", b"c"} for partition in range(2))

    wait_until(cleaned, lambda: [content(here, gone, partition) for partition in range(2)], 60)
    # Then the live key is found in both cases, and a copy that also had the tombstone is equal
    ((_, (first,)),) = verify(east, west, lost)
    assert first.first is not None
    assert first.first[:2] == (1, 1)
    assert "a deleted key lives on" in first.first.what
    (_, (second,)), (_, (third,)) = verify(east, west, gone)
    assert second.first is not None
    assert second.first[:2] == (0, 0)
    assert "it was deleted" in second.first.what
    assert (third.first, third.gone_in_source) == (None, 2)


def test_compacted_copies_stay_equal_while_clusters_compact(
    east: Admin, west: Admin, here: Settings, fresh: Fresh
) -> None:
    # Given compacted topics, each on one side only, whose keys are written again and again, and some deleted
    names = dict(zip(GONE, (fresh("verified"), fresh("verified")), strict=True))
    often = {"gone_in_source": OFTEN, "gone_in_copy": {"delete.retention.ms": "0", **OFTEN}}
    for gone, name in names.items():
        for admin, replication, side in ((east, 1, "gone_in_source"), (west, 3, "gone_in_copy")):
            settings = {"cleanup.policy": "compact", **(often[gone] if gone == side else {})}
            admin.create_topics([TopicSpec(name, 1, replication, settings)])
    looks: list[tuple[PartitionRanges, list[Compared]]] = []
    missing, turn = set(GONE), 0
    with copying(east, west, [copy_of(name) for name in names.values()]) as job:
        until = time.monotonic() + 100
        # When they are compared until both clusters have compacted
        while missing:
            assert time.monotonic() < until, looks[-2:]
            turn, now_ms = turn + 1, int(time.time() * 1000)  # segments are rolled by the times of records
            for name in names.values():
                keyed: list[Said] = [
                    (b"k%d" % (n * 7 % 50), b"%d" % turn if n % 9 else None, [], now_ms) for n in range(200)
                ]
                written(here, name, keyed)
            ends = {key: one.log_end for key, one in east.ends([(name, 0) for name in names.values()]).items()}
            wait_until(partial(caught_up, job, ends), job.statuses)
            for gone in GONE:
                looks += verify(east, west, names[gone])
                missing -= {gone for comparison in looks[-1][1] if getattr(comparison, gone)}
            time.sleep(0.5)
    # Then they were equal at every look
    assert [(ranges.damage, [r.first for r in comparisons if r.first]) for ranges, comparisons in looks] == [
        (None, [])
    ] * len(looks)
    assert {ranges.of for ranges, _ in looks} == {1}
