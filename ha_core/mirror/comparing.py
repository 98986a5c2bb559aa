"""Whether a copy has what its source has: every record, with its key, value, headers and time. No I/O.

The runs of a copy say at which offset each record of the source has to lie there. Both logs are walked side by side.
A batch that was copied as it is has the same records, to the byte, behind a header of its own: it is compared without
being read. Whatever differs in bytes is read, record by record, before it is called different: a broker that packs
anew changes the bytes and not the records.

What only one of them has:

- A record that the source has and the copy has not is *missing*, and a difference; but not below the start of the
  copy's log, and in a compacted copy not while a later record of its key is there. These are counted. Nor is one where
  the source was a copy before, and has of the time before that what nobody is led to, as the tail that it had when it
  failed (`Progress.source_base`).
- A record that the copy has and the source has no more (retention, compaction, deleted records) is counted, too. It is
  a difference where the source has an aborted or a control batch, or where no run says that anything was copied; but
  not where the copy was a source before: what it had then, and nobody copied, is its own (`Progress.base`).

Of a range the first difference is found, by its offset in the source, and nothing behind it is looked at.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import NamedTuple, Protocol, TypeVar

from ha_core.mirror.progress import CopyDamagedError, Intent, Progress
from ha_core.mirror.recovery import DataEnd, behind, recover
from ha_core.mirror.split import Record, fields, read_records
from ha_core.model import Run
from ha_core.wire.copies import COMPRESSION, CONTROL, LOG_APPEND_TIME
from ha_core.wire.records import HEADER_BYTES, Batch

T = TypeVar("T")
MAX_FOLLOWED = 500_000
"""Keys of a compacted copy whose later record is waited for at a time."""


class Piece(NamedTuple):
    """A batch of a log, in the buffer in which it has come."""

    batch: Batch
    buf: bytes | bytearray
    committed: bool = True
    """Whether a consumer that reads committed records would see it."""


class Log(Protocol):
    """Part of a log, oldest first. `log_start` is where the log starts, as it was last told: it moves."""

    @property
    def log_start(self) -> int: ...

    def __iter__(self) -> Iterator[Piece]: ...


class Range(NamedTuple):
    """Source offsets `[start, end)`, and what lies at `[target_start, target_end)` of the copy."""

    start: int
    end: int
    target_start: int
    target_end: int
    runs: tuple[Run, ...]
    """Those that reach into it, oldest first."""
    base: int = 0
    """What lies below it in the copy and in no run is the copy's own."""
    source_base: int = 0
    """What lies below it in the source and in no run is not copied."""


class Difference(NamedTuple):
    offset: int
    """In the source."""
    target: int
    """Where that is in the copy; -1: nowhere."""
    what: str


class Compared(NamedTuple):
    """What came of a range."""

    compared: int = 0
    """Records that are the same, before the first difference."""
    gone_in_source: int = 0
    """Records that only the copy still has."""
    gone_in_copy: int = 0
    """Records that only the source still has, by retention or compaction of the copy."""
    read: int = 0
    """Records that had to be read one by one."""
    first: Difference | None = None


class CopyMap(NamedTuple):
    """Where what lies in a copy: the source up to `source`, in the copy up to `target`."""

    runs: tuple[Run, ...]
    source: int
    target: int
    base: int = 0
    """See `Progress.base`."""
    source_base: int = 0
    """See `Progress.source_base`."""

    @classmethod
    def of(cls, progress: Progress, older: Iterable[Run] = ()) -> CopyMap:
        """:param older: runs that the progress does not hold any more."""
        return cls((*older, *progress.runs), progress.source, progress.target, progress.base, progress.source_base)

    def copied_below(self, offset: int) -> int:
        """So many records from below this offset of the source were copied."""
        return sum(min(run.records, offset - run.source) for run in self.runs if run.source < offset)


def ranges(copied: CopyMap, start: int, end: int, records: int) -> Iterator[Range]:
    """The source offsets `[start, end)` in ranges of so many.

    :param end: not above what is copied.
    """
    runs, first = copied.runs, 0
    for begin in range(start, end, records):
        until = min(begin + records, end)
        while first < len(runs) and runs[first].after <= begin:
            first += 1
        last = first
        while last < len(runs) and runs[last].source < until:
            last += 1
        target_end = copied.target if until == copied.source else _reached(runs, until)
        yield Range(begin, until, _reached(runs, begin), target_end, runs[first:last], copied.base, copied.source_base)


def _reached(runs: Sequence[Run], offset: int) -> int:
    """Where in the copy the records below this offset of the source end."""
    at = bisect_right(runs, offset - 1, key=lambda run: run.source) - 1
    if at < 0:
        return 0
    run = runs[at]
    return run.target + min(offset - run.source, run.records)


def chosen(things: Sequence[T], share: float, seed: str) -> list[T]:
    """A share of them, one at least, in their order; the same for the same seed."""
    if share >= 1 or not things:
        return list(things)
    drawn = sorted(range(len(things)), key=lambda at: blake2b(f"{seed}:{at}".encode()).digest())
    return [things[at] for at in sorted(drawn[: max(1, round(share * len(things)))])]


def standing(
    progress: Progress, intents: Iterable[Intent], tail: Iterable[Batch], end: int
) -> tuple[Progress, Difference | None]:
    """How far a copy is that somebody may be appending to, and what is wrong with it behind its newest progress.

    :param progress: the newest of the copy log; and all intents there, read after `end`.
    :param tail: the batches of the copy from `progress.target` on, up to `end`.
    :param end: of the copy, before the copy log was read.
    """
    try:
        there = behind(tail, progress)
        foreign = there.foreign
        # Behind the last record are only markers, of copiers that took over and wrote down nothing, and of others.
        rest = [one.base_offset for one in (*there.markers, foreign) if one is not None]
        stop = rest[0] if rest else max(end, progress.target)
        found = recover(progress, intents, DataEnd(stop, there.passed))
    except CopyDamagedError as error:
        return progress, Difference(progress.source, progress.target, str(error))
    if foreign is None:
        return found, None
    what = f"producer {foreign.producer_id}, which is not the copier, has written to the copy"
    return found, Difference(found.source, foreign.base_offset, what)


class Comparison:
    """Compares a range. `source` and `copy` have all batches that reach into it, and may have more."""

    def __init__(self, span: Range, source: Log, copy: Log, compacted: bool = False) -> None:
        """:param compacted: the copy is a compacted topic."""
        self._span = span
        self._copy_log = copy
        self._source = _Cursor(source, span.start, span.end)
        self._copy = _Cursor(copy, span.target_start, span.target_end)
        self._compacted = compacted
        self._followed: dict[bytes, int] = {}
        """Key of a record that the copy lacks → its offset."""
        self._compared = self._gone_in_source = self._gone_in_copy = self._read = 0
        self._first: Difference | None = None

    def run(self, later: Callable[[], Iterable[Piece]] = lambda: ()) -> Compared:
        """
        :param later: what lies in the copy behind the range by now, asked for when a key is still waited for.
        :raises RemoteProtocolError: a batch cannot be read.
        """
        while self._first is None and self._step():
            pass
        if self._first is None and self._followed:
            self._follow(later())
        return Compared(self._compared, self._gone_in_source, self._gone_in_copy, self._read, self._first)

    def _step(self) -> bool:
        """One batch or one record; False: there is nothing more."""
        theirs, ours = self._source.whole(), self._copy.whole()
        if theirs and ours and not self._followed and self._in_place(theirs.batch, ours.batch) and same(theirs, ours):
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
        at, mapped = self._origin(copied.offset)
        if not mapped and copied.offset < self._span.base:
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

    def _origin(self, target: int) -> tuple[int, bool]:
        """The source offset of what lies there in the copy; or behind which run it lies, and False."""
        at = bisect_right(self._span.runs, target, key=lambda run: run.target) - 1
        if at < 0:
            return self._span.start, False
        run = self._span.runs[at]
        inside = target - run.target < run.records
        return (run.source + target - run.target, True) if inside else (max(run.after, self._span.start), False)

    def _place(self, offset: int) -> int | None:
        """Where a record of the source has to lie in the copy; None: nowhere."""
        at = bisect_right(self._span.runs, offset, key=lambda run: run.source) - 1
        if at < 0 or offset >= self._span.runs[at].after:
            return None
        return self._span.runs[at].target + offset - self._span.runs[at].source

    def _pair(self, record: Record, copied: Record) -> None:
        if what := differing(record, copied):
            self._differ(record.offset, copied.offset, what)
            return
        self._compared += 1
        self._take(self._source)
        self._met(copied)
        self._take(self._copy)

    def _lacking(self, record: Record) -> None:
        target = self._place(record.offset)
        if target is None and record.offset < self._span.source_base:
            self._take(self._source)
            return
        if target is not None and target < self._copy_log.log_start:
            self._gone_in_copy += 1
        elif target is not None and self._compacted:
            self._gone_in_copy += 1
            self._expect(record)
        else:
            self._differ(record.offset, -1 if target is None else target, "the copy does not have it")
            return
        self._take(self._source)

    def _surplus(self, at: int, copied: Record) -> None:
        if self._source.hides(at):
            self._differ(at, copied.offset, "the source has no committed record there, and the copy has one")
            return
        self._gone_in_source += 1
        self._met(copied)
        self._take(self._copy)

    def _take(self, cursor: _Cursor) -> None:
        self._read += cursor is self._source
        cursor.take()

    def _differ(self, offset: int, target: int, what: str) -> None:
        self._first = Difference(offset, target, what)

    # Compacted copies

    def _expect(self, record: Record) -> None:
        """A later record of its key has to come. Behind a tombstone none has to: it is compacted away itself."""
        key, value, _ = fields(record.rest)
        if value is None:
            self._followed.pop(_digest(key), None)
            return
        self._followed.setdefault(_digest(key), record.offset)
        if len(self._followed) > MAX_FOLLOWED:
            self._differ(record.offset, -1, f"the copy lacks records of more than {MAX_FOLLOWED:,} keys up to it")

    def _met(self, copied: Record) -> None:
        if self._followed:
            self._followed.pop(_digest(fields(copied.rest).key), None)

    def _follow(self, later: Iterable[Piece]) -> None:
        for piece in later:
            for record in () if piece.batch.attributes & CONTROL else read_records(piece.buf, piece.batch):
                self._met(record)
            if not self._followed:
                return
        offset = min(self._followed.values())
        target = self._place(offset)
        self._differ(offset, -1 if target is None else target, "the copy has neither it nor a later one of its key")


class _Cursor:
    """Goes through a log, batch by batch or record by record, as it is asked."""

    def __init__(self, log: Log, start: int, end: int) -> None:
        self._pieces = iter(log)
        self._start, self._end = start, end
        self._whole: Piece | None = None
        self._records: deque[Record] = deque()
        self._hidden: deque[tuple[int, int]] = deque()

    def whole(self) -> Piece | None:
        """The batch that comes next, if all its offsets are in the range and have a record."""
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
        """The record that comes next; None: the range is over."""
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
        """Whether a batch that no consumer sees has this offset. Asked with offsets that rise."""
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
    """Whether two batches without gaps surely have the same records, by their bytes; False says nothing."""
    one, other = theirs.batch, ours.batch
    return (
        one.records_count == other.records_count
        and one.base_timestamp == other.base_timestamp
        and not (one.attributes | other.attributes) & LOG_APPEND_TIME
        and not (one.attributes ^ other.attributes) & COMPRESSION
        and theirs.buf[one.at + HEADER_BYTES : one.end] == ours.buf[other.at + HEADER_BYTES : other.end]
    )


def differing(record: Record, copied: Record) -> str:
    """What two records differ in; empty: in nothing."""
    parts = []
    if record.rest != copied.rest:
        theirs, ours = fields(record.rest), fields(copied.rest)
        parts = [name for name, one, other in zip(theirs._fields, theirs, ours, strict=True) if one != other]
    if record.time_ms != copied.time_ms:
        parts.append("timestamp")
    return f"another {', '.join(parts)}" if parts else ""


def _digest(key: bytes | None) -> bytes:
    return blake2b(key or b"", digest_size=16).digest()
