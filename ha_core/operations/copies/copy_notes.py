"""Contents of copies, from copiers' notes, read before a switch goes to them. Copiers may be running meanwhile."""

from collections.abc import Collection
from functools import partial
from typing import NamedTuple

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.takeover import CopyPartition
from ha_core.kafka.verifying import copies_of
from ha_core.mirror.notes import Notes
from ha_core.mirror.partition_diff import visible
from ha_core.mirror.progress import PAGE_RUNS, CopyDamagedError, Progress
from ha_core.model import LostTail
from ha_core.model.mirror import begins_at
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.plan.facts.clusters import CopyFacts, Partition
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.mirror.held_copies import MAX_EXTENTS_AT_ONCE
from ha_core.plan.preflight import PreflightCase

FORCED_S = 2.0
"""For a forced move, which clients wait for: notes that are not read by then count as unknown."""


class CopyNotes(NamedTuple):
    """Copies that could not be read are missing."""

    reached: dict[Partition, int]
    """First offset of the source that is not in the copy; 0 if no copier has begun."""
    copies: dict[Partition, CopyFacts]
    """Contents of copies, if maps may not have room for them, a lost tail may lie between, or a copy may have
    deleted records that its source has; else empty."""
    later: set[Partition]
    """Copies that may have deleted records that their sources have."""
    not_begun: set[Partition]
    """Copies that no copier has begun: a forced move goes on without them."""


def noted_copies(environment: Environment, case: PreflightCase, patience_s: float) -> CopyNotes:
    """Progress of the copies that the move goes to, and their contents if needed.

    The newest note of each copy, which is at most some seconds old, has the number of its runs; the runs themselves are
    read only if needed.
    Copies that cannot be read are reported: the switch itself reads them again.
    """
    target, timeout_s = case.request.target, FORCED_S if case.request.mode == "forced" else patience_s
    shapes = {name: case.facts.topic(target, name) for name in case.to_copies}
    copies = [
        copy
        for name, mirror in case.to_copies.items()
        if (shape := shapes[name]) is not None
        for copy in copies_of(mirror, shape.partitions)
    ]
    noted = CopyNotes({}, {}, set(), set())
    if not copies:
        return noted
    maps = [topic for name in case.to_copies if (topic := case.view.mapped(name)) is not None]
    extent_count = sum(len(extents) for topic in maps for extents in topic.partitions.values())
    try:
        admin = admin_of(environment, target)
        read = partial(_read, admin, copies, timeout_s=timeout_s)
        newest = list[Progress]()
        for notes in read(whole_map=False):
            key, progress = (notes.copy.topic, notes.copy.partition), notes.progress
            noted.reached[key] = 0 if progress is None else progress.source
            if progress is None:
                noted.not_begun.add(key)
            else:
                newest.append(progress)
            if _may_begin_later(case, key, progress):
                noted.later.add(key)
        # A run is split where an extent of the map ends.
        runs = sum(one.pages * PAGE_RUNS + len(one.runs) for one in newest)
        if extent_count + runs > MAX_EXTENTS_AT_ONCE or case.tails_in_copies:
            for notes in read(whole_map=True):
                if (progress := notes.progress) is not None:
                    facts = CopyFacts(progress.source, notes.runs, whole=True)
                    noted.copies[notes.copy.topic, notes.copy.partition] = facts
        later = [copy for copy in copies if copy.key in noted.later]
        # A note may be older than a deletion, so the records after it are read as well.
        for id_, read_copy in admin.read_copies(later, timeout_s).items() if later else ():
            if (copied := read_copy.copied) is not None:
                noted.copies[id_.topic, id_.partition] = CopyFacts(copied.source, copied.runs, whole=True)
    except (KafkaAdminError, CopyDamagedError, RefusedError) as error:
        environment.say(f"the contents of the copies, and whether maps have room for them, are not known: {error}")
    return noted


def _may_begin_later(case: PreflightCase, key: Partition, progress: Progress | None) -> bool:
    """Whether a copy may have deleted records that its source has. Only the whole map shows how many.

    :param progress: the newest note.
    """
    copy_start = case.log_start(case.request.target, key)
    if not copy_start or progress is None or copy_start > progress.target:
        return copy_start > 0
    # A copy that begins in an older run begins below the first of these.
    return begins_at(progress.runs, copy_start) > case.log_start(case.request.origin, key)


def committed_tails(environment: Environment, case: PreflightCase) -> tuple[LostTail, ...]:
    """Lost tails in compacted copies that a planned switch goes to, for partitions that still have committed records of
    them. Aborted ones do no harm, and are counted anyway when a cluster is back. Unreadable partitions count as having
    some.
    """
    if case.request.mode == "forced":
        return case.tails_in_copies
    return tuple(
        tail.changed(partitions={p: part for p, part in tail.partitions.items() if _left(environment, case, tail, p)})
        for tail in case.tails_in_copies
    )


def _left(environment: Environment, case: PreflightCase, tail: LostTail, partition: int) -> bool:
    part, there = tail.partitions[partition], case.facts.topic(tail.cluster, tail.topic)
    if not part.records or part.start is None or part.end is None:
        return False
    end = part.end if there is None else min(part.end, there.ends.get(partition, part.end))
    try:
        log = admin_of(environment, tail.cluster).log((tail.topic, partition), part.start, end, committed=True)
        return any(record.offset >= part.start for record in visible(log))
    except (KafkaAdminError, RefusedError) as error:
        environment.say(f"the rest of the lost tail of {tail.topic}-{partition} is not known: {error}")
        return True


def _read(target: Admin, copies: Collection[CopyPartition], *, whole_map: bool, timeout_s: float) -> list[Notes]:
    """A part of the copy log that does not exist yet has no notes. The takeover of the switch goes on from here."""
    by_log = grouped((copy.log, copy.id) for copy in copies)
    there = target.leaderships(by_log, timeout_s)
    found = list[Notes]()
    for notes in target.notes_of_logs({log: by_log[log] for log in there}, whole_map, timeout_s).values():
        if isinstance(notes, CopyDamagedError):
            raise notes
        found.append(notes)
    return found
