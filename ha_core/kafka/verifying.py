"""Whether copies have what their sources have: what is compared, cut into ranges, and the comparison of one of them.

`plan` asks both clusters how far each partition is copied; `compare` reads both of them. Neither changes anything, and
copiers may be at work meanwhile: what they append after the plan is not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import TopicMissingError
from ha_core.kafka.facts import LogEnds
from ha_core.kafka.reading import ReadCopy
from ha_core.kafka.takeover import Copy
from ha_core.mirror.comparing import ByNow, Comparison, chosen, ranges
from ha_core.mirror.key_states import NEITHER, Compacted
from ha_core.mirror.notes import CopyId, log_partition
from ha_core.mirror.side_by_side import Compared, Difference, Range
from ha_core.model import Mirror
from ha_core.plan.facts import Partition
from ha_core.wire.errors import RemoteProtocolError

RECORDS_PER_RANGE = 200_000
WHOLE = 1 << 62


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of its sources is compared."""

    share: float = 1.0
    """Of the ranges of a topic; one at least."""
    seed: int = 0
    records: int = RECORDS_PER_RANGE
    """Source offsets in a range."""


@dataclass(frozen=True, slots=True)
class PartitionRanges:
    """A partition as it is to be compared."""

    topic: str
    partition: int
    ranges: Sequence[Range] = ()
    """Those that are chosen."""
    of: int = 0
    """So many ranges there are."""
    compacted: Compacted = NEITHER
    behind: int = 0
    """Source offsets that are not copied yet."""
    gone_in_source: int = 0
    """Records that lay below the start of the source, and were copied."""
    damage: Difference | None = None
    """What differs without a look at records."""


def copies_of(mirror: Mirror, partitions: int) -> list[Copy]:
    """Of each partition of a mirrored topic."""
    ids = (CopyId(mirror.link, mirror.topic, partition) for partition in range(partitions))
    return [Copy(id_, (mirror.log, log_partition(id_, mirror.log_partitions))) for id_ in ids]


def plan(source: Admin, target: Admin, mirror: Mirror, extent: Coverage) -> list[PartitionRanges]:
    """How each partition of a mirror is compared.

    :raises TopicMissingError: the source or the copy does not exist.
    :raises CopyDamagedError: a note of a copier cannot be read.
    """
    topic = mirror.topic
    there = {admin: admin.topics([topic], offsets=False).get(topic) for admin in (source, target)}
    for admin, found in there.items():
        if found is None:
            name = admin.cluster.name
            raise TopicMissingError(name, f"topic {topic} does not exist, and it is mirrored: `switchyard mirrors`.")
    of_source, of_target = (found for found in there.values() if found is not None)
    copies = copies_of(mirror, of_source.partitions)
    copied = target.read_copies([one for one in copies if one.id.partition < of_target.partitions])
    ends = source.ends([one.key for one in copies])
    compacted = Compacted(*("compact" in one.config.get("cleanup.policy", "") for one in (of_source, of_target)))
    records = WHOLE if any(compacted) else extent.records  # what became of a key may lie anywhere
    plans = [_plan(copy.key, ends[copy.key], copied.get(copy.id), compacted, records) for copy in copies]
    every = [(number, span) for number, one in enumerate(plans) for span in one.ranges]
    some = chosen(every, extent.share, f"{extent.seed}:{mirror.key}")
    return [replace(one, ranges=[span for at, span in some if at == number]) for number, one in enumerate(plans)]


def _plan(
    key: Partition, source: LogEnds, copy: ReadCopy | None, compacted: Compacted, records: int
) -> PartitionRanges:
    """:param copy: None: the copy does not have the partition yet."""
    if copy is None or copy.copied is None:
        left, damage = source.last_stable - source.start, copy.damage if copy else None
        if left and damage is None:
            what = "nothing of it is copied yet" if copy else "the copy does not have the partition yet"
            damage = Difference(source.start, -1, what)
        return PartitionRanges(*key, behind=left, compacted=compacted, damage=damage)
    copied, damage = copy.copied, copy.damage
    end = min(copied.source, source.log_end)
    if end < copied.source and damage is None:
        damage = Difference(end, -1, f"the source ends at {end}, and it was copied up to {copied.source}")
    held = copy.ends.high_watermark
    found = [
        # A copy that has lost its end lacks what lay there: nobody waits for it.
        span._replace(target_start=min(span.target_start, held), target_end=min(span.target_end, held))
        for span in ranges(copied, source.start, end, records)
    ]
    return PartitionRanges(
        *key,
        found,
        len(found),
        compacted,
        max(source.last_stable - copied.source, 0),
        copied.copied_below(source.start),
        damage,
    )


def compare(source: Admin, target: Admin, key: Partition, span: Range, compacted: Compacted) -> Compared:
    """Compare a range of a partition."""
    theirs = source.log(key, span.start, span.end, committed=True)
    ours = target.log(key, span.target_start, span.target_end)

    def by_now() -> ByNow:
        # The source first: what the copier takes from it meanwhile is then in the copy at least.
        end = source.ends([key])[key].last_stable
        held = target.ends([key])[key].high_watermark
        return ByNow(
            source.log(key, span.start, end, committed=True),
            target.log(key, 0, held),
            max(held - span.target_end, 0),
        )

    try:
        return Comparison(span, theirs, ours, compacted).run(by_now)
    except RemoteProtocolError as error:
        return Compared(first=Difference(span.start, span.target_start, str(error)))
