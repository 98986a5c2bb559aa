"""Running a migration whose cuts lie ahead. Every step can be killed anywhere and run again.

Nothing here waits for clients: `advance` goes on until it would have to, and leaves the operation `crossing`. Whoever
looks next (a command that waits, a sensor, a scheduled run) calls it again, and it settles what has got there.

Until a crossing is open there is a way back without asking anybody, so what fails before is undone at once: a proposed
cut that the log reaches holds producers up until somebody goes on with it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

from ha_core.model import Topic
from ha_core.model.topic import client_end
from ha_core.operations.crossing.below import keep_below, kept_below, physical_cuts, read_below, without_below
from ha_core.operations.crossing.cuts import client_ends, first_cuts, higher_cuts
from ha_core.operations.crossing.ends import Sides, overdue, progress_of, read_ends, read_sides, remaining_words
from ha_core.operations.crossing.fence import end_behind_fence, lift
from ha_core.operations.crossing.way_back import undo_crossing, way_back
from ha_core.operations.dependents import unfollowed
from ha_core.operations.errors import NotServedError, StepFailedError
from ha_core.operations.gateways import await_drained
from ha_core.operations.journal import Journal
from ha_core.operations.revisions import Touched, bounded, commit, in_parts, in_revisions, patiently, remaining_in
from ha_core.operations.sides import admin_of, asked
from ha_core.operations.switch.targets import prepare_targets
from ha_core.operations.switch.verifying import verify
from ha_core.plan.crossing import open_change, propose_change, settle_change
from ha_core.plan.crossing_stages import (
    Back,
    Done,
    Lift,
    passed,
    resume,
    stages,
)
from ha_core.plan.facts import Partition, PartitionEnds
from ha_core.store.errors import FencedOffError

LEADERS_S = 180.0
"""Until a cluster leads thousands of partitions that were made a moment ago. Nobody waits for it."""
MAX_PROPOSALS = 5
"""Each one lies twice as far ahead as the one before."""


def advance(journal: Journal, groups_follow: Callable[[Journal], str], at_once: bool = False) -> None:
    """Go on as far as it goes without waiting for clients: the operation is `crossing` then, or has ended.

    :param groups_follow: moves the groups, once all topics have crossed over; what became of it, for the result.
    :param at_once: end an open crossing behind a fence.
    :raises MoveError, KafkaAdminError, MoveDamagedError: before the crossing was open it is undone; after that it goes
        on another time.
    """
    while True:
        decision = resume(journal.operation, Touched.read(journal).view.topics)
        if isinstance(decision, Done):
            journal.environment.store.release_locks(journal.operation.id, journal.epoch)
            return
        if isinstance(decision, Lift):
            lift(journal)
        elif isinstance(decision, Back):
            way_back(journal)
        elif decision.step == "verify":
            _end(journal, groups_follow)
            return
        elif decision.step != "cross":
            _guarded(journal, decision.step)
        elif not _cross(journal, at_once):
            return


def _guarded(journal: Journal, step: str) -> None:
    """A step before the crossing is open: what fails is taken back at once."""
    try:
        if step == "prepare":
            prepare_targets(journal)
            _propose(journal)
        else:
            _open(journal)
    except FencedOffError:
        raise  # another executor goes on with it
    except BaseException as error:
        why = f"{step}: {error}"
        patiently(journal.environment, lambda: undo_crossing(journal, why))
        if not isinstance(error, Exception):
            raise
        raise StepFailedError(f"{error} The migration was undone: nothing has moved, no lock is left.") from error


def _end(journal: Journal, groups_follow: Callable[[Journal], str]) -> None:
    try:
        verify(journal)
    except NotServedError as error:
        journal.finish("failed", f"{error}{unfollowed(journal.operation)}")
        raise
    remaining = remaining_words(journal.operation)
    ended = f"crossed over and verified{groups_follow(journal)}"
    journal.finish("succeeded", f"{ended}; {remaining}" if remaining else ended)


def _propose(journal: Journal) -> None:
    found = stages(journal.operation, Touched.read(journal).view.topics)
    names = [name for name, one in found.items() if one == "ahead"]
    with journal.step("propose") as seen:
        sides = read_sides(journal.environment, journal.operation, names, LEADERS_S)
        seen.update(_publish(journal, names, sides, first_cuts(journal, sides)))


def _publish(journal: Journal, names: Collection[str], sides: Sides, cuts: Mapping[Partition, int]) -> dict[str, Any]:
    """One revision of proposed cuts; its evidence."""
    touched = Touched.read(journal)
    documents = propose_change(journal.operation, touched.view, names, sides.ends, cuts)
    revision = commit(journal, touched, documents, "propose")
    ends = client_ends(journal, touched.view.topics, sides)
    return {
        "revision": revision,
        "topics": len(names),
        "partitions": len(cuts),
        "status": "Migrating",
        **bounded("cuts", cuts),
        **bounded("client_ends", {key: ends[key] for key in cuts}),
    }


def _open(journal: Journal) -> None:
    """Wait for every gateway, look at the ends, and open all; where the log was faster propose a higher cut first."""
    environment = journal.environment
    before: dict[Partition, int] = {}
    late: set[Partition] = set()
    with journal.step("open") as seen:
        for attempt in range(1, MAX_PROPOSALS + 1):
            sides, counts = _served_sides(journal)
            touched = Touched.read(journal)
            found = stages(journal.operation, touched.view.topics)
            names = [name for name, one in found.items() if one == "proposed"]
            late = {(name, p) for name in names for p in passed(touched.view.topics[name], sides.ends)}
            if not late:
                ends = client_ends(journal, touched.view.topics, sides)
                opened_at = bounded("opened_at", ends).get("opened_at", {})
                operation = journal.operation.noting(opened=environment.now(), opened_at=opened_at)
                documents = open_change(operation, touched.view, names, sides.ends, counts)
                revision = commit(journal, touched, documents, "open")
                seen.update(revision=revision, topics=len(names), proposals=attempt)
                seen.update(bounded("client_ends", ends))
                return
            if attempt < MAX_PROPOSALS:
                ends = client_ends(journal, touched.view.topics, sides)
                cuts = higher_cuts(journal, touched.view.topics, ends, late, before, attempt)
                before = ends
                evidence = _publish(journal, sorted({name for name, _ in late}), sides, cuts)
                journal.append("propose", "note", detail={**evidence, "why": "the log had passed the cuts before"})
                environment.say(f"{len(late)} partitions passed their cuts before these were served: proposed again")
    named = ", ".join(f"{name}-{p}" for name, p in sorted(late)[:5])
    raise StepFailedError(
        f"The logs of {len(late)} partitions ({named}) passed their cuts {MAX_PROPOSALS} times before every gateway "
        "served them. Take a longer --preparation, or a higher rate."
    )


def _served_sides(journal: Journal) -> tuple[Sides, Mapping[str, int]]:
    """Ends, and how many partitions the origin has of each topic: read after every live gateway followed the proposed
    cuts and had nothing in flight from before."""
    environment, operation = journal.environment, journal.operation
    request, _ = asked(operation)
    revision = environment.store.confirm()
    await_drained(environment, revision, operation.id, request.drain_timeout_s)
    found = stages(operation, Touched.read(journal).view.topics)
    names = [name for name, one in found.items() if one == "proposed"]
    return read_sides(environment, operation, names), admin_of(environment, request.origin).partition_counts(names)


def _cross(journal: Journal, at_once: bool) -> bool:
    """Settle what has reached its cuts. False: nothing is left to do until more has."""
    environment = journal.environment
    topics = Touched.read(journal).view.topics
    progress = progress_of(environment, journal.operation, topics)
    environment.say(progress.words)
    keep_below(journal, topics, progress)
    for names in in_revisions(journal, progress.ready, topics):
        in_parts(names, partial(_settle, journal))
    if len(progress.ready) == sum(one == "open" for one in progress.stages.values()):
        return True
    if not at_once and not overdue(environment, journal.operation):
        return False
    environment.say("what has not reached its cut is cut at its log's end now, behind a fence")
    end_behind_fence(journal)
    return True


def _settle(journal: Journal, names: Collection[str]) -> None:
    environment = journal.environment
    request, _ = asked(journal.operation)
    with journal.step("settle") as seen:
        touched = Touched.read(journal)
        cuts = physical_cuts(touched.view.topics, names)
        ends = read_ends(environment, journal.operation, cuts).replicated
        origin = admin_of(environment, request.origin)
        counts = origin.partition_counts(names)
        below = {key: found for key, found in kept_below(journal).items() if key in cuts}
        below.update(read_below(origin, {key: cut for key, cut in cuts.items() if key not in below}))
        producers = {key: found for key, found in below.items() if found is not None}
        operation = without_below(journal.operation, names)
        documents = settle_change(operation, touched.view, names, ends, counts, producers, environment.now_ms())
        revision = commit(journal, touched, documents, "settle")
        journal.update(revision=revision)
        seen.update(
            revision=revision,
            status="Migrated",
            topics=list(names),
            producers=sum(len(found) for found in producers.values()),
            unknown_sequences=[f"{name}-{p}" for (name, p), found in below.items() if found is None],
            **remaining_in(documents, names),
            **bounded("client_ends", _client(touched.view.topics, ends)),
        )


def _client(topics: Mapping[str, Topic], ends: Mapping[Partition, PartitionEnds]) -> dict[Partition, int]:
    return {
        (name, p): client_end(topics.get(name), p, one.origin)
        for (name, p), one in ends.items()
        if one.origin is not None
    }
