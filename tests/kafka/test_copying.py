"""Partitions copied between real clusters, by copiers that stop, die and are taken over."""

import time
from collections.abc import Callable
from functools import partial

import pytest
from confluent_kafka import Producer

from ha_core.kafka.admin import Admin
from ha_core.kafka.copying import Copying
from ha_core.mirror import progress as limits
from ha_core.mirror.notes import CopyId
from ha_core.mirror.progress import CopyDamagedError
from stack.harness import Stack
from tests.kafka.clients import Settings, produce
from tests.kafka.mirroring import Headers, Linked, all_are, caught_up, content, copy_of, copying, states, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("copy_logs")]

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def test_a_copy_has_every_record_with_its_key_headers_and_time(
    east: Admin, west: Admin, here: Settings, there: Settings, linked: Linked
) -> None:
    # Given a topic with records of every kind, and a partition for each compression
    name = linked(len(CODECS), retention_ms="-1")  # records are years old, which retention would delete
    for partition, codec in enumerate(CODECS):
        producer = Producer(here | {"compression.type": codec, "enable.idempotence": True, "linger.ms": 5})
        for number in range(3000):
            value = None if number % 7 == 3 else b"x" * (number * 37 % 2000)
            key = None if number % 3 else b"key %d" % number
            headers: Headers = [("n", b"%d" % number), ("none", None)]
            time_ms = 1_600_000_000_000 + number
            producer.produce(name, value, key, partition, headers=headers, timestamp=time_ms)
        producer.produce(name, b"y" * 900_000, partition=partition)
        assert producer.flush(30) == 0
    # When it is copied
    with copying(east, west, [copy_of(name, partition) for partition in range(len(CODECS))]) as job:
        ends = {(name, partition): 3001 for partition in range(len(CODECS))}
        wait_until(lambda: caught_up(job, ends), job.statuses)
    # Then the copy has the same
    for partition in range(len(CODECS)):
        assert content(there, name, partition) == content(here, name, partition)


def test_bytes_in_flight_are_bounded_for_any_number_of_partitions(
    running: Stack, east: Admin, west: Admin, here: Settings, linked: Linked
) -> None:
    # Given many partitions that are copied by one loop, which may hold three megabytes
    partitions, most = 20, 3 << 20
    name = linked(partitions)
    keys = [(name, number) for number in range(partitions)]
    job = Copying(east, west, [copy_of(*key) for key in keys], buffer_bytes=most)
    held = [0]

    def step_until(true: Callable[[], bool]) -> None:
        until = time.monotonic() + 120
        while not true():
            assert time.monotonic() < until, job.statuses()
            job.step(0.01)
            held.append(job.held_bytes)

    try:
        step_until(lambda: states(job) == {"copying"})
        # When each has a megabyte more, and the target stands still
        producer = Producer(here | {"batch.size": 200_000})
        running.pause("cluster/west")
        try:
            for number in range(10 * partitions):
                producer.produce(name, bytes(100_000), partition=number % partitions)
            assert producer.flush(60) == 0
            resumed_at = time.monotonic() + 2
            step_until(lambda: time.monotonic() > resumed_at)
        finally:
            running.resume("cluster/west")
        step_until(lambda: caught_up(job, dict.fromkeys(keys, 10)))
    finally:
        job.close()
        # Then the limit was never exceeded, but used
    assert most / 2 < max(held) <= most
    assert held[-1] == 0


def test_repeated_takeovers_copy_each_record_once(
    east: Admin, west: Admin, here: Settings, there: Settings, linked: Linked
) -> None:
    # Given a topic that is written all the time
    name = linked(2)
    copies = [copy_of(name, partition) for partition in range(2)]
    # When it is copied by one copier after the other, the older ones being still at work
    for turn in range(6):
        produce(here, name, 500, partition=turn % 2, enable_idempotence=True)
        with copying(east, west, copies) as older:
            wait_until(partial(all_are, older, "copying"), older.statuses)
            produce(here, name, 200, partition=0, linger_ms="0")
            with copying(east, west, copies) as newer:
                produce(here, name, 300, partition=1, linger_ms="0")
                wait_until(partial(all_are, newer, "copying"), newer.statuses)
                for partition in range(2):
                    produce(here, name, 10, partition=partition)
                ends = {key: end.log_end for key, end in east.ends([copy.key for copy in copies]).items()}
                wait_until(partial(caught_up, newer, ends), newer.statuses)
                # Then the older one has stopped, with the reason
                wait_until(partial(all_are, older, "stopped"), older.statuses)
                assert all("taken it over" in status.reason for status in older.statuses().values())
    # And every record is in the copy once, at its offset
    for partition in range(2):
        assert content(there, name, partition) == content(here, name, partition)


def test_a_topic_with_records_of_its_own_is_not_copied_to(
    east: Admin, west: Admin, there: Settings, linked: Linked
) -> None:
    name = linked()
    produce(there, name, 3)
    (found,) = west.take_over([copy_of(name, 0)]).values()
    assert isinstance(found, CopyDamagedError)
    assert f"topic {name} partition 0 of west holds records, from offset 0 on" in str(found)


def test_partitions_are_added_dropped_and_renewed_without_loss(
    east: Admin, west: Admin, here: Settings, there: Settings, linked: Linked
) -> None:
    # Given a job without partitions, whose lanes are renewed all the time
    name = linked(3)
    copies = [copy_of(name, partition) for partition in range(3)]
    with copying(east, west, [], renew_s=1.0) as job:
        assert job.statuses() == {}
        # When some are added, written to all the time, and dropped again
        job.add(copies[:2], {})
        for turn in range(8):
            for partition in range(3):
                produce(here, name, 20, partition=partition, enable_idempotence=turn % 2 == 0)
            if turn == 4:
                job.add(copies, {})
                job.drop([copies[0].id])
        wait_until(lambda: job.statuses().keys() == {copies[1].id, copies[2].id}, job.statuses)
        wait_until(lambda: all(copy_status.has(160) for copy_status in job.statuses().values()), job.statuses)
        status = job.statuses()[copies[2].id]
        assert (status.lag_records, status.lag_ms) == (0, 0)
        assert status.copied_bytes > 160
        assert job.work.copied_records >= 160 * 2
        assert job.work.copied_bytes > status.copied_bytes
        assert job.work.takeovers > 3
        job.add(copies, {})
        wait_until(lambda: len(job.statuses()) == 3, job.statuses)
        wait_until(lambda: all(copy_status.has(160) for copy_status in job.statuses().values()), job.statuses)
    # Then everything is there once
    for partition in range(3):
        assert content(there, name, partition) == content(here, name, partition)


def test_copy_log_has_the_whole_map_for_any_number_of_gaps(
    east: Admin,
    west: Admin,
    here: Settings,
    linked: Linked,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given a source with a gap after every record, and small pages
    monkeypatch.setattr(limits, "PAGE_RUNS", 10)
    name = linked()
    producer = Producer(here | {"transactional.id": name})
    producer.init_transactions(30)
    for number in range(55):
        producer.begin_transaction()
        producer.produce(name, b"%d" % number)
        producer.commit_transaction(30)
    copy = copy_of(name)
    # When it is copied by two copiers, one after the other
    for _ in range(2):
        with copying(east, west, [copy]) as job:
            wait_until(partial(caught_up, job, {(name, 0): 110}), job.statuses)
            produce(here, name, 1)
    west.take_over([copy])
    # Then the map is whole, and most of it in pages
    notes = west.read_notes(copy.log, {copy.id: 0}, whole_map=True)[copy.id]
    assert notes.progress is not None
    assert notes.progress.pages >= 4
    assert len(notes.progress.runs) <= 20
    assert [run.source for run in notes.runs][:55] == list(range(0, 110, 2))


def test_batches_larger_than_the_requested_size_are_copied_beside_busy_neighbours(
    east: Admin, west: Admin, here: Settings, there: Settings, linked: Linked
) -> None:
    name = linked(4, max_message_bytes="9000000")
    producer = Producer(here | {"message.max.bytes": 9_000_000, "linger.ms": 0})
    for number in range(12):
        producer.produce(name, b"z" * (4_000_000 + number), partition=number % 3)
        for _ in range(200):
            producer.produce(name, b"y" * 5000, partition=3)
        producer.flush(30)
    ends = {(name, 0): 4, (name, 1): 4, (name, 2): 4, (name, 3): 2400}
    with copying(east, west, [copy_of(name, partition) for partition in range(4)]) as job:
        wait_until(lambda: caught_up(job, ends), job.statuses, 60)
    for partition in range(4):
        assert content(there, name, partition) == content(here, name, partition)


def test_rate_limit_is_kept_and_lag_is_reported(east: Admin, west: Admin, here: Settings, linked: Linked) -> None:
    # Given 3 MB, written at times ten seconds apart
    name = linked()
    producer = Producer(here | {"linger.ms": 0})
    for number in range(30):
        producer.produce(name, bytes(100_000), timestamp=1_700_000_000_000 + 10_000 * number)
        producer.flush(30)
    with copying(east, west, []) as job:
        # When 500 kB may be copied in a second
        job.limit(None, {("east-west", name): 500_000})
        job.add([copy_of(name)], {})
        begun, id_ = time.monotonic(), copy_of(name).id
        wait_until(lambda: any((copy_status.lag_ms or 0) > 0 for copy_status in job.statuses().values()), job.statuses)
        (status,) = job.statuses().values()
        assert status.lag_ms is not None
        assert status.lag_ms % 10_000 == 0
        assert status.lag_ms <= 300_000
        # And reports the bytes left, and an RPO that covers all records since the beginning
        wait_until(lambda: job.statuses()[id_].has(1) and not job.statuses()[id_].has(30), job.statuses)
        status = job.statuses()[id_]
        assert status.lag_bytes is not None
        assert status.lag_bytes == pytest.approx(100_000 * (status.lag_records or 0), rel=0.5)
        wait_until(lambda: caught_up(job, {(name, 0): 30}), job.statuses)
        # Then it takes its time: all but the last answer, which has a megabyte at most
        took_s = time.monotonic() - begun
        assert took_s > 3.0
        (status,) = job.statuses().values()
        assert (status.lag_ms, status.lag_bytes) == (0, 0)
        # And nothing is left to lose except records written since the last answer of the source
        wait_until(lambda: (job.statuses()[id_].rpo_s or 9) < 1, job.statuses)
        assert 1_500_000 / took_s < status.bytes_s < 1_000_000


def test_idle_copy_writes_its_progress_so_that_no_intents_are_left(
    east: Admin, west: Admin, here: Settings, linked: Linked
) -> None:
    name = linked()
    produce(here, name, 7)
    copy = copy_of(name)

    def noted() -> int:
        progress = west.read_notes(copy.log, {copy.id: 0})[CopyId("east-west", name, 0)].progress
        return -1 if progress is None else progress.source

    with copying(east, west, [copy]) as job:
        wait_until(lambda: noted() == 7, job.statuses)
