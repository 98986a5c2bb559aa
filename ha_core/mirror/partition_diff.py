"""Diff of two logs, read side by side: batch by batch while their bytes are equal, else record by record. No I/O."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

from ha_core.mirror.key_states import Compacted, Unmatched
from ha_core.mirror.split import Record, fields, read_records
from ha_core.model import Run
from ha_core.wire.copied_batch import COMPRESSION, CONTROL, LOG_APPEND_TIME
from ha_core.wire.records import HEADER_BYTES, Batch


class Piece(NamedTuple):
    """A batch of a log, in its receive buffer."""

    batch: Batch
    buf: bytes | bytearray
    committed: bool = True
    """True if a consumer of committed records sees it."""


class LogPart(Protocol):
    """Part of a log, oldest first. `log_start` is the last reported log start, which moves."""

    @property
    def log_start(self) -> int: ...

    def __iter__(self) -> Iterator[Piece]: ...


class Range(NamedTuple):
    """Source offsets `[start, end)`, and their range `[target_start, target_end)` in the copy."""

    start: int
    end: int
    target_start: int
    target_end: int
    runs: tuple[Run, ...]
    """Runs that overlap the range, oldest first."""
    base: int = 0
    """Records of the copy below it and outside of all runs are the copy's own."""
    source_base: int = 0
    """Records of the source below it and outside of all runs are never copied."""

    def own_in_source(self, offset: int) -> bool:
        """True if the record there was never copied and is in no map: no reader is led to it, in either log."""
        return offset < self.source_base and self.place(offset) is None

    def own_in_copy(self, target: int) -> bool:
        """Like `own_in_source`, for the copy."""
        return self.target_start <= target < self.base and not self.origin(target)[1]

    def origin(self, target: int) -> tuple[int, bool]:
        """(source offset, True) if the copy's offset is in a run, else (end of the preceding run, False)."""
        at = bisect_right(self.runs, target, key=lambda run: run.target) - 1
        if at < 0:
            return self.start, False
        run = self.runs[at]
        inside = target - run.target < run.records
        return (run.source + target - run.target, True) if inside else (max(run.after, self.start), False)

    def place(self, offset: int) -> int | None:
        """Offset in the copy of a record of the source; None: it has none."""
        at = bisect_right(self.runs, offset, key=lambda run: run.source) - 1
        if at < 0 or offset >= self.runs[at].after:
            return None
        return self.runs[at].target + offset - self.runs[at].source

    def seen(self, target: int) -> tuple[int, bool]:
        """(source offset that orders the record among others of its key, True if it is above the range or in no
        run)."""
        if target < self.target_start:
            return -1, False
        if target >= self.target_end:
            return self.end + target - self.target_end, True
        at, mapped = self.origin(target)
        return at, not mapped


class RecordDifference(NamedTuple):
    offset: int
    """Source offset."""
    target: int
    """Offset in the copy; -1: none."""
    what: str


class Compared(NamedTuple):
    """Result for a range."""

    compared: int = 0
    """Equal records before the first difference."""
    gone_in_source: int = 0
    """Records that only the copy still has."""
    gone_in_copy: int = 0
    """Records that only the source still has, by retention or compaction of the copy."""
    lacking: int = 0
    """The part of `gone_in_copy` below the copy's log start: no compaction has kept later records of their keys."""
    read: int = 0
    """Records that had to be decoded one by one."""
    first: RecordDifference | None = None
    cut_short: bool = False
    """The time was over: the result covers only what was compared by then."""


def never() -> bool:
    """Says that there is no time limit."""
    return False


class Walk:
    """Reads both logs once, side by side."""

    def __init__(self, span: Range, source: LogPart, copy: LogPart, compacted: Compacted, keys: Unmatched) -> None:
        """:param keys: collects keys whose last record is in one of the logs only."""
        self._span = span
        self._source_log, self._copy_log = source, copy
        self._source = _LogCursor(source, span.start, span.end)
        self._copy = _LogCursor(copy, span.target_start, span.target_end)
        self._compacted, self._keys = compacted, keys
        self._compared = self._gone_in_source = self._gone_in_copy = self._below_start = self._read = 0
        self._first: RecordDifference | None = None

    def run(self, over: Callable[[], bool] = never) -> Compared:
        """
        :param over: called after every step; True when the time is over.
        :raises RemoteProtocolError: a batch cannot be read.
        """
        short = False
        while not short and self._first is None and self._step():
            short = over()
        gone = self._gone_in_source, self._gone_in_copy, self._below_start
        return Compared(self._compared, *gone, self._read, self._first, short)

    def _step(self) -> bool:
        """Compares one batch or one record; False: nothing is left."""
        theirs, ours = self._source.whole(), self._copy.whole()
        if (
            theirs
            and ours
            and not self._keys.digests
            and self._in_place(theirs.batch, ours.batch)
            and same(theirs, ours)
        ):
            self._compared += theirs.batch.records_count
            self._source.skip()
            self._copy.skip()
            return True
        record, copied = self._source.record(), self._copy.record()
        if copied is None:
            if record is None:
                return False
            self._lacking(record)
            return True
        at, mapped = self._span.origin(copied.offset)
        if self._span.own_in_copy(copied.offset):
            self._take(self._copy)
            return True
        if record is not None and record.offset < at:
            self._lacking(record)
        elif not mapped:
            self._differ(at, copied.offset, "the copy has a record there that was not copied")
        elif record is None or at < record.offset:
            self._surplus(at, copied)
        else:
            self._pair(record, copied)
        return True

    def _in_place(self, theirs: Batch, ours: Batch) -> bool:
        at = bisect_right(self._span.runs, theirs.base_offset, key=lambda run: run.source) - 1
        run = self._span.runs[at] if at >= 0 else Run(0, 0, 0)
        return theirs.last_offset < run.after and ours.base_offset - run.target == theirs.base_offset - run.source

    def _pair(self, record: Record, copied: Record) -> None:
        if what := differing(record, copied):
            self._differ(record.offset, copied.offset, what)
            return
        self._compared += 1
        self._keys.matched(record.rest)
        self._take(self._source)
        self._take(self._copy)

    def _lacking(self, record: Record) -> None:
        if self._span.own_in_source(record.offset):
            self._take(self._source)
            return
        target = self._span.place(record.offset)
        if target is not None and target < self._copy_log.log_start:
            self._gone_in_copy += 1
            self._below_start += 1
        elif target is not None and self._compacted.copy:
            self._gone_in_copy += 1
            self._keys.add(record.rest)
        else:
            self._differ(record.offset, -1 if target is None else target, "the copy does not have it")
            return
        self._take(self._source)

    def _surplus(self, at: int, copied: Record) -> None:
        if self._source.hides(at):
            self._differ(at, copied.offset, "the source has no committed record there, and the copy has one")
            return
        self._gone_in_source += 1
        if any(self._compacted) and at >= self._source_log.log_start:
            self._keys.add(copied.rest)
        self._take(self._copy)

    def _take(self, cursor: _LogCursor) -> None:
        self._read += cursor is self._source
        cursor.take()

    def _differ(self, offset: int, target: int, what: str) -> None:
        self._first = RecordDifference(offset, target, what)


class _LogCursor:
    """Reads a log batch by batch or record by record, as needed."""

    def __init__(self, log: LogPart, start: int, end: int) -> None:
        self._pieces = iter(log)
        self._start, self._end = start, end
        self._whole: Piece | None = None
        self._records: deque[Record] = deque()
        self._hidden: deque[tuple[int, int]] = deque()

    def whole(self) -> Piece | None:
        """The next batch, if all its offsets are in the range and have a record."""
        if self._records:
            return None
        self._fill()
        if self._whole is None:
            return None
        batch = self._whole.batch
        dense = batch.magic == 2 and batch.records_count == batch.last_offset_delta + 1
        return self._whole if dense and self._start <= batch.base_offset and batch.last_offset < self._end else None

    def skip(self) -> None:
        self._whole = None

    def record(self) -> Record | None:
        """The next record; None: the range is over."""
        while not self._records:
            self._fill()
            if self._whole is None:
                return None
            piece, self._whole = self._whole, None
            self._records.extend(
                one for one in read_records(piece.buf, piece.batch) if self._start <= one.offset < self._end
            )
        return self._records[0]

    def take(self) -> None:
        self._records.popleft()

    def hides(self, offset: int) -> bool:
        """True if a batch that no consumer sees has this offset. Call it with ascending offsets."""
        while self._hidden and self._hidden[0][1] < offset:
            self._hidden.popleft()
        return bool(self._hidden) and self._hidden[0][0] <= offset

    def _fill(self) -> None:
        while self._whole is None and (piece := next(self._pieces, None)) is not None:
            if piece.batch.last_offset < self._start:
                continue
            if piece.committed:
                self._whole = piece
            elif self._hidden and self._hidden[-1][1] + 1 == piece.batch.base_offset:
                self._hidden[-1] = (self._hidden[-1][0], piece.batch.last_offset)
            else:
                self._hidden.append((piece.batch.base_offset, piece.batch.last_offset))


def same(theirs: Piece, ours: Piece) -> bool:
    """True if two batches without gaps have the same records, judged by their bytes; False proves nothing."""
    batch, other = theirs.batch, ours.batch
    return (
        batch.records_count == other.records_count
        and batch.base_timestamp == other.base_timestamp
        and not (batch.attributes | other.attributes) & LOG_APPEND_TIME
        and not (batch.attributes ^ other.attributes) & COMPRESSION
        and theirs.buf[batch.at + HEADER_BYTES : batch.end] == ours.buf[other.at + HEADER_BYTES : other.end]
    )


def differing(record: Record, copied: Record) -> str:
    """The fields in which two records differ; "": none."""
    parts = []
    if record.rest != copied.rest:
        theirs, ours = fields(record.rest), fields(copied.rest)
        parts = [name for name, one, other in zip(theirs._fields, theirs, ours, strict=True) if one != other]
    if record.time_ms != copied.time_ms:
        parts.append("timestamp")
    return f"another {', '.join(parts)}" if parts else ""


def visible(log: LogPart) -> Iterator[Record]:
    for piece in log:
        if piece.committed and not piece.batch.attributes & CONTROL:
            yield from read_records(piece.buf, piece.batch)
