"""Batches across an open cut, of every size and codec, by a real producer on real brokers."""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, Producer, TopicPartition

from ha_core.kafka.brokers import Brokers
from ha_core.kafka.security import NO_SECURITY
from ha_core.model import Cluster
from stack.harness import Stack
from stack.history.headers import batch_at
from tests.kit.consumed import place_of, value_of
from tests.kit.progress import await_more, await_records
from tests.kit.running import bootstrap, create_topic, switchyard
from tests.system.conftest import MakeRun
from tests.system.migrating import PARTITIONS, Migration
from tests.system.watching import assert_no_client_has_failed

pytestmark = [pytest.mark.stack, pytest.mark.long("gateway/session/produce", "ha_core/wire")]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COUNTS = (1, 2, 100, 5000)
"""Records per batch; each size has its own partition."""
BEFORE = 3
"""Records in each partition when its cut is chosen."""
Log = list[tuple[int, str]]
"""(offset, value)."""


class Place(NamedTuple):
    topic: str
    partition: int

    @property
    def records(self) -> int:
        return COUNTS[self.partition]

    @property
    def cut(self) -> int:
        """Inside of the first batch, or after it if it is a single record."""
        return BEFORE + max(1, 2 * self.records // 5)


class Writer:
    """A producer that sends batches of exactly `place.records` records."""

    def __init__(self, stack: Stack, place: Place, codec: str, idempotent: bool) -> None:
        self.place = place
        self.answered: Log = []
        self._written = 0
        batches = {"batch.num.messages": place.records, "linger.ms": 60_000, "compression.type": codec}
        at = {"bootstrap.servers": stack.bootstrap, "log_level": 0}
        self._producer = Producer({**at, **batches, "enable.idempotence": idempotent})

    def write(self, name: str) -> None:
        """One batch; returns when it is acknowledged."""
        for number in range(self.place.records):
            value = f"{name}-{number}-" + "x" * 80  # a value that does not compress would be sent uncompressed
            self._producer.produce(self.place.topic, value, partition=self.place.partition, on_delivery=self._answer)
        self._written += self.place.records
        deadline = time.monotonic() + 60
        while len(self.answered) < self._written:  # `flush` would send an incomplete batch
            assert time.monotonic() < deadline, f"{self.place}: {len(self.answered)} of {self._written} are answered"
            self._producer.poll(0.1)

    def _answer(self, error: KafkaError | None, message: Message) -> None:
        assert error is None, f"{self.place}: {error}"
        _, _, offset = place_of(message)
        self.answered.append((offset, value_of(message).decode()))


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


def write_all(pool: ThreadPoolExecutor, writers: list[Writer], name: str) -> None:
    for done in [pool.submit(writer.write, name) for writer in writers]:
        done.result(90)


def read_all(stack: Stack, expected: dict[Place, Log]) -> dict[Place, Log]:
    """Everything from the beginning, until all expected records have come and nothing follows."""
    consumer = Consumer({"bootstrap.servers": stack.bootstrap, "group.id": "reader", "enable.auto.commit": False})
    found: dict[Place, Log] = {place: [] for place in expected}
    missing = sum(map(len, expected.values()))
    try:
        consumer.assign([TopicPartition(*place, OFFSET_BEGINNING) for place in expected])
        deadline = time.monotonic() + 30
        while (messages := consumer.consume(10_000, 0.5)) or (missing > 0 and time.monotonic() < deadline):
            for message in messages:
                assert message.error() is None, message.error()
                topic, partition, offset = place_of(message)
                found[Place(topic, partition)].append((offset, value_of(message).decode()))
            missing -= len(messages)
    finally:
        consumer.close()
    return found


def test_batches_of_every_size_and_codec_across_an_open_cut_are_read_as_they_were_written(
    stack: Stack, pool: ThreadPoolExecutor
) -> None:
    # Given topics whose partitions have a few records, and cuts inside of the next batches
    kinds = {f"{codec}-{on}": (codec, on == "idempotent") for codec in CODECS for on in ("plain", "idempotent")}
    places = [Place(topic, partition) for topic in kinds for partition in range(len(COUNTS))]
    before = Producer({"bootstrap.servers": bootstrap(stack, "east"), "log_level": 0})
    for topic in kinds:
        create_topic(bootstrap(stack, "east"), topic, len(COUNTS))
    for place in places:
        for number in range(BEFORE):
            before.produce(place.topic, f"before-{number}", partition=place.partition)
    assert before.flush(30) == 0
    writers = [Writer(stack, place, *kinds[place.topic]) for place in places]
    cuts = [part for place in places for part in ("--cut-at", f"{place.topic}:{place.partition}={place.cut}")]
    route = ("--from", "east", "--to", "west", "--cut", "predicted", "--reason", "test", "--yes")
    (batch,) = switchyard(stack, "migrate", *kinds, *route, *cuts)["batches"]
    assert batch["result"] == "crossing"
    # When each log passes its cut in the middle of a batch, goes on above it, and then in the target alone
    write_all(pool, writers, "straddling")
    write_all(pool, writers, "behind")
    expected = {w.place: [(n, f"before-{n}") for n in range(BEFORE)] + w.answered for w in writers}
    crossing = read_all(stack, expected)
    switchyard(stack, "settle", "--wait", "--timeout", "60", batch["operation"])
    write_all(pool, writers, "after")
    settled = read_all(stack, {w.place: expected[w.place][:BEFORE] + w.answered for w in writers})
    # Then every record is read once, in the order of writing, at its acknowledged offset: a batch across the cut begins
    # at the cut
    for writer in writers:
        place = writer.place
        written = [
            f"{name}-{n}-" + "x" * 80 for name in ("straddling", "behind", "after") for n in range(place.records)
        ]
        values = [f"before-{n}" for n in range(BEFORE)] + written
        first_above = place.cut if place.records > 1 else BEFORE
        offsets = [*range(BEFORE), *range(first_above, first_above + len(written))]
        assert settled[place] == list(zip(offsets, values, strict=True)), place
        assert writer.answered == settled[place][BEFORE:], place
        assert crossing[place] == settled[place][: -place.records], place
    # And the cuts were inside of batches that the codec had made
    brokers = Brokers(Cluster(name="east", bootstrap=bootstrap(stack, "east")), NO_SECURITY, 20)
    for place in places:
        codec = CODECS.index(kinds[place.topic][0])
        batch = batch_at(brokers, place.topic, place.partition, place.cut)
        assert batch is not None
        whole = (BEFORE if place.records > 1 else BEFORE + 1, place.records, codec)
        assert (batch.base_offset, batch.records_count, batch.attributes & 7) == whole, place
    brokers.close()


def test_plain_producers_write_every_record_once_when_logs_outrun_the_proposed_cuts(
    stack: Stack, make_run: MakeRun, name: str, tmp_path: Path
) -> None:
    # Given producers that send rejected records again
    create_topic(bootstrap(stack, "east"), name, PARTITIONS)
    run = make_run(stack)
    kinds = {"confluent-producer": {"idempotence": "off", "linger_ms": 1}, "kafka-python-producer": {}}
    producers = [run.start(kind, f"w-{kind}", name, rate=300, **options) for kind, options in kinds.items()]
    await_records(100, *producers)
    # When the cuts are so near that the logs pass them before every gateway knows them, and higher ones follow
    migration = Migration(stack, name, ("east", "west"), rate=1.0, preparation_s=0.01, folder=tmp_path)
    try:
        migration.wait()
        assert migration.state == "succeeded", migration.words
        history = switchyard(stack, "history", migration.operation)["history"]
        assert len([entry for entry in history if entry["step"] == "propose" and entry["outcome"] != "started"]) > 1
    finally:
        migration.end()
    await_more(50, *producers)
    for producer in producers:
        producer.stop()
    # Then no record is duplicated, and no client got an error
    run.start("confluent-consumer", "reader", name, seek="beginning", to_end=True).wait()
    run.assert_sound(name, complete=["reader"], redelivery="never")
    assert_no_client_has_failed(run.clients)
