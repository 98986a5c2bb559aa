"""Request sizes of a copy loop: it never holds more than its limit, whichever broker stalls."""

from collections.abc import Callable, Mapping
from functools import partial
from struct import Struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_core.kafka.copying.connections import ConnectionUse, Line
from ha_core.kafka.copying.fetching import Fetching
from ha_core.kafka.copying.standstill import Standstill
from ha_core.kafka.copying.states import CopyLane
from ha_core.kafka.offsets import Leadership
from ha_core.kafka.stream import BufferPool, fitting
from ha_core.mirror.lag import LagTracker
from ha_core.mirror.pace import RateMeter, Throttle
from ha_core.mirror.partition import PartitionCopy
from ha_core.mirror.progress import Progress, Writer
from ha_core.mirror.split import Record, pack
from ha_core.wire.client import Answer
from ha_core.wire.codec import encode
from ha_core.wire.codes import ApiKey
from ha_core.wire.header import encode_response
from tests.kafka.mirroring import copy_of
from tests.mirror.batches import records

MIB = 1 << 20
INT, LAST_DELTA_AT = Struct(">i"), 23
BATCH = bytes(records(0, range(4)))
CUT_OFF = BATCH[:8] + (1 << 30).to_bytes(4, "big") + BATCH[12:]
"""The head of a batch whose rest is missing."""


class Sent:
    """In place of connections: records the requests."""

    def __init__(self) -> None:
        self.asked: dict[Line, dict[str, Any]] = {}
        self.then: dict[Line, Callable[[Answer], None]] = {}

    def ready(self, _line: Line, _now: float) -> bool:
        return True

    def send(
        self,
        line: Line,
        _api: object,
        message: Mapping[str, Any],
        _most: int,
        then: Callable[[Answer], None],
        *_: object,
    ) -> bool:
        self.asked[line] = dict(message)
        self.then[line] = then
        return True


class Loop:
    """A fetching side of partitions of two topics: those that lag, and those that have nothing new."""

    def __init__(self, buffer_bytes: int, sources: int, targets: int, lagging: int, idle: int) -> None:
        self.sent = Sent()
        self.fetching = Fetching(
            None,  # type: ignore[arg-type]
            self.sent,  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            Throttle(0.0),
            lambda *_: None,
            lambda *_: None,
            lambda *_: None,
            lambda: 0.0,
            Standstill(lambda: 0.0, lambda: 0.0),
            buffer_bytes,
        )
        self.fetching._times_at = float("inf")
        self.lanes = [self._lane(number, sources, targets, number < lagging) for number in range(lagging + idle)]
        self.now = 0.0

    def _lane(self, number: int, sources: int, targets: int, lags: bool) -> CopyLane:
        copy = PartitionCopy(Progress(Writer(900, 3), 0, 0))
        lane = CopyLane(copy_of("orders", number), copy, 0.0, RateMeter(0.0), LagTracker(), number % targets, 0, 0)
        lane.leader, lane.lags = Leadership(number % sources, 1, ""), lags
        self.fetching.add(lane)
        return lane

    def step(self) -> dict[Line, int]:
        """Bytes requested now, by line."""
        self.now += 1.0
        self.sent.asked.clear()
        self.fetching.step(self.now)
        return {line: message["max_bytes"] for line, message in self.sent.asked.items()}

    def hold(self, lane: CopyLane, size: int) -> None:
        """Makes the partition hold `size` bytes that the target does not take."""
        while lane.partition.held:
            lane.partition.noted()
            lane.partition.appended(lane.partition.target)
        batch = bytes(records(lane.partition.next_offset, range(4))) + CUT_OFF
        answer = bytearray(size)
        answer[: len(batch)] = batch
        lane.partition.fetched(answer)
        self.fetching.file(lane)

    def answer(self, line: Line, rooms: BufferPool, make: Callable[[int, int], bytes]) -> list[CopyLane]:
        """Delivers the answer over this line, in one buffer, as long as allowed.

        :param make: the batch of each partition, from an offset and a size.
        :return: lanes of the answer.
        """
        (topic,) = self.sent.asked[line]["topics"]
        lanes = [self.lanes[partition["partition"]] for partition in topic["partitions"]]
        size = self.sent.asked[line]["max_bytes"] // len(lanes)
        parts = [
            {
                "partition_index": lane.key[1],
                "last_stable_offset": 1 << 40,
                "records": make(lane.partition.next_offset, size),
            }
            for lane in lanes
        ]
        body = {"responses": [{"topic": "orders", "partitions": parts}]}
        frame = encode_response(ApiKey.FETCH, 12, 1, encode(ApiKey.FETCH, 12, "response", body))[4:]
        room = rooms.allocate(len(frame))
        room[:] = frame
        self.sent.then.pop(line)(Answer(ApiKey.FETCH, 12, room))
        return lanes


def large(base: int, size: int, *, compacted: bool = False) -> bytes:
    """A batch of two records with this size; if compacted, one record between them is gone."""
    batch = pack([Record.of(number, 0, None, bytes(size // 2 - 100)) for number in range(2)], 0)
    if compacted:
        (delta,) = INT.unpack_from(batch, LAST_DELTA_AT)
        INT.pack_into(batch, LAST_DELTA_AT, delta + 1)
    batch[:8] = base.to_bytes(8, "big")
    return bytes(batch)


def answer_bytes(partitions: int) -> int:
    """Size of the longest answer that fits a buffer of 8 MiB."""
    return fitting(8 * MIB) - 128 * partitions


def append_all(lane: CopyLane) -> None:
    copy = lane.partition
    while not copy.idle:
        for _ in copy.noted():
            copy.appended(copy.target)
    copy.recorded(copy.progress)


@given(
    st.integers(2, 64),
    st.integers(1, 200),
    st.integers(1, 5),
    st.integers(0, 300),
    st.integers(0, 300),
    st.integers(0, 3),
)
def test_held_and_requested_bytes_never_exceed_the_limit(
    mib: int, sources: int, targets: int, lagging: int, idle: int, held_mib: int
) -> None:
    # Given partitions some of which have something already
    loop = Loop(mib * MIB, sources, targets, lagging, idle)
    for lane in loop.lanes[::7]:
        if loop.fetching.held + held_mib * MIB <= mib * MIB:
            loop.hold(lane, held_mib * MIB)
    # When what can be asked for is, again and again, and nothing comes
    asked = 0
    for _ in range(3):
        asked += sum(loop.step().values())
        # Then the limit has room for all of it
        assert loop.fetching.held + asked <= mib * MIB


def test_shared_answer_counts_in_full_until_its_last_append() -> None:
    # Given partitions of two brokers of the target, and one answer for three of them in one buffer, which uses up the
    # limit
    loop = Loop(32 * MIB, sources=1, targets=2, lagging=3, idle=0)
    buffer = bytearray(30 * MIB)
    for number, lane in enumerate(loop.lanes):
        part = memoryview(buffer)[number * 1000 :][: len(BATCH)]
        part[:] = BATCH
        lane.partition.fetched(part)
        loop.fetching.file(lane)
    # Then it is kept once, and nothing is asked for
    assert loop.fetching.held == 30 * MIB
    assert loop.step() == {}
    # When all but one have appended theirs
    for lane in loop.lanes[1:]:
        lane.partition.noted()
        lane.partition.appended(0)
        assert loop.fetching.held == 30 * MIB
        assert loop.step() == {}
    # Then it still counts, until the last one is appended
    loop.lanes[0].partition.noted()
    loop.lanes[0].partition.appended(0)
    assert loop.fetching.held == 0
    assert loop.step() == {Line(ConnectionUse.BUSY, 0): answer_bytes(3)}


def test_batches_split_from_an_answer_count_after_its_buffer_is_reused() -> None:
    # Given partitions of a compacted topic, and a target that takes nothing
    loop, rooms, came = Loop(32 * MIB, sources=1, targets=1, lagging=100, idle=0), BufferPool(16 * MIB), 0
    # When all that is asked for comes
    while asked := loop.step():
        for line in asked:
            loop.answer(line, rooms, partial(large, compacted=True))
            came += asked[line]
        assert came <= 32 * MIB
    # Then room was left for it, and used
    assert 16 * MIB < loop.fetching.held <= 32 * MIB


@pytest.mark.parametrize(("mib", "sources", "targets"), [(32, 9, 2), (64, 10, 3), (128, 2, 3)])
def test_batches_for_a_stalled_broker_leave_room_for_others(mib: int, sources: int, targets: int) -> None:
    # Given a target of some brokers, one of which takes nothing; each answer has something for all of them
    lanes = sources * targets
    loop, rooms = Loop(mib * MIB, sources, targets, lanes, idle=0), BufferPool(mib * MIB // 2)
    # When all that is asked for comes, for a long time
    asked: dict[Line, int] = {}
    for _ in range(12):
        asked = loop.step()
        for line in asked:
            for lane in loop.answer(line, rooms, large):
                if lane.target_node:
                    append_all(lane)
        assert loop.fetching.held <= mib * MIB
    # Then the others still have all there is
    assert asked
    assert loop.fetching.held <= mib * MIB * 3 // 4


@pytest.mark.parametrize("targets", [12, 20])
def test_many_target_brokers_do_not_wait_for_a_shared_answer(targets: int) -> None:
    # Given a target of many brokers, and answers that have something for all of them
    loop, rooms = Loop(128 * MIB, sources=1, targets=targets, lagging=120, idle=0), BufferPool(64 * MIB)
    for _ in range(3):
        (line,) = loop.step()
        loop.answer(line, rooms, large)
    # Then the next is asked for at once
    assert loop.step()


def test_no_small_requests_while_little_room_is_left() -> None:
    loop = Loop(32 * MIB, sources=1, targets=2, lagging=100, idle=0)
    for lane, size in zip(loop.lanes, (13 * MIB, 13 * MIB), strict=False):
        loop.hold(lane, size)
    assert loop.step() == {}
    loop.hold(loop.lanes[0], 10 * MIB)
    assert loop.step() == {Line(ConnectionUse.BUSY, 0): answer_bytes(98)}


def test_stalled_target_broker_leaves_room_for_others() -> None:
    # Given a target of two brokers, one of which takes nothing of what it has half of all room for
    loop = Loop(32 * MIB, sources=1, targets=2, lagging=100, idle=0)
    for lane in loop.lanes[:32:2]:
        loop.hold(lane, MIB)
    # Then only batches for the other one are requested
    assert loop.step() == {Line(ConnectionUse.BUSY, 0): answer_bytes(50)}
    (topic,) = loop.sent.asked[Line(ConnectionUse.BUSY, 0)]["topics"]
    assert {partition["partition"] % 2 for partition in topic["partitions"]} == {1}


@pytest.mark.parametrize("sources", [1, 10, 500])
def test_waiting_requests_leave_room_for_available_records(sources: int) -> None:
    # Given a source of many brokers, each of which has partitions without anything new
    loop = Loop(32 * MIB, sources, targets=1, lagging=0, idle=2 * sources)
    assert len(waiting := loop.step()) == sources
    assert sum(waiting.values()) <= 32 * MIB / 4
    # When one of them has more, then that is asked for
    loop.lanes[0].lags = True
    loop.fetching.file(loop.lanes[0])
    loop.step()
    assert Line(ConnectionUse.BUSY, 0) in loop.sent.asked
