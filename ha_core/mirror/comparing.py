"""Compares a copy with its source: every record, with its key, value, headers and timestamp. No I/O.

The runs of a copy give the offset at which each record of the source must be. Both logs are read side by side. A batch
copied unchanged has the same records, to the byte, after its own header: it is compared without decoding it. Batches
that differ in bytes are decoded and compared record by record, because a broker that repacks a batch changes its bytes
and not its records.

Records that only one log has:

- A record that the source has and the copy lacks is *missing*, and a difference, except below the copy's log start,
  where it is counted. It is no difference either if the source was a copy before and the record dates from that time
  without being in any map, such as the tail at its failure (`Progress.source_base`).
- A record that the copy has and the source has lost (retention, compaction, deleted records) is counted, too. It is a
  difference if the source has an aborted or a control batch there, or if no run covers it; but not if the copy was a
  source before and the record is its own from that time (`Progress.base`).
- In a compacted topic, records that only one log has are counted, and the last state of their keys must be equal in
  both, see `key_states`: only as readers see it, so a log's own records excuse nothing. A compacted copy may lack
  records of its source, any other copy may not. Keys that differ are read again before they are reported: clusters
  compact at any time, even while logs are read.

The comparison of a range ends at its first difference, in order of source offsets.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import NamedTuple

from ha_core.mirror.key_states import MAX_FOLLOWED, NEITHER, Compacted, KeyRecord, KeyShare, KeyStates, Unmatched
from ha_core.mirror.partition_diff import Compared, LogPart, Range, RecordDifference, Walk, never, visible
from ha_core.mirror.progress import CopyDamagedError, Intent, Progress
from ha_core.mirror.recovery import DataEnd, above_progress, recover
from ha_core.model import Run
from ha_core.wire.records import Batch


class CopyMap(NamedTuple):
    """The map of a copy: the source up to `source` is in the copy up to `target`."""

    runs: tuple[Run, ...]
    source: int
    target: int
    base: int = 0
    """See `Progress.base`."""
    source_base: int = 0
    """See `Progress.source_base`."""

    @classmethod
    def of(cls, progress: Progress, older: Iterable[Run] = ()) -> CopyMap:
        """:param older: runs that the progress no longer holds."""
        return cls((*older, *progress.runs), progress.source, progress.target, progress.base, progress.source_base)


SPREAD = 10
"""Sections of a partition: a sample has a range in each of them, however small its share."""
LEAST_RECORDS = 1_000
"""Fewest source offsets per range of a sample: fewer save no work, because a fetch returns more anyway."""


class Cutting(NamedTuple):
    """A partition cut into ranges, and the chosen ones.

    :ivar records: source offsets per range.
    :ivar of: number of ranges.
    :ivar chosen: numbers of the chosen ranges, ascending.
    """

    records: int
    of: int
    chosen: Sequence[int]


def cutting(length: int, records: int, share: float = 1.0, seed: str = "", max_ranges: int = 1 << 62) -> Cutting:
    """Cuts `length` source offsets. A sample has ranges all over the length, one in each section of it, chosen by the
    seed; a short partition is compared as a whole, whatever the share.

    :param records: most source offsets per range.
    :param max_ranges: most ranges of a sample, unless the share alone requires more.
    """
    if share >= 1:
        of = -(-length // records)
        return Cutting(records, of, range(of))
    parts = min(SPREAD, max_ranges)
    records = min(max(math.ceil(share * length / parts), LEAST_RECORDS), records)
    of = -(-length // records)
    count = min(max(parts, round(share * of)), of)
    bounds = [number * of // count for number in range(count)] + [of] if count else []
    return Cutting(records, of, [low + _draw(seed, low, high - low) for low, high in pairwise(bounds)])


def _draw(seed: str, at: int, count: int) -> int:
    return int.from_bytes(blake2b(f"{seed}:{at}".encode(), digest_size=8).digest()) % count


def ranges(copied: CopyMap, start: int, end: int, records: int, only: Sequence[int] | None = None) -> Iterator[Range]:
    """The source offsets `[start, end)` in ranges of `records` offsets.

    :param end: at most the copied end.
    :param only: numbers of the wanted ranges, ascending; None: all.
    """
    runs, first = copied.runs, 0
    for number in range(-(-(end - start) // records)) if only is None else only:
        begin = start + number * records
        until = min(begin + records, end)
        while first < len(runs) and runs[first].after <= begin:
            first += 1
        last = first
        while last < len(runs) and runs[last].source < until:
            last += 1
        target_end = copied.target if until == copied.source else _reached(runs, until)
        yield Range(begin, until, _reached(runs, begin), target_end, runs[first:last], copied.base, copied.source_base)


def _reached(runs: Sequence[Run], offset: int) -> int:
    """Offset of the copy at which its records from below this source offset end."""
    at = bisect_right(runs, offset - 1, key=lambda run: run.source) - 1
    if at < 0:
        return 0
    run = runs[at]
    return run.target + min(offset - run.source, run.records)


def current_progress(
    progress: Progress, intents: Iterable[Intent], tail: Iterable[Batch], end: int
) -> tuple[Progress, RecordDifference | None]:
    """How far a copy with an active copier is, and any damage above its newest progress.

    :param progress: the newest in the copy log; likewise all its intents, read after `end`.
    :param tail: the batches of the copy from `progress.target` up to `end`.
    :param end: end of the copy, read before the copy log.
    """
    try:
        above = above_progress(tail, progress)
        foreign = above.foreign
        found = recover(progress, intents, DataEnd(above.last, above.passed))
    except CopyDamagedError as error:
        return progress, RecordDifference(progress.source, progress.target, str(error))
    if foreign is None:
        return found, None
    what = f"producer {foreign.producer_id}, which is not the copier, has written to the copy"
    return found, RecordDifference(found.source, foreign.base_offset, what)


class ByNow(NamedTuple):
    """Both logs up to their current ends: the source from the start of the range, the copy from its own start."""

    source: LogPart
    copy: LogPart
    arrived: int = 0
    """Offsets added to the copy since above the range, an upper bound for new source records in it."""


LOOKS = 2
"""Readings of keys whose last states differ: compaction may have run between the readings of the two logs."""


class Comparison:
    """Compares a range. `source` and `copy` have all batches that overlap it, and may have more; they are read again
    if there are more keys to follow than fit at a time.
    """

    def __init__(
        self,
        span: Range,
        source: LogPart,
        copy: LogPart,
        compacted: Compacted = NEITHER,
        followed: int = MAX_FOLLOWED,
    ) -> None:
        self._span, self._source, self._copy, self._compacted = span, source, copy, compacted
        self._followed = followed

    def run(self, by_now: Callable[[], ByNow] | None = None, over: Callable[[], bool] = never) -> Compared:
        """
        :param by_now: called when the last states of keys must be read; without it, both logs are taken as unchanged.
        :param over: called repeatedly; True when the time is over. Keys are then not judged.
        :raises RemoteProtocolError: a batch cannot be read.
        """
        comparison: Compared | None = None
        firsts: list[RecordDifference] = []
        parts, short = [KeyShare()], False
        while parts and not short:
            keys = Unmatched(parts.pop(), self._followed)
            walked = Walk(self._span, self._source, self._copy, self._compacted, keys).run(over)
            comparison = comparison or walked
            firsts += [walked.first] if walked.first else []
            states = by_now or (lambda: ByNow(self._source, self._copy))
            of_keys = None if walked.cut_short else self._of_keys(keys.digests, states, over)
            short = of_keys is None
            firsts += of_keys or ()
            parts += keys.left
        assert comparison is not None
        return comparison._replace(first=min(firsts, default=None), cut_short=short)

    def _of_keys(
        self, digests: Collection[bytes], by_now: Callable[[], ByNow], over: Callable[[], bool]
    ) -> list[RecordDifference] | None:
        """The first difference in the last state of these keys; None: the time was over."""
        span, found = self._span, {}
        for _ in range(LOOKS):
            if not digests:
                return []
            states, logs = KeyStates(digests), by_now()
            later_records = 0
            for record in visible(logs.source):
                if over():
                    return None
                if record.offset < span.start or span.own_in_source(record.offset):
                    continue
                later = record.offset >= span.end
                later_records += later
                states.source(record.rest, record.offset, later, arrived=later_records <= logs.arrived)
            for record in visible(logs.copy):
                if over():
                    return None
                if not span.own_in_copy(record.offset):
                    states.copy(record.rest, record.offset, *span.seen(record.offset))
            found = {
                digest: (seen, what)
                for digest, (seen, what) in states.differing().items()
                if not self._deleted_below(seen.offset, logs)
            }
            digests = found
        return [min(self._by(seen, what) for seen, what in found.values())] if found else []

    def _by(self, seen: KeyRecord, what: str) -> RecordDifference:
        target = self._span.place(seen.offset)
        return RecordDifference(seen.offset, -1 if target is None else target, what)

    def _deleted_below(self, offset: int, logs: ByNow) -> bool:
        """True if one of the logs now starts above it, by retention or because records were deleted."""
        target = self._span.place(offset)
        return offset < logs.source.log_start or (target is not None and target < logs.copy.log_start)
