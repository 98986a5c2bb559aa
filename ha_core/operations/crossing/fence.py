"""The end of a crossing behind a fence: partitions that nobody writes to would never reach their cuts by themselves.

Behind the fence a cut that was not reached is lowered to the origin's end, where nothing was given out; the others keep
theirs. Producers wait for some milliseconds, as for a barrier.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import partial

from ha_core.model.topic import client_end
from ha_core.operations.crossing.below import keep_below, kept_below, physical_cuts, read_below, without_below
from ha_core.operations.crossing.ends import Sides, progress_of, read_ends
from ha_core.operations.errors import BypassError, StepFailedError
from ha_core.operations.gateways import await_drained
from ha_core.operations.journal import Journal
from ha_core.operations.revisions import Touched, bounded, commit, in_parts, in_revisions, patiently, remaining_in
from ha_core.operations.sides import admin_of, asked
from ha_core.plan.crossing import finish_change, hold_change, lift_change
from ha_core.plan.facts import Partition

SETTLING_PAUSE_S = 0.005


def end_behind_fence(journal: Journal) -> None:
    """End the crossing of every open topic of the operation.

    :raises StepFailedError: the fence is lifted, and the crossing goes on as before.
    """
    environment = journal.environment
    topics = Touched.read(journal).view.topics
    progress = progress_of(environment, journal.operation, topics)
    keep_below(journal, topics, progress)
    names = [name for name, one in progress.stages.items() if one == "open"]
    for run in in_revisions(journal, names, topics):
        in_parts(run, partial(_end, journal))


def lift(journal: Journal) -> None:
    """Take away a fence that an executor has left: the crossing goes on as before."""
    touched = Touched.read(journal)
    revision = commit(journal, touched, lift_change(journal.operation, touched.view), "lift")
    journal.append("lift", "undone", detail={"revision": revision})
    journal.environment.say(f"a fence that was left is lifted, revision {revision}")


def _end(journal: Journal, names: Sequence[str]) -> None:
    environment = journal.environment
    request, _ = asked(journal.operation)
    origin = admin_of(environment, request.origin)
    # What can be read before the fence is: surplus is long, and producers wait behind it.
    touched = Touched.read(journal)
    cuts = physical_cuts(touched.view.topics, names)
    now = read_ends(environment, journal.operation, cuts).replicated
    below = {key: found for key, found in kept_below(journal).items() if key in cuts}
    early = {key: cut for key, cut in cuts.items() if (now[key].origin or 0) >= cut and key not in below}
    below.update(read_below(origin, early))
    begun = environment.monotonic()
    try:
        revision = commit(journal, touched, hold_change(journal.operation, touched.view, names), "hold")
        _drain(journal, revision)
        sides = _quiet_sides(journal, cuts)
        rest = {key: min(cut, sides.origin[key].log_end) for key, cut in cuts.items() if key not in below}
        below.update(read_below(origin, rest))
        _require_unmoved(sides, read_ends(environment, journal.operation, cuts))
        counts = origin.partition_counts(names)
        producers = {key: found for key, found in below.items() if found is not None}
        operation = without_below(journal.operation, names)
        documents = finish_change(operation, touched.view, names, sides.ends, counts, producers, environment.now_ms())
        revision = commit(journal, touched, documents, "finish")
    except BaseException:
        patiently(environment, lambda: lift(journal))
        raise
    fenced_ms = (environment.monotonic() - begun) * 1000
    journal.update(revision=revision)
    ends = {(name, p): client_end(touched.view.topics[name], p, sides.origin[name, p].log_end) for name, p in cuts}
    lowered = {key: ends[key] for key, cut in cuts.items() if sides.origin[key].log_end < cut}
    unknown = [f"{name}-{partition}" for (name, partition), found in below.items() if found is None]
    detail = {"revision": revision, "topics": names, "status": "Migrated", "unknown_sequences": unknown}
    detail |= remaining_in(documents, names)
    journal.append(
        "finish", "done", fenced_ms, {**detail, **bounded("lowered_to", lowered), **bounded("client_ends", ends)}
    )
    environment.say(f"finish {fenced_ms:.1f} ms ({len(names)} topics, {len(lowered)} cuts lowered, {revision=})")


def _require_unmoved(first: Sides, second: Sides) -> None:
    moved = [key for key, one in first.origin.items() if second.origin[key].log_end != one.log_end]
    if moved:
        raise BypassError(
            f"Somebody writes without passing through the gateways: the origin's logs of {moved[:5]} grew while the "
            "fence stood and every gateway had drained. Find who does, let it go through a gateway or stop it."
        )


def _drain(journal: Journal, revision: int) -> None:
    request, _ = asked(journal.operation)
    await_drained(journal.environment, revision, journal.operation.id, request.drain_timeout_s)


def _quiet_sides(journal: Journal, partitions: Collection[Partition]) -> Sides:
    """Ends that every in-sync replica has, without an open transaction."""
    environment = journal.environment
    request, _ = asked(journal.operation)
    deadline = environment.monotonic() + request.drain_timeout_s
    while True:
        sides = read_ends(environment, journal.operation, partitions)
        restless = [key for key, one in sides.origin.items() if not one.settled or one.open_transaction]
        if not restless:
            return sides
        if environment.monotonic() >= deadline:
            raise StepFailedError(
                f"Cluster {request.origin} did not come to rest within {request.drain_timeout_s:g} s: {restless[:5]}."
            )
        environment.sleep(SETTLING_PAUSE_S)
