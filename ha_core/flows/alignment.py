"""Finds where a real MirrorMaker 2 stopped copying a partition, from the end of the remote topic. No I/O.

MirrorMaker 2 commits the offset of its last copied record each minute, so after a kill the remote topic holds records
above it. Going on at the committed offset doubles them; guessing a higher one may skip records. These facts are proved:

- *Each start of its task begins at the offset after the committed one, and copies every record in order.* Commits only
  grow, so no start begins above the last commit. A record of the remote topic therefore has everything of the source
  between the last commit and its own origin there, too.
- *From one record of the remote topic to the next the origin rises by one record, or goes back*: to an earlier commit
  after a restart, or by a batch that was sent again. It never leaps ahead, but over records that compaction removed
  from the remote topic, and these leave gaps in its offsets.
- *The last record's origin is at or above the last commit.*

So the walk goes back from the end of the remote topic with a *floor*, the lowest possible origin: first the committed
offset, then one record of the source lower for each offset. The lowest equal record of the source at or above the
floor is the least that this record of the remote topic proves. That holds for equal records, doubled ones and any
number of restarts, however far below the window the source has equal ones. The highest of these is the last one that
was copied for sure.

A producer of MirrorMaker 2 that is neither idempotent nor limited to one request in flight may lose a batch between
others. So each record up to there is looked for, too; the first that is missing is where copying goes on.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ha_core.flows.errors import FlowError


class ContradictionError(FlowError):
    """The remote topic ends with a record that MirrorMaker 2 cannot have copied last."""


class SourceRecord(NamedTuple):
    """
    :ivar content: equal for equal records: timestamp, key, value and headers, or a digest of them.
    :ivar key: equal for equal keys; None: it has none, or neither topic is compacted.
    :ivar aborted: True: of a transaction that is known as aborted. MirrorMaker 2 may have copied it, or not.
    """

    offset: int
    content: bytes
    key: bytes | None = None
    aborted: bool = False


class RemoteRecord(NamedTuple):
    """:ivar position: its offset less the number of markers and aborted records below it in the window."""

    position: int
    content: bytes


class OffsetRange(NamedTuple):
    """Offsets `[start, end)`."""

    start: int
    end: int


@dataclass(frozen=True)
class SourceWindow:
    """Records of the source around the committed offset, in the order of their offsets.

    :ivar start: first offset that was read.
    :ivar end: offset after the last one that was read.
    :ivar removed: offsets inside with neither a record nor a marker: compaction or retention removed them.
    :ivar ends_log: True if nothing was above `end`.
    """

    records: Sequence[SourceRecord]
    start: int
    end: int
    removed: Sequence[OffsetRange] = ()
    ends_log: bool = True


@dataclass(frozen=True)
class RemoteWindow:
    """The last records of the remote topic, in the order of their offsets.

    :ivar end: position after the last one; higher than that if records above it were removed.
    :ivar begins_log: True if nothing is below.
    :ivar compacted: True if the topic is compacted.
    """

    records: Sequence[RemoteRecord]
    end: int
    begins_log: bool = True
    compacted: bool = False


class Alignment(NamedTuple):
    """
    :ivar source_start: source offset at which copying goes on. Everything between the committed offset and it is in
        the remote topic.
    :ivar exact: True if the window shows no record from there on in the remote topic.
    :ivar reason: why it is not exact.
    """

    source_start: int
    exact: bool
    reason: str = ""


def align(committed: int, source: SourceWindow, remote: RemoteWindow) -> Alignment:
    """
    :param committed: offset of the last record that MirrorMaker 2 knows as copied.
    :param source: reaches from `committed` or below as far up as the remote topic may have been copied. The more below,
        the more restarts are seen.
    :raises ContradictionError: the last record of the remote topic is not in the source from `committed` on.
    """
    kept = [record.offset for record in source.records if not record.aborted]
    if _nothing_above(committed, source):
        return Alignment(committed + 1, True)
    if not remote.records:
        return Alignment(committed + 1, False, "the remote topic holds no record that could be compared")
    lookup = _Lookup(source, kept)
    _require_last(committed, source, remote, lookup)
    origins = list(_origins(committed, remote, lookup))
    proved = max([committed, *(one for one in origins if one is not None)])
    missing = _missing(max(committed, _lowest(origins, remote) - 1), proved, source, remote)
    if missing is not None:
        count = len(remote.records)
        return Alignment(missing, False, f"the record at offset {missing} is not among the last {count} of the copy")
    return Alignment(proved + 1, *_exactness(proved, source, remote, lookup, len(origins)))


def _nothing_above(offset: int, source: SourceWindow) -> bool:
    """Whether the source has no record above it that could be doubled, not even an aborted one."""
    return source.ends_log and (not source.records or source.records[-1].offset <= offset)


class _Lookup:
    """Records of the source by their content and order.

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
        """Offsets of equal records, ascending."""
        return self._places.get(content, ())

    def lower(self, floor: int, records: int) -> int | None:
        """The floor that is some records of the source lower; None: it is below the window."""
        if not records:
            return floor
        at = bisect_left(self.kept, floor) - records
        if at >= 0:
            return self.kept[at]
        return None if self._start else 0

    def lowest_origin(self, floor: int, content: bytes) -> int | None:
        """The lowest equal record from the floor on; None: there is none, or a removed record may have been it."""
        places = self.places(content)
        at = bisect_left(places, floor)
        return None if at == len(places) or self.removed_between(floor, places[at]) else places[at]

    def removed_between(self, start: int, end: int | None = None) -> bool:
        """Whether offsets in `[start, end)`, or from `start` on, are of removed records."""
        first = bisect_right(self._removed, start, key=lambda one: one.end)
        return first < len(self._removed) and (end is None or self._removed[first].start < end)


def _require_last(committed: int, source: SourceWindow, remote: RemoteWindow, lookup: _Lookup) -> None:
    """:raises ContradictionError: no record from `committed` on can be the origin of the last one."""
    last = remote.records[-1]
    if last.position + 1 < remote.end or not source.ends_log or lookup.removed_between(committed):
        return
    places = lookup.places(last.content)
    if not places or places[-1] < committed:
        raise ContradictionError(
            f"MirrorMaker 2 committed offset {committed} of the source, and no record there or above equals the last "
            "one of the remote topic: another producer writes to it, its brokers have lost records, or the source "
            "was deleted and created again"
        )


def _origins(committed: int, remote: RemoteWindow, lookup: _Lookup) -> Iterator[int | None]:
    """For each record of the remote topic, from the last one on, the lowest offset that it can be a copy of; None: it
    proves nothing. Ends where the window of the source does."""
    floor: int | None = committed
    position = remote.end - 1
    for record in reversed(remote.records):
        if floor is None or (floor := lookup.lower(floor, position - record.position)) is None:
            return
        origin = lookup.lowest_origin(floor, record.content)
        yield origin
        floor = lookup.lower(floor if origin is None else origin, 1)
        position = record.position - 1


def _lowest(origins: Sequence[int | None], remote: RemoteWindow) -> int:
    """The source offset from which on each record should be in the window; 0: the window reaches far enough.

    A batch can only be missing among those that were last in flight, so a window that does not reach down to the
    committed offset is enough. Then its first record is the lowest.
    """
    if remote.begins_log or len(origins) < len(remote.records) or origins[-1] is None:
        return 0
    return origins[-1] if all(one is None or one >= origins[-1] for one in origins) else 0


def _missing(above: int, proved: int, source: SourceWindow, remote: RemoteWindow) -> int | None:
    """The first record that should be in the remote topic and is not; None: all are there, or were removed because of a
    later one with their key."""
    there = Counter(record.content for record in remote.records)
    due = [one for one in source.records if above < one.offset <= proved and not one.aborted]
    later: dict[bytes, int] = {}
    """Key → offset of the last record with it that is in the remote topic."""
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
    """Whether nothing above `proved` is in the remote topic, as far as the windows show; and why not.

    :param judged: number of the last records whose origins lie in the window of the source, if nowhere above it.
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
            return False, f"the source was compared up to offset {source.end} only"
        if lookup.removed_between(proved + 1):
            return False, f"the source has removed records above offset {proved}"
    return True, ""
