"""How many bytes of the source's answers are held until they are appended, per target broker, and in which memory.

A long answer is one buffer (`kafka.buffer_pool`), of which partitions take views. It stays until the last of its
batches is appended, so one stalled broker of the target holds all of it. Where that would exceed the broker's share,
each partition copies its part instead.
"""

from collections.abc import Iterable
from typing import NamedTuple

from ha_core.kafka.copying.states import CopyLane


class BufferedBytes(NamedTuple):
    by_target: dict[int, int]
    """Bytes held per target broker, for all brokers with partitions here, until it has taken its part of them. A buffer
    counts in full for each broker with a part of it."""
    in_all: int


def held_for(lanes: Iterable[CopyLane], targets: Iterable[int]) -> BufferedBytes:
    """
    :param lanes: at least those that hold something.
    :param targets: all brokers of the target with partitions here.
    """
    by_target = dict.fromkeys(targets, 0)
    in_all = 0
    sizes: dict[int, int] = {}
    counted = set[tuple[int, int]]()
    for lane in lanes:
        made = lane.partition.made
        by_target[lane.target_node] += made
        in_all += made
        for buffer in lane.partition.buffers:
            counted_key = lane.target_node, id(buffer)
            if counted_key not in counted:
                counted.add(counted_key)
                by_target[lane.target_node] += len(buffer)
                sizes[id(buffer)] = len(buffer)
    return BufferedBytes(by_target, in_all + sum(sizes.values()))


class Places:
    """Decides whether records stay in the receive buffer or are copied out."""

    def __init__(self) -> None:
        self._longest: int | None = None
        """Longest buffer that may be kept for parts of it; None: no limit."""

    def judge(self, brokers: int, share: int, may_come: int, all_bytes: int) -> None:
        """:param brokers: number of the target's brokers.
        :param share: bytes of `all_bytes` that one stalled broker may hold.
        :param may_come: bytes of answers in flight or about to be requested, before its share is known to be full.
        """
        if brokers <= 1:
            self._longest = None
        elif share + may_come > all_bytes:
            self._longest = 0
        else:
            # Brokers that could not hold two answers would wait for each other's last batch.
            self._longest = share // 2

    def own(self, records: bytes | memoryview) -> bytearray | memoryview:
        """The records, copied into memory of their own if their buffer must not be kept."""
        if isinstance(records, memoryview):
            buffer = records.obj
            if isinstance(buffer, bytearray) and (self._longest is None or len(buffer) <= self._longest):
                return records
        return bytearray(records)
