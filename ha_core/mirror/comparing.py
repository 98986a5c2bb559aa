"""Whether a copy has what its source has: every record, with its key, value, headers and time. No I/O.

The runs of a copy say at which offset each record of the source has to lie there. Both logs are walked side by side.
A batch that was copied as it is has the same records, to the byte, behind a header of its own: it is compared without
being read. Whatever differs in bytes is read, record by record, before it is called different: a broker that packs
anew changes the bytes and not the records.

What only one of them has:

- A record that the source has and the copy has not is *missing*, and a difference; but not below the start of the
  copy's log, which is counted. Nor is one where the source was a copy before, and has of the time before that what
  nobody is led to, as the tail that it had when it failed (`Progress.source_base`).
- A record that the copy has and the source has no more (retention, compaction, deleted records) is counted, too. It is
  a difference where the source has an aborted or a control batch, or where no run says that anything was copied; but
  not where the copy was a source before: what it had then, and nobody copied, is its own (`Progress.base`).
- Where a topic is compacted, what only one of them has is counted, and the last state of its key has to be the same in
  both, see `key_states`: to whoever is led to them, so what is a log's own excuses nothing. A compacted copy may lack
  what its source has, another one may not. What only one of them has of a key is looked at again before it is called
  different: clusters compact when they like, while logs are read too.

Of a range the first difference is found, by its offset in the source, and nothing behind it is looked at.
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
from ha_core.mirror.recovery import DataEnd, behind, recover
from ha_core.model import Run
from ha_core.wire.records import Batch


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


SPREAD = 10
"""Parts of a partition's length: each has a range in a sample, however small the share."""
LEAST_RECORDS = 1_000
"""Source offsets in a range of a sample: less is no less work, for it is fetched with what lies behind it."""


class Cutting(NamedTuple):
    """A partition in ranges, and which of them are looked at.

    :ivar records: source offsets in each.
    :ivar of: so many ranges there are.
    :ivar chosen: their numbers, ascending.
    """

    records: int
    of: int
    chosen: Sequence[int]


def cutting(length: int, records: int, share: float = 1.0, seed: str = "", most: int = 1 << 62) -> Cutting:
    """How so many source offsets are cut. A sample has ranges all over the length, one in each part of it, where the
    seed says; what is small is looked at as a whole, whatever the share.

    :param records: in a range at most.
    :param most: ranges of a sample, where the share alone does not ask for more.
    """
    if share >= 1:
        of = -(-length // records)
        return Cutting(records, of, range(of))
    parts = min(SPREAD, most)
    records = min(max(math.ceil(share * length / parts), LEAST_RECORDS), records)
    of = -(-length // records)
    count = min(max(parts, round(share * of)), of)
    bounds = [number * of // count for number in range(count)] + [of] if count else []
    return Cutting(records, of, [low + _draw(seed, low, high - low) for low, high in pairwise(bounds)])


def _draw(seed: str, at: int, count: int) -> int:
    return int.from_bytes(blake2b(f"{seed}:{at}".encode(), digest_size=8).digest()) % count


def ranges(copied: CopyMap, start: int, end: int, records: int, only: Sequence[int] | None = None) -> Iterator[Range]:
    """The source offsets `[start, end)` in ranges of so many.

    :param end: not above what is copied.
    :param only: the numbers of those that are wanted, ascending; None: all.
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
    """Where in the copy the records below this offset of the source end."""
    at = bisect_right(runs, offset - 1, key=lambda run: run.source) - 1
    if at < 0:
        return 0
    run = runs[at]
    return run.target + min(offset - run.source, run.records)


def standing(
    progress: Progress, intents: Iterable[Intent], tail: Iterable[Batch], end: int
) -> tuple[Progress, RecordDifference | None]:
    """How far a copy is that somebody may be appending to, and what is wrong with it behind its newest progress.

    :param progress: the newest of the copy log; and all intents there, read after `end`.
    :param tail: the batches of the copy from `progress.target` on, up to `end`.
    :param end: of the copy, before the copy log was read.
    """
    try:
        there = behind(tail, progress)
        foreign = there.foreign
        found = recover(progress, intents, DataEnd(there.last, there.passed))
    except CopyDamagedError as error:
        return progress, RecordDifference(progress.source, progress.target, str(error))
    if foreign is None:
        return found, None
    what = f"producer {foreign.producer_id}, which is not the copier, has written to the copy"
    return found, RecordDifference(found.source, foreign.base_offset, what)


class ByNow(NamedTuple):
    """Both logs up to where they end by now: the source from the start of the range on, the copy from its own start."""

    source: LogPart
    copy: LogPart
    arrived: int = 0
    """So many offsets the copy has got behind the range, and so many records of the source at most."""


LOOKS = 2
"""At keys whose last state is not the same: compaction may have been at work between both readings of the first."""


class Comparison:
    """Compares a range. `source` and `copy` have all batches that reach into it, and may have more; they are read again
    where there are more keys to be followed than are at a time.
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
        :param by_now: asked for when the last state of keys has to be looked at; without it, both are as they were.
        :param over: asked all the while, whether the time is over. Of keys nothing is said then.
        :raises RemoteProtocolError: a batch cannot be read.
        """
        found: Compared | None = None
        firsts: list[RecordDifference] = []
        parts, short = [KeyShare()], False
        while parts and not short:
            keys = Unmatched(parts.pop(), self._followed)
            walked = Walk(self._span, self._source, self._copy, self._compacted, keys).run(over)
            found = found or walked
            firsts += [walked.first] if walked.first else []
            states = by_now or (lambda: ByNow(self._source, self._copy))
            of_keys = None if walked.cut_short else self._of_keys(keys.digests, states, over)
            short = of_keys is None
            firsts += of_keys or ()
            parts += keys.left
        assert found is not None
        return found._replace(first=min(firsts, default=None), cut_short=short)

    def _of_keys(
        self, digests: Collection[bytes], by_now: Callable[[], ByNow], over: Callable[[], bool]
    ) -> list[RecordDifference] | None:
        """The first difference in the last state of these keys; None: the time was over."""
        span, found = self._span, {}
        for _ in range(LOOKS):
            if not digests:
                return []
            states, logs = KeyStates(digests), by_now()
            behind_range = 0
            for record in visible(logs.source):
                if over():
                    return None
                if record.offset < span.start or span.own_in_source(record.offset):
                    continue
                later = record.offset >= span.end
                behind_range += later
                states.source(record.rest, record.offset, later, arrived=behind_range <= logs.arrived)
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
        """Whether one of the logs starts behind it, by retention or because somebody deleted records."""
        target = self._span.place(offset)
        return offset < logs.source.log_start or (target is not None and target < logs.copy.log_start)
