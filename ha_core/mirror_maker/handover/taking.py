"""Continues copies of a real MirrorMaker 2 exactly where it stopped.

Two steps: `handed_copies` compares and changes nothing, `begin_copies` fences and writes notes. MirrorMaker 2 cannot be
fenced, so both require that it does not run: nothing may be appended to a remote topic from the comparison on.

Copies that ours have continued before, and MirrorMaker 2 after them, are handed over as if they were new.
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
"""Partitions that are compared together."""
_WINDOWS = (1_000, 8_000, 64_000)
"""Records on either side of the committed offset, tried in turn until the place is exact, before the bounds."""
_BY_HAND = "give the offset of the source by hand (`switchyard flows take … --at TOPIC-PARTITION=OFFSET --begin`)"
_WAYS_OUT = (
    "let it run for another offset.flush.interval.ms (60 s by default), so that it tells; or delete the remote topic, "
    f"so that it is copied from the source's start; or {_BY_HAND}"
)


class HandedCopy(NamedTuple):
    """A copy that MirrorMaker 2 began, and where a copier goes on.

    :ivar source_start: first source offset that is copied.
    :ivar target_end: end of the remote topic, when it was compared.
    :ivar exact: False: records from `source_start` on may be in the remote topic already, and are doubled then.
    :ivar reason: why it is not exact, or what the source has deleted.
    """

    copy: CopyPartition
    source_start: int
    target_end: int
    exact: bool
    reason: str = ""


class JudgedCopies(NamedTuple):
    """
    :ivar handed: copies that go on where MirrorMaker 2 stopped.
    :ivar refused: partition of a remote topic → why its copy cannot go on, and the way out.
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
    """As `judged_copies`.

    :raises HandoverError: copies are refused; all of them are named.
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
    """Where each copy goes on. Changes nothing.

    Copies that no MirrorMaker 2 began, with an empty remote topic, are left out: they begin at the source's start. So
    are copies that a copier of ours continued and MirrorMaker 2 did not touch since. Those are refused whose remote
    topic has records and no known offset, or an offset and no records; where both contradict each other; and where a
    transaction is open.

    :param copies: partitions of remote topics that exist.
    :param offsets: partition of the source → offset of the last record that MirrorMaker 2 knows as copied.
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
    """One copy, and both logs as they are."""

    source: Admin
    target: Admin
    copy: CopyPartition
    source_ends: LogEnds
    target_ends: LogEnds

    def place(
        self, notes: Notes | None, offset: int | None, told: int | None, bounds: ReadBounds, compacted: bool
    ) -> HandedCopy | None:
        """None: it is left out. :raises HandoverError: it is refused."""
        end = self.target_ends.high_watermark
        if _goes_on(self.target, self.copy, notes, end):
            if told is not None:
                raise HandoverError("a copier of ours has begun it, and knows its place: no offset is needed by hand")
            return None
        if self.target_ends.open_transaction:
            raise HandoverError(
                "a transaction is open in the remote topic, or its last records are not replicated yet. If an "
                "exactly-once MirrorMaker 2 was killed, its coordinator ends it after transaction.timeout.ms (60 s by "
                "default); run this again then"
            )
        if told is not None and told > self.source_ends.high_watermark:
            raise HandoverError(f"offset {told} was given by hand, and the source ends at {self.source_ends.log_end}")
        if told is not None:
            return HandedCopy(self.copy, told, end, False, "the offset was given by hand")
        written = self.target_ends.start > 0 or _written(self.target, self.copy, 0, end)
        if offset is None and not written:
            return None
        if offset is None:
            raise HandoverError(
                f"the remote topic holds records, and MirrorMaker 2 has not told how far it came: {_WAYS_OUT}"
            )
        if not written:
            raise HandoverError(
                f"MirrorMaker 2 has copied up to offset {offset} of the source, and the remote topic holds nothing: it "
                f"was deleted and created again. To copy it anew from offset 0, {_BY_HAND}"
            )
        if offset >= self.source_ends.high_watermark:
            raise HandoverError(
                f"MirrorMaker 2 has copied up to offset {offset} of the source, and that ends at "
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
            # The copy loop counts them, or stops there.
            lost = f"the source has deleted offsets {start} to {self.source_ends.start - 1}, and no copy has them"
            reason = f"{reason}; {lost}" if reason else lost
        return HandedCopy(self.copy, start, self.target_ends.high_watermark, found.exact, reason)


def begin_copies(source: Admin, target: Admin, state: ConnectState, handed: Iterable[HandedCopy]) -> list[CopyId]:
    """Fences these copies and writes their first notes, so that `Copying` goes on there. Safe to repeat.

    :return: copies that are begun now.
    :raises HandoverError: MirrorMaker 2 runs again, or has written to a remote topic since.
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
                f"{one.copy.id.topic}-{one.copy.id.partition}: another producer has written to it since it was "
                f"compared, from offset {one.target_end} on. Stop it, and compare again"
            )
        leader = sources.get(one.copy.source_key)
        yield Progress(
            fenced.writer,
            source=one.source_start,
            target=fenced.end,
            # Intents of an earlier copier of ours may still be in the copy log.
            number=numbers.get(one.copy.id, -1),
            topics=TopicIds("" if leader is None else leader.topic_id, fenced.topic_id),
            base=fenced.end,
            source_base=one.source_start,
        )

    seeded = target.seed([one.copy for one in by_id.values()], first, begun=begun)
    require_stopped(target, state)
    return seeded


def _goes_on(target: Admin, copy: CopyPartition, notes: Notes | None, end: int) -> bool:
    """Whether nothing but its own copiers has written to the copy since its last progress.

    :raises HandoverError: it lacks records that were acknowledged.
    """
    if notes is None or notes.progress is None:
        return False
    progress = notes.progress
    if end < progress.target:
        raise HandoverError(
            f"its copiers have written up to offset {progress.target} of the remote topic, which ends at {end}: its "
            "brokers have lost records, or it was deleted and created again"
        )
    tail = (piece.batch for piece in target.log(copy.key, progress.target, end))
    try:
        return above_progress(tail, progress).foreign is None
    except CopyDamagedError as error:
        raise HandoverError(str(error)) from error


def _written(target: Admin, copy: CopyPartition, start: int, end: int) -> bool:
    """Whether the remote topic has records there. Markers of our fences are none."""
    return any(not piece.batch.attributes & CONTROL for piece in target.log(copy.key, start, end))
