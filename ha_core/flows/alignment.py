"""Finds from the end of the remote topic where a real MirrorMaker 2 stopped copying a partition. No I/O.

MirrorMaker 2 commits the offset of its last copied record each minute, so after a kill the remote topic holds records
above the commit. Going on at the committed offset duplicates them; guessing a higher offset may skip records. The
*original* of a record in the remote topic is the source record that it copies. Three facts carry the proof:

- *Each start of MirrorMaker 2's task begins at the offset above the committed one, and copies every record in order.*
  Commits only grow, so no start begins above the last commit. So the remote topic holds, for each of its records, every
  source record between the last commit and that record's original.
- *From one record of the remote topic to the next the original rises by one record, or goes back*: to an earlier commit
  after a restart, or because a batch was sent again. It leaps ahead only over records that compaction removed from the
  remote topic, and these leave gaps in its offsets.
- *The original of the last record is at or above the last commit.*

So the walk goes back from the end of the remote topic with a *floor*, the lowest possible original: at first the
committed offset, then one source record lower for each offset. A record of the remote topic proves at least the lowest
equal source record at or above its floor. That holds for equal records, for duplicates and for any number of restarts,
however far below the window the source has equal records. The highest proved source record is certainly copied.

A producer of MirrorMaker 2 that is neither idempotent nor limited to one request in flight may lose a batch between
others. So the walk also looks for each record up to the highest proved one; copying goes on at the first that is
missing.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ha_core.flows.errors import FlowError


class ContradictionError(FlowError):
    """The remote topic ends with a record that cannot be the last one that MirrorMaker 2 copied."""


class SourceRecord(NamedTuple):
    """
    :ivar content: timestamp, key, value and headers, or a digest of them; equal for equal records.
    :ivar key: the key, or a digest of it; None: the record has none, or neither topic is compacted.
    :ivar aborted: whether its transaction is known to be aborted. MirrorMaker 2 may have copied it, or not.
    """

    offset: int
    content: bytes
    key: bytes | None = None
    aborted: bool = False


class RemoteRecord(NamedTuple):
    """:ivar position: the offset, less the number of markers and aborted records below it in the window."""

    position: int
    content: bytes


class OffsetRange(NamedTuple):
    """Offsets `[start, end)`."""

    start: int
    end: int


@dataclass(frozen=True)
class SourceWindow:
    """Records of the source around the committed offset, in the order of their offsets.

    :ivar start: lowest offset that was read.
    :ivar end: highest offset that was read, plus one.
    :ivar removed: ranges inside the window with neither record nor marker: compaction or retention removed the records.
    :ivar ends_log: whether the log ended at `end`.
    """

    records: Sequence[SourceRecord]
    start: int
    end: int
    removed: Sequence[OffsetRange] = ()
    ends_log: bool = True


@dataclass(frozen=True)
class RemoteWindow:
    """The last records of the remote topic, in the order of their offsets.

    :ivar end: position above the last record; higher still if records above it were removed.
    :ivar begins_log: whether the log has nothing below the window.
    :ivar compacted: whether the topic is compacted.
    """

    records: Sequence[RemoteRecord]
    end: int
    begins_log: bool = True
    compacted: bool = False


class Alignment(NamedTuple):
    """
    :ivar source_start: source offset at which copying goes on. The remote topic has everything between the committed
        offset and this one.
    :ivar exact: whether the window shows that the remote topic has no record from `source_start` on.
    :ivar reason: why the place is not exact; "": it is.
    """

    source_start: int
    exact: bool
    reason: str = ""


def align(committed: int, source: SourceWindow, remote: RemoteWindow) -> Alignment:
    """
    :param committed: offset of the last record that MirrorMaker 2 has committed as copied.
    :param source: begins at or below `committed`, and ends as high as MirrorMaker 2 may have copied. The further below
        it begins, the more restarts it shows.
    :raises ContradictionError: no source record from `committed` on equals the last record of the remote topic.
    """
    kept = [record.offset for record in source.records if not record.aborted]
    if _nothing_above(committed, source):
        return Alignment(committed + 1, True)
    if not remote.records:
        return Alignment(committed + 1, False, "the remote topic has no record to compare")
    lookup = _Lookup(source, kept)
    _require_last(committed, source, remote, lookup)
    originals = list(_originals(committed, remote, lookup))
    proved = max([committed, *(one for one in originals if one is not None)])
    missing = _missing(max(committed, _lowest(originals, remote) - 1), proved, source, remote)
    if missing is not None:
        count = len(remote.records)
        return Alignment(
            missing, False, f"the source record at offset {missing} is not among the last {count} of the remote topic"
        )
    return Alignment(proved + 1, *_exactness(proved, source, remote, lookup, len(originals)))


def _nothing_above(offset: int, source: SourceWindow) -> bool:
    """Whether the source has no record above the offset that could be duplicated, not even an aborted one."""
    return source.ends_log and (not source.records or source.records[-1].offset <= offset)


class _Lookup:
    """Finds source records by content and by order.

    :ivar kept: offsets of records that are not aborted, ascending.
    """

    def __init__(self, source: SourceWindow, kept: Sequence[int]) -> None:
        self.kept = kept
        self._start = source.start
        self._removed = [*([OffsetRange(0, source.start)] if source.start else []), *source.removed]
        self._places: dict[bytes, list[int]] = {}
        for record in source.records:
            self._places.setdefault(record.content, []).append(record.offset)

    def places(self, content: bytes) -> Sequence[int]:
        """Offsets of the source records with this content, ascending."""
        return self._places.get(content, ())

    def lower(self, floor: int, records: int) -> int | None:
        """The floor lowered by a number of source records; None: it is below the window."""
        if not records:
            return floor
        at = bisect_left(self.kept, floor) - records
        if at >= 0:
            return self.kept[at]
        return None if self._start else 0

    def lowest_original(self, floor: int, content: bytes) -> int | None:
        """Offset of the lowest equal record from the floor on; None: there is none, or a removed record may have been
        equal."""
        places = self.places(content)
        at = bisect_left(places, floor)
        return None if at == len(places) or self.removed_between(floor, places[at]) else places[at]

    def removed_between(self, start: int, end: int | None = None) -> bool:
        """Whether records were removed in `[start, end)`; without an end, from `start` on."""
        first = bisect_right(self._removed, start, key=lambda one: one.end)
        return first < len(self._removed) and (end is None or self._removed[first].start < end)


def _require_last(committed: int, source: SourceWindow, remote: RemoteWindow, lookup: _Lookup) -> None:
    """:raises ContradictionError: no source record from `committed` on equals the last remote record."""
    last = remote.records[-1]
    if last.position + 1 < remote.end or not source.ends_log or lookup.removed_between(committed):
        return
    places = lookup.places(last.content)
    if not places or places[-1] < committed:
        raise ContradictionError(
            f"MirrorMaker 2 committed offset {committed} of the source, but no source record there or above equals the "
            "last record of the remote topic: another producer writes to the remote topic, its brokers have lost "
            "records, or the source topic was deleted and created again"
        )


def _originals(committed: int, remote: RemoteWindow, lookup: _Lookup) -> Iterator[int | None]:
    """Yields the lowest possible original of each remote record, from the last record back; None: the record proves
    nothing. Ends when the floor is below the window of the source."""
    floor: int | None = committed
    position = remote.end - 1
    for record in reversed(remote.records):
        if floor is None or (floor := lookup.lower(floor, position - record.position)) is None:
            return
        original = lookup.lowest_original(floor, record.content)
        yield original
        floor = lookup.lower(floor if original is None else original, 1)
        position = record.position - 1


def _lowest(originals: Sequence[int | None], remote: RemoteWindow) -> int:
    """The source offset from which on each record should be in the remote window; 0: the window has all of them.

    Only a batch among those last in flight can be missing, so a window that does not reach down to the committed offset
    is enough. Then the original of its first record is the lowest.
    """
    if remote.begins_log or len(originals) < len(remote.records) or originals[-1] is None:
        return 0
    return originals[-1] if all(one is None or one >= originals[-1] for one in originals) else 0


def _missing(above: int, proved: int, source: SourceWindow, remote: RemoteWindow) -> int | None:
    """Offset of the first source record that should be in the remote topic and is not; None: all are there, or
    compaction removed them because of a later record with their key."""
    there = Counter(record.content for record in remote.records)
    due = [one for one in source.records if above < one.offset <= proved and not one.aborted]
    later: dict[bytes, int] = {}
    """Key → offset of the last source record with this key that is in the remote topic."""
    if remote.compacted:
        later = {one.key: one.offset for one in due if one.key is not None and one.content in there}
    for record in due:
        if there[record.content] > 0:
            there[record.content] -= 1
        elif record.key is None or later.get(record.key, -1) <= record.offset:
            return record.offset
    return None


def _exactness(
    proved: int, source: SourceWindow, remote: RemoteWindow, lookup: _Lookup, judged: int
) -> tuple[bool, str]:
    """Whether the windows show that the remote topic has nothing above `proved`; if not, why.

    :param judged: number of last records whose originals must be in the window of the source, unless they are above it.
    """
    if _nothing_above(proved, source):
        return True, ""
    first = len(remote.records) - judged
    for index, record in enumerate(remote.records):
        places = lookup.places(record.content)
        if places and places[-1] > proved:
            return False, f"records from offset {proved + 1} on equal earlier ones, and may be in the remote topic"
        if places or index < first:
            continue
        if not source.ends_log:
            return False, f"the source was compared only up to offset {source.end}"
        if lookup.removed_between(proved + 1):
            return False, f"the source has removed records above offset {proved}"
    return True, ""
