"""Continues copies of a real MirrorMaker 2 exactly where MirrorMaker 2 stopped.

There are two steps: `handed_copies` compares and changes nothing; `begin_copies` fences and writes notes. MirrorMaker 2
cannot be fenced, so both require that it does not run: from the comparison on, nothing may be appended to a remote
topic.

A copy that our copiers once continued, and MirrorMaker 2 after them, is handed over as if it were new.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

from ha_core.flows.alignment import Alignment, ContradictionError, align
from ha_core.flows.connect_state import ConnectState
from ha_core.kafka.admin import Admin
from ha_core.kafka.facts import LogEnds
from ha_core.kafka.takeover import CopyPartition, Fenced
from ha_core.mirror.notes import CopyId, Note, Notes
from ha_core.mirror.progress import CopyDamagedError, Progress, TopicIds
from ha_core.mirror.recovery import above_progress
from ha_core.mirror_maker.handover.errors import HandoverError, refused
from ha_core.mirror_maker.handover.offsets_topic import policy_of
from ha_core.mirror_maker.handover.windows import BOUNDS, ReadBounds, windows
from ha_core.mirror_maker.handover.workers import require_stopped
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.copied_batch import CONTROL

_AT_ONCE = 8
"""Number of partitions that are compared at the same time."""
_WINDOWS = (1_000, 8_000, 64_000)
"""Numbers of records on either side of the committed offset: tried in this order, and then the bounds, until the place
is exact."""
_BY_HAND = "give the offset of the source by hand (`switchyard flows take … --at TOPIC-PARTITION=OFFSET --begin`)"
_WAYS_OUT = (
    "let MirrorMaker 2 run for another offset.flush.interval.ms (60 s by default), so that it commits an offset; or "
    f"delete the remote topic, so that it is copied from the source's start; or {_BY_HAND}"
)


class HandedCopy(NamedTuple):
    """A copy that MirrorMaker 2 began, and the offset at which our copier goes on.

    :ivar source_start: first source offset that our copier copies.
    :ivar target_end: end of the remote topic at the time of the comparison.
    :ivar exact: False: records from `source_start` on may already be in the remote topic, and are then duplicated.
    :ivar reason: why the place is not exact, or which offsets the source has deleted.
    """

    copy: CopyPartition
    source_start: int
    target_end: int
    exact: bool
    reason: str = ""


class JudgedCopies(NamedTuple):
    """
    :ivar handed: copies that our copier can continue.
    :ivar refused: partition of the remote topic → why its copy cannot be continued, and the way out.
    """

    handed: tuple[HandedCopy, ...]
    refused: Mapping[Partition, str]


def handed_copies(
    source: Admin,
    target: Admin,
    copies: Collection[CopyPartition],
    offsets: Mapping[Partition, int],
    by_hand: Mapping[Partition, int] = MappingProxyType({}),
    bounds: ReadBounds = BOUNDS,
) -> list[HandedCopy]:
    """Like `judged_copies`, but raises an error if any copy is refused.

    :raises HandoverError: copies are refused; the text names them.
    """
    judged = judged_copies(source, target, copies, offsets, by_hand, bounds)
    if judged.refused:
        raise refused(judged.refused)
    return list(judged.handed)


def judged_copies(
    source: Admin,
    target: Admin,
    copies: Collection[CopyPartition],
    offsets: Mapping[Partition, int],
    by_hand: Mapping[Partition, int] = MappingProxyType({}),
    bounds: ReadBounds = BOUNDS,
) -> JudgedCopies:
    """Find the offset at which each copy goes on. Changes nothing.

    Two kinds of copy are left out: those that MirrorMaker 2 never began and whose remote topic is empty, which begin at
    the source's start; and those that our copier continued and MirrorMaker 2 has not touched since. A copy is refused
    if its remote topic has records but no committed offset, or a committed offset but no records; if records and offset
    contradict each other; or if a transaction is open in the remote topic.

    :param copies: partitions of existing remote topics.
    :param offsets: partition of the source → offset of the last record that MirrorMaker 2 has committed as copied.
    :param by_hand: partition of the source → offset at which an operator makes the copy go on, without a comparison.
    :raises TopicMissingError: a topic does not exist.
    """
    source_ends = source.ends([copy.source_key for copy in copies])
    target_ends = target.ends([copy.key for copy in copies])
    notes = target.notes_of(copies)
    topics = target.topics({copy.id.topic for copy in copies}, offsets=False)
    compacted = {name for name, topic in topics.items() if "compact" in policy_of(topic)}

    def judged(copy: CopyPartition) -> HandedCopy | HandoverError | None:
        one = _Judged(source, target, copy, source_ends[copy.source_key], target_ends[copy.key])
        offset, told = offsets.get(copy.source_key), by_hand.get(copy.source_key)
        try:
            return one.place(notes.get(copy.id), offset, told, bounds, copy.id.topic in compacted)
        except HandoverError as error:
            return error

    with ThreadPoolExecutor(_AT_ONCE, "handover") as pool:
        found = list(zip(copies, pool.map(judged, copies), strict=True))
    return JudgedCopies(
        tuple(one for _, one in found if isinstance(one, HandedCopy)),
        {copy.key: str(one) for copy, one in found if isinstance(one, HandoverError)},
    )


@dataclass(frozen=True)
class _Judged:
    """One copy, with the current ends of both logs."""

    source: Admin
    target: Admin
    copy: CopyPartition
    source_ends: LogEnds
    target_ends: LogEnds

    def place(
        self, notes: Notes | None, offset: int | None, told: int | None, bounds: ReadBounds, compacted: bool
    ) -> HandedCopy | None:
        """Where the copy goes on; None: the copy is left out.

        :raises HandoverError: the copy is refused.
        """
        end = self.target_ends.high_watermark
        if _goes_on(self.target, self.copy, notes, end):
            if told is not None:
                raise HandoverError(
                    "one of Switchyard's copiers has begun this copy and knows its offset: remove it from --at"
                )
            return None
        if self.target_ends.open_transaction:
            raise HandoverError(
                "a transaction is open in the remote topic, or its last records are not replicated yet. If an "
                "exactly-once MirrorMaker 2 was killed, its coordinator ends it after transaction.timeout.ms (60 s by "
                "default); run this again then"
            )
        if told is not None and told > self.source_ends.high_watermark:
            raise HandoverError(
                f"offset {told} was given by hand, but the source ends at {self.source_ends.log_end}: give an offset "
                "up to that end"
            )
        if told is not None:
            return HandedCopy(self.copy, told, end, False, "the offset was given by hand")
        written = self.target_ends.start > 0 or _written(self.target, self.copy, 0, end)
        if offset is None and not written:
            return None
        if offset is None:
            raise HandoverError(
                f"the remote topic holds records, but MirrorMaker 2 has committed no offset of it: {_WAYS_OUT}"
            )
        if not written:
            raise HandoverError(
                f"MirrorMaker 2 has copied up to offset {offset} of the source, but the remote topic is empty: it was "
                f"deleted and created again. To copy it anew from offset 0, {_BY_HAND}"
            )
        if offset >= self.source_ends.high_watermark:
            raise HandoverError(
                f"MirrorMaker 2 has copied up to offset {offset} of the source, but the source ends at "
                f"{self.source_ends.high_watermark}: it was deleted and created again, or has lost records. Delete the "
                f"remote topic, or {_BY_HAND}"
            )
        try:
            return self._handed(self._aligned(offset, bounds, compacted))
        except ContradictionError as error:
            raise HandoverError(f"{error}. Delete the remote topic, or {_BY_HAND}") from None

    def _aligned(self, offset: int, bounds: ReadBounds, compacted: bool) -> Alignment:
        here = self.source, self.copy.source_key, self.source_ends
        there = self.target, self.copy.key, self.target_ends
        for records in (*(one for one in _WINDOWS if one < bounds.records), bounds.records):
            around, last = windows(here, there, offset, records, bounds, compacted)
            found = align(offset, around, last)
            whole = last.begins_log and around.ends_log and around.start == self.source_ends.start
            if found.exact or whole:
                break
        return found

    def _handed(self, found: Alignment) -> HandedCopy:
        start, reason = found.source_start, found.reason
        if start < self.source_ends.start:
            # The copy loop counts these offsets, or stops there.
            lost = f"the source has deleted offsets {start} to {self.source_ends.start - 1}, which no copy has"
            reason = f"{reason}; {lost}" if reason else lost
        return HandedCopy(self.copy, start, self.target_ends.high_watermark, found.exact, reason)


def begin_copies(source: Admin, target: Admin, state: ConnectState, handed: Iterable[HandedCopy]) -> list[CopyId]:
    """Fence these copies and write their first notes, so that `Copying` goes on there. Safe to repeat.

    :return: copies that this call has begun.
    :raises HandoverError: MirrorMaker 2 runs again, or has written to a remote topic since the comparison.
    :raises TakenOverError: another process copies one of them.
    """
    by_id = {one.copy.id: one for one in handed}
    if not by_id:
        return []
    require_stopped(target, state)
    sources = source.leaderships([one.copy.source_key for one in by_id.values()])
    numbers: dict[CopyId, int] = {}

    def begun(fenced: Fenced, notes: Notes) -> bool:
        if notes.progress is not None:
            numbers[fenced.copy.id] = max([notes.progress.number, *(one.number for one in notes.intents.values())])
        return _goes_on(target, fenced.copy, notes, fenced.end)

    def first(fenced: Fenced) -> Iterator[Note]:
        one = by_id[fenced.copy.id]
        if _written(target, one.copy, one.target_end, fenced.end):
            raise HandoverError(
                f"{one.copy.id.topic}-{one.copy.id.partition}: another producer has written to it since the "
                f"comparison, from offset {one.target_end} on. Stop that producer, and compare again"
            )
        leader = sources.get(one.copy.source_key)
        yield Progress(
            fenced.writer,
            source=one.source_start,
            target=fenced.end,
            # The copy log may still have intents of one of our earlier copiers.
            number=numbers.get(one.copy.id, -1),
            topics=TopicIds("" if leader is None else leader.topic_id, fenced.topic_id),
            base=fenced.end,
            source_base=one.source_start,
        )

    seeded = target.seed([one.copy for one in by_id.values()], first, begun=begun)
    require_stopped(target, state)
    return seeded


def _goes_on(target: Admin, copy: CopyPartition, notes: Notes | None, end: int) -> bool:
    """Whether only our own copiers have written to the copy since its last progress.

    :raises HandoverError: the remote topic lacks acknowledged records.
    """
    if notes is None or notes.progress is None:
        return False
    progress = notes.progress
    if end < progress.target:
        raise HandoverError(
            f"Switchyard's copiers have written up to offset {progress.target} of the remote topic, which now ends at "
            f"{end}: its brokers have lost records, or it was deleted and created again. Delete the remote topic to "
            "copy it anew"
        )
    tail = (piece.batch for piece in target.log(copy.key, progress.target, end))
    try:
        return above_progress(tail, progress).foreign is None
    except CopyDamagedError as error:
        raise HandoverError(str(error)) from error


def _written(target: Admin, copy: CopyPartition, start: int, end: int) -> bool:
    """Whether the remote topic has records in `[start, end)`. Markers of our fences do not count."""
    return any(not piece.batch.attributes & CONTROL for piece in target.log(copy.key, start, end))
