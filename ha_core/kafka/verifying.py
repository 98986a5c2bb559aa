"""Verifies that copies have the records of their sources: cuts partitions into ranges and compares each range.

`plan` and `plan_all` ask both clusters how far each partition is copied, `plan_ended` how far it was when the copy
became the writer; `compare` reads both logs. None changes anything, and copiers may be at work meanwhile: records
appended after the plan are not compared.

A sample has ranges all over every partition, and reads a bounded number of bytes of each. In a compacted topic the
current record of a key may be anywhere, so its partitions are compared as a whole; a sample of a long one compares the
records that both logs have, and ignores keys.
"""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from ha_core.kafka.admin import Admin
from ha_core.kafka.copies import ReadCopy
from ha_core.kafka.errors import TopicMissingError
from ha_core.kafka.facts import LogEnds, TopicSpec
from ha_core.kafka.offsets import Offsets
from ha_core.kafka.takeover import CopyPartition
from ha_core.mirror.comparing import ByNow, Comparison, CopyMap, Cutting, cutting, ranges
from ha_core.mirror.key_states import NEITHER, Compacted, KeyShare, Unmatched
from ha_core.mirror.notes import CopyId, Notes, log_partition
from ha_core.mirror.partition_diff import Compared, LogPart, Piece, Range, RecordDifference, Walk, never
from ha_core.mirror.reversing import copied_below
from ha_core.model import LostTail, Mirror, MirrorShare
from ha_core.model.mirror import begins_at, copied_between
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.errors import RemoteProtocolError

RECORDS_PER_RANGE = 200_000
MAX_RANGES = 5_000
"""Per topic, at least one per partition; beyond that, ranges are longer."""
WHOLE = 1 << 62
SAMPLE_BYTES, SAMPLE_RANGE_BYTES = 160 << 20, 16 << 20
"""Per partition and per range of a sample, read from both logs together; a range may use bytes that others leave."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """The part of the sources that is compared."""

    share: float = 1.0
    """Share of each partition, at least one range in each section of it, see `mirror.comparing.cutting`."""
    seed: int = 0
    records: int = RECORDS_PER_RANGE
    """Most source offsets per range, except in very long topics."""

    @property
    def sampled(self) -> bool:
        return self.share < 1


@dataclass(frozen=True, slots=True)
class PartitionRanges:
    """A partition, and the ranges of it to compare."""

    topic: str
    partition: int
    ranges: Sequence[Range] = ()
    """The chosen ranges."""
    of: int = 0
    """Number of all ranges."""
    compacted: Compacted = NEITHER
    not_copied: int = 0
    """Source offsets that are not copied yet."""
    gone_in_source: int = 0
    """Records below the log start of the source that the copy still has."""
    deleted: int = 0
    """Copied records below the copy's log start, and not below the source's; an upper bound if the source is
    compacted."""
    outlived: bool = False
    """True if the source may delete these at any moment, too."""
    damage: RecordDifference | None = None
    """A difference found without reading records."""
    begun: bool = True
    """False: nothing of it is copied yet, and there is no other fault."""
    apart: bool = False
    """True if last states of keys are not compared: each log has its own writes since, or it is a sample."""
    most_bytes: int | None = None
    """Most bytes read for a range, of both logs together; None: no limit."""

    @property
    def before_reading(self) -> Compared:
        """The result before any record is read. For compacted topics, records that the copy has deleted are counted
        later, while ranges are compared."""
        gone = 0 if any(self.compacted) else self.deleted
        lacking = 0 if self.outlived else gone
        return Compared(gone_in_source=self.gone_in_source, gone_in_copy=gone, lacking=lacking, first=self.damage)


class MirrorEnd(NamedTuple):
    """Where the mirror of a partition ended."""

    source: int
    """First source offset that was not copied."""
    base: int
    """First offset of the copy as the writer."""


def copies_of(mirror: Mirror | MirrorShare | LostTail, partitions: int | Iterable[int]) -> list[CopyPartition]:
    """The copies of a mirrored topic's partitions.

    :param partitions: their number, or those that are meant.
    """
    numbers = range(partitions) if isinstance(partitions, int) else partitions
    ids = (CopyId(mirror.link, mirror.topic, number) for number in numbers)
    return [CopyPartition(id_, (mirror.log, log_partition(id_, mirror.log_partitions))) for id_ in ids]


def plan(source: Admin, target: Admin, mirror: Mirror, extent: Coverage) -> list[PartitionRanges]:
    """`plan_all` for one mirror."""
    return plan_all(source, target, [mirror], extent)[mirror.topic]


def plan_all(
    source: Admin, target: Admin, mirrors: Collection[Mirror], extent: Coverage
) -> dict[str, list[PartitionRanges]]:
    """Plans the comparison of each partition of mirrors from one cluster to another, by topic.

    :raises TopicMissingError: a source or a copy does not exist.
    :raises CopyDamagedError: a note of a copier cannot be read.
    """
    shapes = _shapes(source, target, [mirror.topic for mirror in mirrors])
    copies = {mirror.topic: copies_of(mirror, shapes[mirror.topic].partitions) for mirror in mirrors}
    every = [copy for some in copies.values() for copy in some]
    copied = target.read_copies([copy for copy in every if copy.id.partition < shapes[copy.id.topic].copied_partitions])
    ends = source.ends([copy.key for copy in every])

    def planned(mirror: Mirror) -> list[PartitionRanges]:
        some, compacted = copies[mirror.topic], shapes[mirror.topic].compacted
        records = _records(extent, (ends[copy.key].log_end for copy in some))
        cut = partial(_cut, extent, f"{extent.seed}:{mirror.key}", records, len(some))
        return [_plan(copy.key, ends[copy.key], copied.get(copy.id), compacted, cut) for copy in some]

    plans = {mirror.topic: planned(mirror) for mirror in mirrors}
    deleted = {
        (partition_ranges.topic, partition_ranges.partition)
        for some in plans.values()
        for partition_ranges in some
        if partition_ranges.deleted
    }
    if not deleted:
        return plans
    both = {copy.key: (ends[copy.key], copied[copy.id].ends) for copy in every if copy.key in deleted}
    old = outlived(
        source, target, both, {name: shape.kept_ms for name, shape in shapes.items()}, int(time.time() * 1000)
    )
    return {
        name: [
            replace(partition_ranges, outlived=(partition_ranges.topic, partition_ranges.partition) in old)
            for partition_ranges in some
        ]
        for name, some in plans.items()
    }


def plan_ended(
    source: Admin, target: Admin, mirror: Mirror, ended: Mapping[int, MirrorEnd], extent: Coverage
) -> list[PartitionRanges]:
    """Plans the comparison of the copied part with its source, after the copy became the writer.

    :param ended: partitions to compare.
    :raises TopicMissingError: the source or the copy does not exist.
    :raises CopyDamagedError: the notes of the mirror do not say what was copied.
    """
    compacted = _shapes(source, target, [mirror.topic])[mirror.topic].compacted
    copies = copies_of(mirror, sorted(ended))
    theirs, ours = (admin.ends([copy.key for copy in copies]) for admin in (source, target))
    notes = target.notes_of(copies)
    records = _records(extent, (mirror_end.source for mirror_end in ended.values()))
    cut = partial(_cut, extent, f"{extent.seed}:{mirror.key}", records, len(copies))
    plans = []
    for copy in copies:
        known, until = notes.get(copy.id, Notes(copy.id)), ended[copy.id.partition]
        start = until.base if known.progress is None else known.progress.target
        tail = (piece.batch for piece in target.log(copy.key, start, until.base))
        progress, runs = copied_below(known, tail, until.base)
        copied = CopyMap.of(progress, runs[: len(runs) - len(progress.runs)])
        there = theirs[copy.key]
        end = min(copied.source, until.source, there.last_stable)  # nothing of an open transaction was copied
        partition_ranges = _ranges(copy.key, copied, there, end, ours[copy.key], NEITHER, cut)
        plans.append(replace(partition_ranges, compacted=compacted, apart=True))
    return plans


class _Shape(NamedTuple):
    """A mirrored topic in both clusters."""

    partitions: int
    copied_partitions: int
    compacted: Compacted
    kept_ms: int | None
    """Retention time of the source."""


def _shapes(source: Admin, target: Admin, topics: Collection[str]) -> dict[str, _Shape]:
    there = {admin: admin.topics(topics, offsets=False) for admin in (source, target)}
    shapes = {}
    for topic in topics:
        for admin, descriptions in there.items():
            if topic not in descriptions:
                name = admin.cluster.name
                text = f"topic {topic} does not exist, and it is mirrored: `switchyard mirrors`."
                raise TopicMissingError(name, text)
        both = [topic_descriptions[topic] for topic_descriptions in there.values()]
        compacted = Compacted(*("compact" in description.config.get("cleanup.policy", "") for description in both))
        shapes[topic] = _Shape(both[0].partitions, both[1].partitions, compacted, kept_ms(both[0]))
    return shapes


def _records(extent: Coverage, ends: Iterable[int]) -> int:
    """Source offsets per range, for a topic with these log ends."""
    return max(extent.records, sum(ends) // MAX_RANGES)


class _Cut(NamedTuple):
    """How a partition is cut, whether its ranges compare keys, and whether they are a sample."""

    its: Cutting
    of_keys: bool
    sampled: bool


Cut = Callable[[Partition, int, Compacted], _Cut]
"""Cuts a partition with this number of source offsets."""


def _cut(
    extent: Coverage, seed: str, records: int, partitions: int, key: Partition, length: int, compacted: Compacted
) -> _Cut:
    """
    :param records: most records per range.
    :param partitions: number of partitions of the topic.
    """
    if any(compacted) and (not extent.sampled or length <= records):
        return _Cut(cutting(length, WHOLE), True, extent.sampled)
    max_ranges = max(MAX_RANGES // partitions, 1)
    its = cutting(length, records, extent.share, f"{seed}:{key[1]}", max_ranges)
    return _Cut(its, not any(compacted), extent.sampled)


def _plan(key: Partition, source: LogEnds, copy: ReadCopy | None, compacted: Compacted, cut: Cut) -> PartitionRanges:
    """:param copy: None: the copy lacks the partition."""
    if copy is None or copy.copied is None:
        left, damage = source.last_stable - source.start, copy.damage if copy else None
        begun = damage is not None
        if left and damage is None:
            what = "nothing of it is copied yet" if copy else "the copy does not have the partition yet"
            damage = RecordDifference(source.start, -1, what)
        return PartitionRanges(*key, not_copied=left, compacted=compacted, damage=damage, begun=begun)
    copied, damage = copy.copied, copy.damage
    end = min(copied.source, source.log_end)
    if end < copied.source and damage is None:
        damage = RecordDifference(end, -1, f"the source ends at {end}, and it was copied up to {copied.source}")
    not_copied = max(source.last_stable - copied.source, 0)
    partition_ranges = _ranges(key, copied, source, end, copy.ends, compacted, cut)
    return replace(partition_ranges, compacted=compacted, not_copied=not_copied, damage=damage)


def _ranges(
    key: Partition, copied: CopyMap, source: LogEnds, end: int, copy: LogEnds, compacted: Compacted, cut: Cut
) -> PartitionRanges:
    """
    :param end: source offset at which the comparison ends.
    :param copy: the copy's log. If it has lost its end, those records are missing, and no range waits for them.
    """
    # Runs show what the copy has deleted in the whole partition; a sample may not look there.
    begins = begins_at(copied.runs, copy.start)
    start = source.start if any(compacted) else min(max(source.start, begins), end)
    its, of_keys, sampled = cut(key, max(end - start, 0), compacted)
    held = copy.high_watermark
    found = [
        span._replace(target_start=min(span.target_start, held), target_end=min(span.target_end, held))
        for span in ranges(copied, start, end, its.records, its.chosen)
    ]
    max_bytes = max(SAMPLE_BYTES // max(len(found), 1), SAMPLE_RANGE_BYTES) if sampled else None
    return PartitionRanges(
        *key,
        found,
        its.of,
        gone_in_source=copied_between(copied.runs, begins, source.start),
        deleted=copied_between(copied.runs, source.start, begins),
        apart=not of_keys,
        most_bytes=max_bytes,
    )


class _Metered:
    """Reads logs and counts the bytes."""

    def __init__(self) -> None:
        self.bytes = 0

    def __call__(self, log: LogPart) -> LogPart:
        return _MeteredLog(log, self)


class _MeteredLog:
    def __init__(self, log: LogPart, meter: _Metered) -> None:
        self._log, self._meter = log, meter

    @property
    def log_start(self) -> int:
        return self._log.log_start

    def __iter__(self) -> Iterator[Piece]:
        for piece in self._log:
            self._meter.bytes += piece.batch.end - piece.batch.at
            yield piece


def compare(
    source: Admin,
    target: Admin,
    key: Partition,
    span: Range,
    compacted: Compacted,
    *,
    apart: bool = False,
    most_bytes: int | None = None,
    outlived: bool = False,
    over: Callable[[], bool] = never,
) -> Compared:
    """Compares a range of a partition.

    :param apart: see `PartitionRanges.apart`; likewise `most_bytes`, after which the range is cut short.
    :param outlived: see `PartitionRanges.outlived`: records that the copy has deleted are then not missing.
    :param over: called repeatedly; True when the time is over.
    :raises KafkaAdminError: one of the clusters does not answer.
    """
    metered = _Metered()
    theirs = metered(source.log(key, span.start, span.end, committed=True))
    ours = metered(target.log(key, span.target_start, span.target_end))

    def enough() -> bool:
        return over() or (most_bytes is not None and metered.bytes >= most_bytes)

    def by_now() -> ByNow:
        # The source's end first: records that the copier adds in between are then in the copy at least.
        end = source.ends([key])[key].last_stable
        held = target.ends([key])[key].high_watermark
        return ByNow(
            metered(source.log(key, span.start, end, committed=True)),
            metered(target.log(key, 0, held)),
            max(held - span.target_end, 0),
        )

    try:
        if apart:
            comparison = Walk(span, theirs, ours, compacted, Unmatched(KeyShare())).run(enough)
        else:
            comparison = Comparison(span, theirs, ours, compacted).run(by_now, enough)
        return comparison._replace(lacking=0) if outlived else comparison
    except RemoteProtocolError as error:
        return Compared(first=RecordDifference(span.start, span.target_start, str(error)))


def kept_ms(topic: TopicSpec) -> int | None:
    """How long the topic's brokers keep its records; None: without limit, limited by size only, or unknown."""
    settings = {**topic.defaults, **topic.config}
    value = settings.get("retention.ms", "")
    return int(value) if value.isdecimal() and "delete" in settings.get("cleanup.policy", "delete") else None


def outlived(
    source: Offsets,
    copies: Offsets,
    ends: Mapping[Partition, tuple[LogEnds, LogEnds]],
    kept: Mapping[str, int | None],
    now_ms: int,
) -> frozenset[Partition]:
    """Partitions whose copies begin with a record older than the retention of the source.

    A copy rolls its segments at other offsets than its source, so with equal retention either log may delete first.
    Records older than the source's own retention are not counted as missing.

    :param ends: of source and copy, for partitions whose copy has deleted records that its source has.
    :param kept: topic → `kept_ms` of the source.
    """
    bounds = {key: now_ms - ms for key in ends if (ms := kept.get(key[0])) is not None}
    first = copies.record_times({key: ends[key][1] for key in bounds})
    begins = {key: times.first_ms for key, times in first.items() if times.first_ms is not None}
    # An empty copy has deleted even the newest record of its source.
    newest = source.record_times({key: ends[key][0] for key in bounds.keys() - begins.keys()})
    begins |= {key: times.newest_ms for key, times in newest.items() if times.newest_ms is not None}
    return frozenset(key for key, at_ms in begins.items() if at_ms < bounds[key])
