"""A reader in the zone of the standby reads there, whatever becomes of the copy's job and of the source."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition

from ha_core.model import UserBindings
from ha_core.operations import bindings, engine, registry
from ha_core.operations.environment import Environment, EnvironmentSettings, connect
from ha_core.operations.linking import link_request, plan_link
from stack.harness import Stack
from tests.kit.running import bootstrap, create_topic
from tests.spark_jobs.mirror.live import Writer, goes_on, wait_until

pytestmark = [pytest.mark.stack, pytest.mark.long]
TOPIC, PARTITIONS = "orders", 2


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack.up({"east": "3.9.2", "west": "4.3.1"}, gateways=1, mirror=True) as running:
        yield running


@pytest.fixture
def environment(stack: Stack) -> Iterator[Environment]:
    with connect(EnvironmentSettings(stack.zookeeper, session_timeout_s=6.0), by="test:operator") as opened:
        yield opened


class Reader:
    """Reads both partitions from their beginning, through the gateway, and keeps the offsets and numbers."""

    def __init__(self, stack: Stack) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": stack.bootstrap,
                "group.id": "reads",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 200,
                "auto.offset.reset": "error",
            }
        )
        self.begin()

    def begin(self) -> None:
        self.found: dict[int, list[tuple[int, bytes]]] = {n: [] for n in range(PARTITIONS)}
        self._consumer.assign([TopicPartition(TOPIC, n, 0) for n in range(PARTITIONS)])

    @property
    def count(self) -> int:
        return sum(map(len, self.found.values()))

    def read_what_comes(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            for message in self._consumer.consume(1000, min(left, 0.2)):
                assert message.error() is None, message.error()
                self.found[message.partition()].append((message.offset(), message.value()))

    def read(self, wanted: int, seconds: float = 180) -> None:
        """Reads until there are so many records."""
        until = time.monotonic() + seconds
        while self.count < wanted:
            assert time.monotonic() < until, (self.count, wanted)
            self.read_what_comes(0.2)

    def assert_all_once(self) -> None:
        """No record is missing, comes twice, or lies at another offset than in the source."""
        for partition, found in self.found.items():
            numbers = range(partition, PARTITIONS * len(found), PARTITIONS)
            assert found == [(at, b"%d" % number) for at, number in enumerate(numbers)]

    def close(self) -> None:
        self._consumer.close()


def from_copies(stack: Stack) -> float:
    """Bytes that the gateway has served from the copy."""
    said = httpx.get(f"{stack.gateways[0]['http']}/metrics").text
    found = re.search(r'^switchyard_gateway_mirror_fetch_bytes_total{cluster="west"} (\S+)$', said, re.MULTILINE)
    return float(found.group(1)) if found else 0.0


def goes_over_to_the_copy(stack: Stack, environment: Environment, reader: Reader) -> None:
    before, begun = from_copies(stack), time.monotonic()

    def served() -> bool:
        reader.read_what_comes(1.0)
        return from_copies(stack) > before

    def told() -> object:
        return before, reader.count, environment.store.follow_mirror_copies().read(), environment.store.mirror_reports()

    wait_until(served, told)
    print(f"at the copy after {time.monotonic() - begun:.1f} s")


@pytest.mark.timeout(600)
def test_a_reader_near_the_standby_reads_there_and_from_the_source_while_nobody_copies(
    stack: Stack, environment: Environment
) -> None:
    # Given a mirrored topic, and a reader behind a gateway in the zone of its copy
    create_topic(bootstrap(stack, "east"), TOPIC, PARTITIONS)
    registry.add_cluster(environment, "west", bootstrap(stack, "west"), zone="zone-1")
    link = engine.start(environment, plan_link(environment, link_request([TOPIC], "east", "west", "a standby")))
    assert engine.resume(environment, link.id).result == "succeeded"
    declared = bindings.with_read(environment.store.load(), "user:anonymous", "nearest")
    assert bindings.apply_bindings(environment, bindings.plan_bindings(environment, declared)).result == "succeeded"
    assert environment.store.load().bindings["anonymous"] == UserBindings(user="anonymous", read="nearest")
    reader = Reader(stack)
    try:
        with Writer(stack, TOPIC, PARTITIONS) as writer:
            goes_on(stack, environment.store, TOPIC, PARTITIONS)
            # When it reads while the source is written
            goes_over_to_the_copy(stack, environment, reader)
            reader.read(reader.count + 500)
            # And what copies is killed
            stack.kill("mirror")
            wait_until(lambda: not environment.store.mirror_reports(), environment.store.mirror_reports)
            time.sleep(2)
            before = from_copies(stack)
            # Then it goes on at the source
            reader.read(writer.written + 200)
            assert from_copies(stack) == before
            # And at the copy when it is copied again
            stack.restart("mirror")
            goes_over_to_the_copy(stack, environment, reader)
        reader.read(writer.written)
        reader.assert_all_once()
        # When the source stands still
        goes_on(stack, environment.store, TOPIC, PARTITIONS)
        time.sleep(2)
        stack.pause("cluster/east/1")
        # Then all that is copied is read once more, as nothing of it came from there
        try:
            before, begun = from_copies(stack), time.monotonic()
            reader.begin()
            reader.read(writer.written)
            print(f"{writer.written} records from the copy alone in {time.monotonic() - begun:.1f} s")
            reader.assert_all_once()
            assert from_copies(stack) > before
        finally:
            stack.resume("cluster/east/1")
    finally:
        reader.close()
