"""What is kept of answers of the source until it is appended: how much that is, for whom, and where it lies.

A long answer lies in one buffer (`kafka.rooms`), of which partitions take their parts without a copy. It is there until
the last of its batches is appended, so one broker of the target that stands still keeps all of it. Where that would be
more than its share, each partition gets a copy of its part instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ha_core.kafka.copying.states import CopyLane


class BufferedBytes(NamedTuple):
    by_target: dict[int, int]
    """By the broker that they go to, of all for which there is anything to copy: bytes that are there until it has
    taken its part of them. What several have a part of counts whole for each."""
    in_all: int


def held_for(lanes: Iterable[CopyLane]) -> BufferedBytes:
    by_target: dict[int, int] = {}
    in_all = 0
    sizes: dict[int, int] = {}
    counted = set[tuple[int, int]]()
    for lane in lanes:
        by_target.setdefault(lane.target_node, 0)
        if not lane.partition.held:
            continue  # of thousands most have nothing
        made = lane.partition.made
        by_target[lane.target_node] += made
        in_all += made
        for buffer in lane.partition.buffers:
            it = lane.target_node, id(buffer)
            if it not in counted:
                counted.add(it)
                by_target[lane.target_node] += len(buffer)
                sizes[id(buffer)] = len(buffer)
    return BufferedBytes(by_target, in_all + sum(sizes.values()))


class Places:
    """Decides whether records stay where they were received."""

    def __init__(self) -> None:
        self._longest: int | None = None
        """No longer buffer stays for what is left in it; None: any does."""

    def judge(self, brokers: int, share: int, may_come: int, all_bytes: int) -> None:
        """:param brokers: of the target.
        :param share: what one of them may keep of `all_bytes` when it stands still.
        :param may_come: with answers that are waited for or to be asked for now, before its share is known to be full.
        """
        if brokers <= 1:
            self._longest = None
        elif share + may_come > all_bytes:
            self._longest = 0
        else:
            # Brokers that could not keep two answers would wait for each other's last batch.
            self._longest = share // 2

    def own(self, records: bytes | memoryview) -> bytearray | memoryview:
        """These, in memory that is theirs."""
        if isinstance(records, memoryview):
            buffer = records.obj
            if isinstance(buffer, bytearray) and (self._longest is None or len(buffer) <= self._longest):
                return records
        return bytearray(records)
