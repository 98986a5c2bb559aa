"""Reads the records to compare: source records around the committed offset, and the last records of the remote topic.

Reads begin small, and are bounded in offsets and bytes of each log (`ReadBounds`).
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from itertools import chain
from typing import NamedTuple

from ha_core.flows.alignment import OffsetRange, RemoteRecord, RemoteWindow, SourceRecord, SourceWindow
from ha_core.kafka.admin import Admin
from ha_core.kafka.facts import LogEnds
from ha_core.mirror.partition_diff import Piece
from ha_core.mirror.split import Record, fields, read_records
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.copied_batch import CONTROL, LOG_APPEND_TIME

_DIGEST_BYTES = 16
_SHORTER = 4
_FEWEST = 16


class ReadBounds(NamedTuple):
    """Limits of what is read of each log for a partition.

    :ivar records: number of offsets read on either side of the committed offset; of the remote topic, twice as many.
    :ivar size: number of bytes, as stored in the log. If the window of the remote topic has more, a shorter one is
        read.
    """

    records: int = 250_000
    size: int = 256 << 20


BOUNDS = ReadBounds()


class _WindowRecord(NamedTuple):
    """:ivar time_ms: timestamp; None: the remote topic has its brokers' log-append time, or the source has none."""

    offset: int
    time_ms: int | None
    digest: bytes
    key: bytes | None
    aborted: bool


class _SourceWindow(NamedTuple):
    records: list[_WindowRecord]
    end: int
    removed: list[OffsetRange]


class _RemoteWindow(NamedTuple):
    records: list[_WindowRecord]
    """Records whose `offset` is their position (`RemoteRecord`)."""
    end: int


def windows(
    source: tuple[Admin, Partition, LogEnds],
    target: tuple[Admin, Partition, LogEnds],
    committed: int,
    records: int,
    bounds: ReadBounds,
    compacted: bool,
) -> tuple[SourceWindow, RemoteWindow]:
    """
    :param source: admin, partition, and the log's ends as of a moment ago.
    :param target: likewise for the remote topic, which has no open transaction.
    :param records: as in `ReadBounds`.
    :param compacted: whether the remote topic is compacted.
    """
    source_ends, target_ends = source[2], target[2]
    start = max(source_ends.start, committed + 1 - records)
    end = min(source_ends.high_watermark, committed + 1 + records)
    first = max(target_ends.start, target_ends.high_watermark - 2 * records)
    there = _read_remote(*target, first, bounds.size, compacted)
    here = _read_source(*source, start, max(start, end), bounds.size, compacted)
    # If any record has no comparable timestamp, timestamps are not compared at all.
    timed = all(one.time_ms is not None for one in chain(here.records, there.records))
    return (
        SourceWindow(
            [SourceRecord(one.offset, _content(one, timed), one.key, one.aborted) for one in here.records],
            start,
            here.end,
            here.removed,
            here.end >= source_ends.high_watermark,
        ),
        RemoteWindow(
            [RemoteRecord(one.offset, _content(one, timed)) for one in there.records],
            there.end,
            first <= target_ends.start,
            compacted,
        ),
    )


def _read_source(
    admin: Admin, key: Partition, ends: LogEnds, start: int, end: int, size: int, compacted: bool
) -> _SourceWindow:
    stable = min(max(ends.last_stable, start), end)
    # Records above the last stable offset may still be committed, so all of them count.
    pieces = chain(admin.log(key, start, stable, committed=True), admin.log(key, stable, end))
    found, removed, after, read = list[_WindowRecord](), list[OffsetRange](), start, 0
    for piece in pieces:
        if read >= size:
            return _SourceWindow(found, after, removed)
        read += piece.batch.end - piece.batch.at
        for offset, record in _offsets(piece, start, end):
            if offset < after:
                continue
            if offset > after:
                removed.append(OffsetRange(after, offset))
            after = offset + 1
            if record is not None:
                found.append(_found(piece, record, offset, record.time_ms < 0, compacted))
    if after < end:
        removed.append(OffsetRange(after, end))
    return _SourceWindow(found, end, removed)


def _read_remote(admin: Admin, key: Partition, ends: LogEnds, start: int, size: int, compacted: bool) -> _RemoteWindow:
    end = ends.high_watermark
    found, hidden, read = list[_WindowRecord](), 0, 0
    for piece in admin.log(key, start, end, committed=True):
        read += piece.batch.end - piece.batch.at
        if read > size and end - start > _FEWEST:
            return _read_remote(admin, key, ends, end - (end - start) // _SHORTER, size, compacted)
        for offset, record in _offsets(piece, start, end):
            if record is None or not piece.committed:
                hidden += 1
            else:
                stamped = bool(piece.batch.attributes & LOG_APPEND_TIME)
                found.append(_found(piece, record, offset - hidden, stamped, compacted))
    return _RemoteWindow(found, end - hidden)


def _offsets(piece: Piece, start: int, end: int) -> Iterator[tuple[int, Record | None]]:
    """Yields the offsets of a batch in `[start, end)`, each with its record; None: a marker."""
    batch = piece.batch
    if batch.attributes & CONTROL:
        for offset in range(max(batch.base_offset, start), min(batch.last_offset + 1, end)):
            yield offset, None
        return
    for record in read_records(piece.buf, batch):
        if start <= record.offset < end:
            yield record.offset, record


def _found(piece: Piece, record: Record, offset: int, stamped: bool, compacted: bool) -> _WindowRecord:
    return _WindowRecord(
        offset,
        None if stamped else record.time_ms,
        blake2b(record.rest, digest_size=_DIGEST_BYTES).digest(),
        fields(record.rest).key if compacted else None,
        not piece.committed,
    )


def _content(found: _WindowRecord, timed: bool) -> bytes:
    return found.digest + (b"%d" % found.time_ms if timed and found.time_ms is not None else b"")
