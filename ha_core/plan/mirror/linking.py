"""Linking: the steps that begin mirrors, their revisions, and how to resume after an interruption.

A mirror is a document that copiers follow. The invariant, at every point, after any number of interruptions:

1. A topic is created in the target only when every gateway applies a map that routes all clients to the source
   (`identity_maps`). So only copiers write to the copy, and gateways route no client there.
2. A mirror is written only when its topic is in the target with the source's number of partitions. Before, no copier
   copies it.
3. A mirrored topic has one source: the writer of all its partitions. It is not moved while the mirror exists.

Until the last mirror is written everything can be undone; after it there is `unlink`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, get_args

from ha_core.model import Mirror, View
from ha_core.model.operation import LinkOperation
from ha_core.plan.engine.revision import FINAL, Documents, entering, require_state
from ha_core.plan.preflight import clusters, links, scope, settings, topics

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
    links.one_copier,
    links.no_circle,
    links.one_source,
    links.not_migrating,
    clusters.limits,
    clusters.gateways,
)
"""The pre-flight of topics that get a mirror."""


def resume(operation: LinkOperation) -> tuple[Step, ...]:
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


def link_change(operation: LinkOperation, some: Iterable[Mirror], last: bool) -> Documents:
    """Write some of its mirrors; with the `last` of them the operation is `cut`."""
    require_state(operation, "running")
    return Documents((*some, entering(operation, "cut" if last else "running")))


def unlink_change(operation: LinkOperation, view: View) -> Documents:
    """End the mirrors that the operation has created."""
    own = [(Mirror, key) for key, mirror in view.mirrors.items() if mirror.link == operation.id]
    return Documents((entering(operation, "undoing"),), tuple(own))
