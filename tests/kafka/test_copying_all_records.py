"""Copies of flows that take records of aborted and open transactions as plain ones, as MirrorMaker 2 does."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition

from ha_core.kafka.admin import Admin
from ha_core.kafka.copying import Copying
from ha_core.kafka.facts import TopicSpec
from ha_core.kafka.takeover import CopyPartition, TakenOver
from ha_core.mirror.comparing import Comparison, CopyMap, ranges
from ha_core.mirror.notes import CopyId, log_partition
from ha_core.model.isolation import Isolation
from ha_core.wire.sasl import SecurityProfile
from stack.harness import Stack
from tests.kafka.clients import Settings, produce
from tests.kafka.console_consumer import console_consumer
from tests.kafka.mirroring import LOG, LOG_PARTITIONS, all_are, copying, stopped, wait_until
from tests.kafka.own_copier import Order, own_copier
from tests.kit.consumed import place_of

pytestmark = [pytest.mark.stack, pytest.mark.usefixtures("copy_logs")]
ALL = Isolation.UNCOMMITTED
REPLICATION = {"east": 1, "west": 3}


class Way(NamedTuple):
    """A flow's source and target, with clients of both."""

    source: Admin
    target: Admin
    here: Settings
    there: Settings

    def copy_of(self, topic: str, flow: str = "A") -> CopyPartition:
        """Creates the topic in the source, unless it is there, and its empty copy in the target."""
        self.source.create_topics([TopicSpec(topic, 1, REPLICATION[self.source.cluster.name])])
        copy = f"{flow}.{topic}"
        self.target.create_topics([TopicSpec(copy, 1, REPLICATION[self.target.cluster.name])])
        id_ = CopyId(f"{flow}->", copy, 0)
        return CopyPartition(id_, (LOG, log_partition(id_, LOG_PARTITIONS)), topic)

    def end(self, copy: CopyPartition) -> int:
        """High watermark of the source."""
        return self.source.ends([copy.source_key])[copy.source_key].high_watermark


@pytest.fixture(params=["east", "west"], ids=["from 3.9 to 4.3", "from 4.3 to 3.9"])
def way(request: pytest.FixtureRequest, east: Admin, west: Admin, here: Settings, there: Settings) -> Way:
    return Way(east, west, here, there) if request.param == "east" else Way(west, east, there, here)


class Transactions:
    """A transactional producer."""

    def __init__(self, base: Settings, topic: str, name: str = "") -> None:
        self._topic = topic
        self._producer = Producer(base | {"transactional.id": f"{topic}-{name}", "linger.ms": 5})
        self._producer.init_transactions(30)

    def write(self, *values: bytes) -> Transactions:
        """In one transaction, which stays open."""
        self._producer.begin_transaction()
        self.add(*values)
        return self

    def add(self, *values: bytes) -> None:
        for value in values:
            self._producer.produce(self._topic, value, b"k" + value, 0, headers=[("v", value)])
        assert self._producer.flush(30) == 0

    def commit(self) -> None:
        self._producer.commit_transaction(30)

    def abort(self) -> None:
        self._producer.abort_transaction(30)


def read(base: Settings, topic: str, isolation: Isolation = ALL) -> dict[int, tuple[object, ...]]:
    """Offset → each record that a consumer gets."""
    level = {Isolation.COMMITTED: "read_committed", ALL: "read_uncommitted"}[isolation]
    consumer = Consumer(base | {"group.id": "reads", "enable.partition.eof": True, "isolation.level": level})
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    found: dict[int, tuple[object, ...]] = {}
    try:
        while True:
            message = consumer.poll(20)
            assert message is not None
            if message.error():
                return found
            found[place_of(message)[2]] = message.key(), message.value(), message.headers(), message.timestamp()
    finally:
        consumer.close()


def level(job: Copying, end: int) -> bool:
    statuses = job.statuses().values()
    return all(status.state == "copying" and status.has(end) for status in statuses)


def copied_to_its_end(way: Way, copy: CopyPartition, isolation: Isolation = ALL, **more: bool) -> None:
    with copying(way.source, way.target, [copy], {copy.source_key: 0}, isolation=isolation, **more) as job:
        wait_until(lambda: level(job, way.end(copy)), job.statuses)


def require_exact_map(way: Way, copy: CopyPartition) -> None:
    """Each record that an uncommitted reader gets from the source lies where the copy's map says, and no other."""
    taken = way.target.take_over([copy], whole_map=True)[copy.id]
    assert isinstance(taken, TakenOver), taken
    assert taken.progress is not None
    source, copied = read(way.here, copy.source_topic), read(way.there, copy.id.topic)
    places = {run.source + i: run.target + i for run in taken.runs for i in range(run.records)}
    assert places.keys() == source.keys()
    assert sorted(places.values()) == sorted(copied)
    assert all(copied[place] == source[offset] for offset, place in places.items())
    # And the engine's own comparison agrees
    older = taken.runs[: len(taken.runs) - len(taken.progress.runs)]
    for span in ranges(CopyMap.of(taken.progress, older), 0, taken.progress.source, 100):
        theirs = way.source.log(copy.source_key, span.start, span.end)
        ours = way.target.log(copy.key, span.target_start, span.target_end)
        assert Comparison(span, theirs, ours).run().first is None


@contextmanager
def writing(base: Settings, topic: str) -> Iterator[None]:
    """Two transactional producers, which abort every third transaction, and a plain one, all at once, until the end.
    Each leaves a transaction open."""
    ending = threading.Event()

    def transactions(name: str, codec: str) -> None:
        producer = Transactions(base | {"compression.type": codec}, topic, name)
        number = 0
        while True:
            producer.write(*(b"%s %d.%d" % (name.encode(), number, part) for part in range(1 + number % 7)))
            if ending.wait(0.01):
                return
            (producer.commit, producer.commit, producer.abort)[number % 3]()
            number += 1

    def plain() -> None:
        while not ending.wait(0.02):
            produce(base, topic, 3, linger_ms="0")

    threads = [threading.Thread(target=transactions, args=one) for one in (("first", "none"), ("second", "lz4"))]
    threads.append(threading.Thread(target=plain))
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        ending.set()
        for thread in threads:
            thread.join(60)


def test_a_copy_has_each_record_of_an_uncommitted_console_consumer_once_although_copiers_are_killed(
    way: Way, account: SecurityProfile, fresh: Callable[[str], str], tmp_path: Path
) -> None:
    # Given a topic that producers write with and without transactions, many of them aborted
    name = fresh("uncommitted")
    copy = way.copy_of(name)
    clusters = [way.source.cluster, way.target.cluster]
    (source, target) = ((cluster.name, cluster.bootstrap) for cluster in clusters)
    order = Order(source, target, (account.mechanism or "", account.username, account.password), [copy], ALL)
    # When it is copied by one copier after the other, each killed in the middle of its work
    with writing(way.here, name):
        for life in range(5):
            before = way.target.ends([copy.key])[copy.key].log_end
            with own_copier(order):
                wait_until(
                    lambda before=before: way.target.ends([copy.key])[copy.key].log_end > before + 20,  # type: ignore[misc]
                    lambda: way.target.ends([copy.key]),
                )
                time.sleep(0.07 * life)
    copied_to_its_end(way, copy)
    # Then it has exactly the records that such a consumer sees in the source, open transactions included
    seen = console_consumer(source[1], account, name, 0, ALL, tmp_path)
    committed = console_consumer(source[1], account, name, 0, Isolation.COMMITTED, tmp_path)
    assert len(seen) > len(committed) > 50
    # And any consumer sees them in the copy
    copied = console_consumer(target[1], account, copy.id.topic, 0, Isolation.COMMITTED, tmp_path)
    assert list(copied.values()) == list(seen.values())
    require_exact_map(way, copy)


def test_an_open_transaction_holds_back_only_copies_of_committed_records(way: Way, fresh: Callable[[str], str]) -> None:
    # Given one topic, copied by two flows
    name = fresh("held")
    whole, committed = way.copy_of(name, "A"), way.copy_of(name, "B")
    starts = {(name, 0): 0}
    with (
        copying(way.source, way.target, [whole], starts, isolation=ALL) as job,
        copying(way.source, way.target, [committed], starts) as careful,
    ):
        produce(way.here, name, 5)
        # When a transaction stays open, and others write above it
        opened = Transactions(way.here, name).write(b"1", b"2")
        produce(way.here, name, 3)
        wait_until(lambda: level(job, 10), job.statuses)
        wait_until(lambda: level(careful, 5), careful.statuses)
        # Then the flow of all records lags by nothing
        (status,) = job.statuses().values()
        assert (status.source, status.lag_records, status.to_copy, status.lag_ms) == (10, 0, 0, 0)
        assert status.rpo_s is not None
        # And the other one by everything above the transaction, none of which can be copied now
        wait_until(lambda: next(iter(careful.statuses().values())).lag_records == 5, careful.statuses)
        (status,) = careful.statuses().values()
        assert (status.source, status.to_copy) == (5, 0)
        # When it is aborted
        opened.abort()
        wait_until(lambda: level(job, 11) and level(careful, 11), lambda: (job.statuses(), careful.statuses()))
    # Then each copy has the records of its isolation
    assert list(read(way.there, whole.id.topic).values()) == list(read(way.here, name).values())
    expected = list(read(way.here, name, Isolation.COMMITTED).values())
    assert list(read(way.there, committed.id.topic).values()) == expected
    assert len(expected) == 8


def test_another_isolation_counts_from_the_next_record_on(way: Way, fresh: Callable[[str], str]) -> None:
    # Given a copy of all records, which has a part of an open transaction
    name = fresh("changed")
    copy = way.copy_of(name)
    opened = Transactions(way.here, name).write(b"0", b"1")
    produce(way.here, name, 1)
    copied_to_its_end(way, copy)
    # When it is to have committed records only from now on, inside the transaction, which is then aborted
    with copying(way.source, way.target, [copy], {}) as job:
        wait_until(partial(all_are, job, "copying"), job.statuses)
        opened.add(b"3")
        opened.abort()
        produce(way.here, name, 1)
        wait_until(lambda: level(job, 6), job.statuses)
    source = read(way.here, name)
    # Then no record comes twice, and nothing of the transaction any more
    copied = read(way.there, copy.id.topic)
    assert list(copied.values()) == [source[offset] for offset in (0, 1, 2, max(source))]
    # And when it is to have all again
    Transactions(way.here, name).write(b"6").abort()
    copied_to_its_end(way, copy)
    values = [record[1] for record in read(way.there, copy.id.topic).values()]
    assert values == [b"0", b"1", b"0", b"0", b"6"]


def test_a_source_that_loses_records_of_an_open_transaction_stops_the_copy_that_has_them(
    running: Stack, east: Admin, west: Admin, here: Settings, there: Settings, fresh: Callable[[str], str]
) -> None:
    # Given a copy with the records of an open transaction, at the end of its source
    way, name = Way(east, west, here, there), fresh("truncated")
    copy = way.copy_of(name)
    produce(here, name, 50)
    Transactions(here, name).write(*(b"open %d" % number for number in range(50)))
    with copying(east, west, [copy], {(name, 0): 0}, isolation=ALL) as job:
        wait_until(lambda: level(job, 100), job.statuses)
        # When the source's broker comes back without the last part of its log, as after an unclean election
        running.kill("cluster/east/1")
        segments = running.dir.rglob(f"{name}-0/00000000000000000000.log")
        (segment,) = [found for found in segments if "east" in str(found.relative_to(running.dir))]
        os.truncate(segment, segment.stat().st_size - 100)
        segment.with_suffix(".index").unlink(missing_ok=True)
        running.restart("cluster/east/1")
        wait_until(lambda: east.ends([(name, 0)])[name, 0].log_end < 100, lambda: east.ends([(name, 0)]))
        # Then it stops, and says so
        reason = stopped(job, "the source was truncated", 60).reason
        assert "was copied up to 100" in reason
        assert f"delete topic A.{name} of the target, and its flow makes it anew" in reason
    assert len(read(there, copy.id.topic)) == 100


def test_copies_of_mirrors_have_committed_records_only(east: Admin, west: Admin, fresh: Callable[[str], str]) -> None:
    name = fresh("mirrored")
    id_ = CopyId("east-west", name, 0)
    mirrored = CopyPartition(id_, (LOG, log_partition(id_, LOG_PARTITIONS)))
    with pytest.raises(ValueError, match="is the copy of a mirror"):
        Copying(east, west, [mirrored], isolation=ALL)
    with pytest.raises(ValueError, match="is the copy of a mirror"):
        Copying(east, west, [mirrored], passes_overtaken=True)
