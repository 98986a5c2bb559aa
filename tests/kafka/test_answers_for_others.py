"""Brokers that answer for more or fewer partitions than requested lose their connection, without further damage."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import pytest

from ha_core.kafka.connection import BlockingConnection, Deadline
from ha_core.kafka.copying.appending import Appending
from ha_core.kafka.copying.background import BackgroundWork
from ha_core.kafka.copying.connections import Connections, Line
from ha_core.kafka.copying.fetching import BUFFER_BYTES, Fetching
from ha_core.kafka.copying.standstill import Standstill
from ha_core.kafka.copying.states import CopyLane
from ha_core.kafka.copying.statuses import CopyTotals
from ha_core.kafka.offsets import Leadership
from ha_core.kafka.security import NO_SECURITY
from ha_core.kafka.stream import BufferPool
from ha_core.mirror.lag import LagTracker
from ha_core.mirror.pace import RateMeter, Throttle
from ha_core.mirror.partition import PartitionCopy
from ha_core.mirror.progress import Progress, Writer
from ha_core.wire.codec import decode
from ha_core.wire.codes import ApiKey
from tests.kafka.mirroring import copy_of, wait_until
from tests.kafka.scripted_broker import answered, broker, header_of, listening
from tests.mirror.batches import records

VERSIONS = {ApiKey.FETCH: (12, 12), ApiKey.PRODUCE: (9, 9)}
Keys = list[tuple[str, int]]
Change = Callable[[Keys], Keys]
CHANGES: Mapping[str, Change] = {
    "another partition": lambda keys: [(name, number + 7) for name, number in keys],
    "another topic": lambda keys: [("others", number) for _, number in keys],
    "one more": lambda keys: [*keys, ("others", 0)],
    "one twice": lambda keys: [*keys, *keys],
}
"""Partitions in a broker's answer, by requested ones."""


class Cluster:
    """In place of an admin: a broker, and no facts."""

    def __init__(self, port: int) -> None:
        self._port = port

    def open(self, _node: int, seconds: float) -> BlockingConnection:
        return BlockingConnection("east", "127.0.0.1", self._port, NO_SECURITY, Deadline.after(seconds))


def source(change: Change) -> Callable[[bytes], bytes]:
    def answer(frame: bytes) -> bytes:
        head = header_of(frame)
        asked = decode(ApiKey.FETCH, head.api_version, "request", frame, head.body_at)["topics"]
        keys = change([(topic["topic"], part["partition"]) for topic in asked for part in topic["partitions"]])
        parts = [
            {
                "topic": name,
                "partitions": [
                    {"partition_index": number, "last_stable_offset": 1 << 40, "records": records(0, range(4))}
                ],
            }
            for name, number in keys
        ]
        return answered(frame, {"responses": parts})

    return answer


def target(change: Change) -> Callable[[bytes], bytes]:
    def answer(frame: bytes) -> bytes:
        head = header_of(frame)
        asked = decode(ApiKey.PRODUCE, head.api_version, "request", frame, head.body_at)["topic_data"]
        keys = change([(topic["name"], part["index"]) for topic in asked for part in topic["partition_data"]])
        parts = [{"name": name, "partition_responses": [{"index": number}]} for name, number in keys]
        return answered(frame, {"responses": parts})

    return answer


class Loop:
    """Both sides of a partition, with their lost connections."""

    def __init__(self, source_port: int, target_port: int) -> None:
        self.lost: list[tuple[Line, str]] = []
        self.left: list[str] = []
        self.beside = BackgroundWork(2)
        here: Any = Cluster(source_port)
        self.connections = Connections(
            here,
            Cluster(target_port),  # type: ignore[arg-type]
            self.beside,
            self._lost,
            BufferPool(1 << 20),
        )
        standstill = Standstill(lambda: 0.0, lambda: 0.0)
        ways = lambda _, why: self.left.append(why), self._stopped, self._stopped
        self.appending = Appending(self.connections, *ways, lambda: 0.0, standstill, CopyTotals())
        self.fetching = Fetching(
            here,
            self.connections,
            self.beside,
            Throttle(0.0),
            self._stopped,
            self._stopped,
            self.appending.note,
            lambda: 0.0,
            standstill,
            BUFFER_BYTES,
        )
        self.fetching._times_at = float("inf")
        copy = PartitionCopy(Progress(Writer(900, 3), 0, 0))
        self.lane = CopyLane(copy_of("orders"), copy, 0.0, RateMeter(0.0), LagTracker(), 1, 1, 0)
        self.lane.leader = Leadership(1, 1, "")

    def _lost(self, line: Line, why: str) -> None:
        self.lost.append((line, why))
        if line.channel.name == "TARGET":
            self.appending.lost(line, why)
        else:
            self.fetching.lost(line, why)

    def _stopped(self, _lane: CopyLane, why: str) -> None:
        raise AssertionError(why)

    def step(self) -> bool:
        """True if a connection was lost."""
        self.appending.step(0.0)
        self.fetching._look_again_at = 0.0
        self.fetching.step(0.0)
        self.connections.step(0.0, 0.01)
        return bool(self.lost)


@contextmanager
def looping(of_source: Change, of_target: Change) -> Iterator[Loop]:
    there = listening(broker(VERSIONS, target(of_target)))
    with listening(broker(VERSIONS, source(of_source))) as here, there as port:
        loop = Loop(here, port)
        with closing(loop.beside), closing(loop.connections):
            yield loop


@pytest.mark.parametrize("name", ["another partition", "another topic", "one more"])
def test_source_that_answers_for_other_partitions_is_disconnected(name: str) -> None:
    with looping(CHANGES[name], list) as loop:
        loop.fetching.add(loop.lane)
        wait_until(loop.step, lambda: loop.lane, 30)
    ((_, why),) = loop.lost
    assert "not asked for" in why


def test_partition_answered_twice_is_copied_once() -> None:
    with looping(CHANGES["one twice"], list) as loop:
        loop.appending.add(loop.lane)
        loop.fetching.add(loop.lane)
        wait_until(lambda: loop.step() or loop.lane.partition.target == 4, lambda: loop.lost, 30)
    assert (loop.lost, loop.lane.partition.next_offset) == ([], 4)


@pytest.mark.parametrize("change", [*CHANGES.values(), lambda _: []], ids=[*CHANGES.keys(), "none"])
def test_target_that_answers_for_missing_or_extra_partitions_is_taken_over_again(change: Change) -> None:
    with looping(list, change) as loop:
        loop.appending.add(loop.lane)
        wait_until(loop.step, lambda: loop.lane, 30)
    ((_, why),) = loop.lost
    assert "answered a produce of 1 partitions with" in why
    assert loop.left == [why]
