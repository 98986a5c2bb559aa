"""Batches of a source, and a broker of the target that accepts copies of them."""

from collections.abc import Iterable
from struct import pack
from typing import Any

import google_crc32c
from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

from ha_core.mirror.partition import Aborted, PartitionCopy
from ha_core.mirror.progress import Intent, Writer
from ha_core.wire.records import batches

MS = 1_700_000_000_000


def records(
    base: int,
    offsets: Iterable[int],
    codec: int = 0,
    producer: int = -1,
    sequence: int = -1,
    transactional: bool = False,
    leader_epoch: int = 0,
) -> bytes:
    """A batch whose records have these deltas; gaps between them are those of a compacted log."""
    epoch = 1 if producer >= 0 else -1
    builder = DefaultRecordBatchBuilder(2, codec, transactional, producer, epoch, sequence, 1 << 24)
    for delta in offsets:
        value = None if delta % 5 == 4 else b"value %d " % (base + delta) * 3
        builder.append(
            delta, MS + 3 * delta, b"k%d" % delta if delta % 2 else None, value, [("h", b"\xff"), ("h", None)]
        )
    built = bytes(builder.build())
    return pack(">q", base) + built[8:12] + pack(">i", leader_epoch) + built[16:]


def empty(base: int, last_delta: int, producer: int, sequence: int, attributes: int = 0) -> bytes:
    """The empty batch or marker that compaction keeps for a producer when all its records are gone."""
    covered = pack(">hiqqqhii", attributes, last_delta, MS, MS, producer, 1, sequence, 0)
    return pack(">qiibI", base, 9 + len(covered), 0, 2, google_crc32c.value(covered)) + covered


def marker(offset: int, producer: int, kind: int) -> bytes:
    body = b"\x1e\0\0\0\x08\0\0" + pack(">h", kind) + b"\x0c" + pack(">hi", 0, 0) + b"\0"
    covered = pack(">hiqqqhii", 0x30, 0, MS, MS, producer, 1, -1, 1) + body
    return pack(">qiibI", offset, 9 + len(covered), 0, 2, google_crc32c.value(covered)) + covered


class Target:
    """A broker that appends the batches: it assigns offsets and checks sequences."""

    def __init__(self, writer: Writer) -> None:
        self.log: list[tuple[int, Any]] = []
        self.intents: list[Intent] = []
        self.writer = writer
        self.sequence = 0

    def append(self, data: bytes) -> int:
        batch = DefaultRecordBatch(data)
        assert batch.validate_crc()
        (header,) = batches(data, 0, len(data))
        assert (header.producer_id, header.producer_epoch) == self.writer
        assert header.base_sequence == self.sequence
        assert header.records_count == header.last_offset_delta + 1
        self.sequence += header.records_count
        first = len(self.log)
        self.log += [(first + i, record) for i, record in enumerate(batch)]
        return first

    def copy_all(self, copy: PartitionCopy, data: bytes, aborted: tuple[Aborted, ...] = ()) -> None:
        """Copies an answer to a fetch, up to the last acknowledgement."""
        for intent in copy.fetched(bytearray(data), aborted):
            self.intents.append(intent)
            for ready in copy.noted():
                copy.appended(self.append(bytes(ready.data)))
