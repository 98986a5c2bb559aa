"""Linking: the steps that begin mirrors, their revisions, and how to resume after an interruption.

A mirror is a document that copiers follow. The invariant, at every point, after any number of interruptions:

1. A topic is created in the target only when every gateway applies a map that routes all clients to the source
   (`identity_maps`). So only copiers write to the copy, and gateways route no client there.
2. A mirror is written only when its topic is in the target with the source's number of partitions. Before, no copier
   copies it.
3. A mirrored topic has one source: the writer of all its partitions, or a copy whose records come from there (a
   *chain*). The topic moves to no other cluster while the mirror exists.

Until the last mirror is written everything can be undone; after it there is `unlink`, which may delete a copy that no
reader, group or operator needs any more (`needed`).
"""

from collections.abc import Collection, Iterable
from typing import Literal, get_args

from ha_core.model import Mirror, View
from ha_core.model.operation import LinkOperation
from ha_core.plan.engine.revision import FINAL, Documents, MoveDamagedError, entering, require_state
from ha_core.plan.facts.verdict import Verdicts, error, listed
from ha_core.plan.mirror.mirrored_topics import fed_by
from ha_core.plan.preflight import clusters, scope, settings, topics
from ha_core.plan.preflight.case import PreflightCase


def one_copier(case: PreflightCase) -> Verdicts:
    """A copy has one writer, the copier of its mirror."""
    origin, target = case.request.origin, case.request.target
    for mirror in case.view.mirrors.values():
        if mirror.topic not in case.moves.topics or mirror.target != target:
            continue
        about = f"topic {mirror.topic}"
        text = f"Topic {mirror.topic} is mirrored to {target} already, from {mirror.source} since {mirror.since}"
        if mirror.source == origin:
            yield error("mirrored", about, f"{text}.", "Leave it out: `switchyard mirrors` shows its lag.")
        else:
            way = f"End that mirror first: `switchyard mirror unlink {mirror.topic} --to {target}`."
            yield error("second-writer", about, f"{text}: the copy would have two writers.", way)


def no_circle(case: PreflightCase) -> Verdicts:
    """Copied records must not return to their source as new ones."""
    origin, target = case.request.origin, case.request.target
    for name in case.closure.moves.topics:
        way_back = _path([mirror for mirror in case.view.mirrors.values() if mirror.topic == name], target, origin)
        if way_back:
            path = " → ".join([*way_back, target])
            yield error(
                "loop",
                f"topic {name}",
                f"Topic {name} is mirrored from {target} to {origin}: with this mirror its records would go in a "
                f"circle, {path}.",
                f"End the mirror in {origin} first (`switchyard mirror unlink {name} --to {origin}`), or switch the "
                f"topic to {origin}, which reverses the mirror.",
            )


def _path(mirrors: Collection[Mirror], start: str, end: str) -> list[str]:
    """Clusters on a path of mirrors from `start` to `end`, both included; empty: none."""
    ways, seen = [[start]], {start}
    while ways:
        way = ways.pop()
        if way[-1] == end:
            return way
        for mirror in mirrors:
            if mirror.source == way[-1] and mirror.target not in seen:
                seen.add(mirror.target)
                ways.append([*way, mirror.target])
    return []


def one_source(case: PreflightCase) -> Verdicts:
    """A mirror has one source, and only copiers have written to its copy."""
    target = case.request.target
    for name in case.moves.topics:
        topic, about = case.view.mapped(name), f"topic {name}"
        origin = next(iter(fed_by(case.view, name, case.request.origin)), case.request.origin)
        if topic is None or not topic.sound:
            continue
        written = {
            cluster: sum(topic.written(p).cluster == cluster for p in topic.partitions) for cluster in topic.writers
        }
        if written.pop(target, 0):
            yield error(
                "second-writer",
                about,
                f"Topic {name} is written in {target}, in part: its copy would have two writers.",
                f"Move these partitions to {origin} first, or mirror the topic the other way when all of it is in "
                f"{target}.",
            )
        elif others := sorted(written.keys() - {origin}):
            yield error(
                "third-cluster",
                about,
                f"Topic {name} is written in {listed(others)} as well, and two clusters stand in for each other.",
                f"Move all of it to {origin} first: `switchyard switch topic:{name} --from {others[0]} --to {origin}`.",
            )
        elif older := sorted(topic.clusters - {origin}):
            yield error(
                "written-elsewhere",
                about,
                f"Topic {name} has records in {listed(older)} as well: a mirror has one source.",
                f"Wait until they have aged (`switchyard age {name}`), then mirror it.",
            )


def not_migrating(case: PreflightCase) -> Verdicts:
    """While cuts lie ahead, the source is undecided."""
    for name in case.closure.moves.topics:
        topic = case.view.topics.get(name)
        if topic is not None and topic.crossing is not None:
            yield error(
                "migrating",
                f"topic {name}",
                f"Topic {name} is migrating, in operation {topic.crossing.operation}: a mirror has one source.",
                f"Let it end (`switchyard migrations` shows it), or `switchyard rollback {topic.crossing.operation}`.",
            )


def one_home(case: PreflightCase) -> Verdicts:
    """A topic without a map that several clusters have may be a topic of its own in each, for clients that are bound
    there. Its map would lead all of them to one: an operator may decide that, and a pattern may not."""
    origin = case.request.origin
    for name in case.moves.topics:
        if case.view.mapped(name) is not None:
            continue
        if others := sorted(
            cluster
            for (cluster, topic), facts in case.facts.topics.items()
            if topic == name and facts.exists and cluster != origin
        ):
            yield error(
                "name-taken",
                f"topic {name}",
                f"{listed(others)} has a topic {name} too, and no map says which one clients use: a mirror would lead "
                f"all of them to {origin}.",
                f"If both are one topic, link it by its name. If the other one is not needed, delete it in "
                f"{listed(others)}.",
            )


Forward = Literal["pin", "prepare", "link", "record"]
Back = Literal["unlink", "discard", "unpin", "undone"]
Step = Literal[Forward, Back, "release"]
# pin: give topics without a map one that routes clients to the source, in revisions that every gateway serves
# prepare: create the topics that are missing in the target, and note their names
# link: write the mirrors; the last ones in the revision after which there is no undo
# record: write the result, release the locks
# unlink: delete the written mirrors
STEPS: tuple[Step, ...] = get_args(Forward)
BACK: tuple[Step, ...] = get_args(Back)
"""Steps of the undo: copiers first; maps last, and only of topics without a copy."""

LINK_RULES = (
    scope.locks,
    topics.of_the_cluster,
    topics.placed,
    topics.in_target,
    topics.lowered,
    settings.not_taken,
    settings.made_explicit,
    one_copier,
    no_circle,
    one_source,
    not_migrating,
    clusters.limits,
    clusters.gateways,
)
"""The pre-flight of topics that get a mirror: one source, one copier, no circle."""
PATTERN_RULES = (*LINK_RULES, one_home)
"""The pre-flight of topics that a pattern has found, which no operator has looked at."""


def remaining_steps(operation: LinkOperation) -> tuple[Step, ...]:
    """The remaining steps, from the state of the operation. Each may be repeated."""
    if operation.state in FINAL:
        return ("release",)
    if operation.state == "undoing":
        return BACK
    return ("record",) if operation.state == "cut" else STEPS


def mirrors(operation: LinkOperation) -> Iterable[Mirror]:
    """The mirrors that the operation creates."""
    made = *operation.route, operation.id, operation.started, operation.by
    for name in operation.moves.topics:
        yield Mirror.of(name, *made, **operation.request.policy)


def link_change(operation: LinkOperation, view: View, some: Collection[Mirror], last: bool) -> Documents:
    """Write some of its mirrors; with the `last` of them the operation is `cut`.

    :raises MoveDamagedError: another operation has linked one of them between the pre-flight of this one and its
        locks. Another link id would make copiers begin anew, behind the records that the copy has.
    """
    require_state(operation, "running")
    stored = (view.mirrors.get(mirror.key) for mirror in some)
    if others := sorted(mirror.key for mirror in stored if mirror is not None and mirror.link != operation.id):
        raise MoveDamagedError(f"another operation has linked {listed(others)} meanwhile")
    return Documents((*some, entering(operation, "cut" if last else "running")))


def unlink_change(operation: LinkOperation, view: View) -> Documents:
    """End the mirrors that the operation has created."""
    own = [(Mirror, key) for key, mirror in view.mirrors.items() if mirror.link == operation.id]
    return Documents((entering(operation, "undoing"),), tuple(own))
