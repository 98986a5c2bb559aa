"""What of mirrored topics lies in their copies, and how it is read from there. Without I/O.

The job that copies tells runs: which offsets of the source lie where in the copy. With the topic's map they are extents
of the copy in client offsets (`ha_core/plan/mirror/standby`), so a reader of the copy has the offsets that it would
have at the source.

Invariants:

- A run never changes. What is told late makes readers wait, or read from the source, and nothing else.
- Records that the source has deleted are not read from its copy: fetches below the source's log start go to the source.
- Of a partition the newest runs are told, all from the first of them on. So between two of them is no record; what lies
  below the first is read from the source.
- Nothing is concluded from what a copy does not have: where it fails, or gives nothing, the source is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ha_core.model import CopiedPartition, Extent, Mirror, MirrorCopies, Topic
from ha_core.model.extent import Extents
from ha_core.plan.mirror.copies import client_offset
from ha_core.plan.mirror.standby import copied_extents

DOUBTED_S = 5.0
"""A copy that failed a reader is left alone for so long."""

Place = tuple[str, int]
"""Key of a mirror, and a partition."""


class ReportedCopy(NamedTuple):
    link: str
    known: CopiedPartition


class Here(NamedTuple):
    """What is asked for is in the copy, or nowhere before `physical`."""

    physical: int
    extents: Extents
    """Of the copy, from which may be read on."""


class Later(NamedTuple):
    """The copy is not there yet."""

    end: int
    """What the reader may take for the log's end; -1: that lies below its position."""


class KnownCopy(NamedTuple):
    """What is known of a partition's copy, in client offsets.

    :ivar mirror: its key.
    :ivar cluster: where it is.
    :ivar extents: in the copy, ascending, all of them closed. There is one at least.
    :ivar known: nothing but what they hold is committed in the source below it.
    :ivar level: who is ahead of it need not wait for long.
    :ivar start: the source has deleted all records below this client offset.
    """

    mirror: str
    cluster: str
    extents: Extents
    known: int
    level: bool
    start: int = 0

    @property
    def end(self) -> int:
        """Behind the last record."""
        return self.extents[-1].end or 0

    def find(self, within: Extent, offset: int) -> Here | Later | None:
        """None: it is not for the copy to say.

        :param within: the extent of the source from which client offset `offset` would be read.
        """
        # Between two extents of the source may be one of another cluster: nobody may be led past that.
        end = within.end
        there = tuple(one for one in self.extents if (one.end or 0) > within.start and (end is None or one.start < end))
        if not there or offset < max(there[0].start, self.start):
            return None
        left = tuple(one for one in there if (one.end or 0) > offset)
        if left:
            return Here(left[0].to_physical(max(offset, left[0].start)), left)
        return None if end is not None else Later(offset if offset <= self.known else -1)


class _Composed(NamedTuple):
    told: ReportedCopy
    extents: Extents
    copy: KnownCopy | None


class Copies:
    """Of all mirrors; used on the event loop only."""

    def __init__(self) -> None:
        self._told: Mapping[Place, ReportedCopy] = {}
        self._composed: dict[Place, _Composed] = {}
        self._doubted: dict[Place, float] = {}

    @property
    def told(self) -> Mapping[Place, ReportedCopy]:
        return self._told

    def learn(self, told: Mapping[Place, ReportedCopy]) -> None:
        """All that is told now; as of `told_of`."""
        self._told = told
        self._composed = {place: one for place, one in self._composed.items() if told.get(place) is one.told}

    def of(self, mirror: Mirror, topic: Topic, partition: int, now: float) -> KnownCopy | None:
        """What readers may have of a partition from the copy that `mirror` makes."""
        place = mirror.key, partition
        told = self._told.get(place)
        if told is None or told.link != mirror.link or topic.damaged(partition):
            return None
        if self._doubted and now < self._doubted.get(place, now):
            return None
        extents = topic.extents(partition)
        found = self._composed.get(place)
        if found is None or found.told is not told or found.extents != extents:
            found = self._composed[place] = _Composed(told, extents, _composed(mirror, extents, told.known))
        return found.copy

    def doubt(self, mirror: str, partition: int, now: float) -> None:
        """It has failed a reader."""
        if len(self._doubted) >= 10_000:
            self._doubted.clear()
        self._doubted[mirror, partition] = now + DOUBTED_S


def told_of(documents: Iterable[MirrorCopies], before: Mapping[Place, ReportedCopy]) -> dict[Place, ReportedCopy]:
    """What the tasks tell, together; what is as it was `before` is the same object.

    Two tell of a partition while it goes over from one to the other: then the one counts that is further.
    """
    found: dict[Place, ReportedCopy] = {}
    for document in documents:
        for one in document.mirrors:
            for partition, known in one.partitions.items():
                place, other = (one.mirror, partition), found.get((one.mirror, partition))
                if other is None or other.link != one.link or other.known.end < known.end:
                    found[place] = ReportedCopy(one.link, known)
    return {place: was if (was := before.get(place)) == told else told for place, told in found.items()}


def _composed(mirror: Mirror, extents: Extents, known: CopiedPartition) -> KnownCopy | None:
    current = extents[-1] if extents else None
    if current is None or current.end is not None or current.cluster != mirror.source:
        return None
    try:
        copied = copied_extents(extents, mirror.source, mirror.target, known.runs)
    except ValueError:
        return None  # told by nobody who copies
    if not copied:
        return None
    end, start = current.extrapolate(known.end), client_offset(extents, mirror.source, known.start or 0)
    return KnownCopy(mirror.key, mirror.target, copied, end, known.level, start)
