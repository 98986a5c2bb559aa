"""Logs in memory."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from struct import pack

from ha_core.mirror import split
from ha_core.mirror.partition import Aborted, judged
from ha_core.mirror.partition_diff import Piece
from ha_core.mirror.split import Record


@dataclass
class Held:
    """A log in memory."""

    data: list[bytes] = field(default_factory=list)
    aborted: tuple[Aborted, ...] = ()
    log_start: int = 0

    def __iter__(self) -> Iterator[Piece]:
        buf = bytearray(b"".join(self.data))
        for batch, committed in judged(buf, self.aborted):
            if batch.last_offset >= self.log_start:
                yield Piece(batch, buf, committed)


def packed(base: int, some: list[Record]) -> bytes:
    return pack(">q", base) + bytes(split.pack(some, 0))[8:]


def single(some: list[Record], base: int = 0) -> Held:
    """A log of these records, each in its own batch."""
    return Held([packed(base + at, [record]) for at, record in enumerate(some)])
