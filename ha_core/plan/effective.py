"""What of a move set is really in the origin, by the state and the facts."""

from __future__ import annotations

from ha_core.model import Identity, MoveRequest, MoveSet, View
from ha_core.plan.closure import Closure
from ha_core.plan.crossing_without_origin import crossing_out
from ha_core.plan.facts import Facts
from ha_core.plan.moving import written_in
from ha_core.plan.resolve import cluster_for_group, cluster_for_topic


def effective(view: View, request: MoveRequest, closure: Closure, facts: Facts) -> MoveSet:
    """The move set without what is in the target already, gets there by the end of its crossing (`crossing_out`), or is
    nowhere and was only ever used."""
    moves = closure.moves
    topics = tuple(
        t
        for t in moves.topics
        if writer_of(view, request, closure, facts, t) == request.origin
        and crossing_out(request, view.topics.get(t)) is None
    )
    groups = tuple(g for g in moves.groups if coordinator_of(view, request, closure, g) != request.target)
    kept = {*(f"topic:{t}" for t in topics), *(f"group:{g}" for g in groups)}
    reasons = {key: why for key, why in moves.reasons.items() if key in kept}
    return MoveSet(
        topics=topics, groups=groups, reasons=reasons, left_out=tuple(sorted(moves.reasons.keys() - reasons.keys()))
    )


def outside_topics(moves: MoveSet, facts: Facts) -> tuple[str, ...]:
    """Topics outside of the move of which its groups have committed offsets: the target has to be asked for them."""
    named = {topic for (_, group), g in facts.groups.items() if group in moves.groups for topic, _ in g.offsets}
    return tuple(sorted(named - set(moves.topics)))


def writer_of(view: View, request: MoveRequest, closure: Closure, facts: Facts, topic: str) -> str | None:
    """The cluster that is written now; None: the topic exists nowhere.

    The origin, where anything of what is to move is written there: single partitions may be elsewhere.
    """
    document = view.topics.get(topic)
    if document is not None and document.mapped:
        found = written_in(request, document)
        return next((side for side in (request.origin, request.target) if side in found), min(found))
    holders = sorted(cluster for (cluster, name), t in facts.topics.items() if name == topic and t.exists)
    if request.mode == "forced" and not _answers(facts, request.origin):
        # What the dead cluster holds cannot be asked; what it does not hold is refused for its unknown shape.
        return request.origin
    if len(holders) < 2:
        return holders[0] if holders else None
    for user, instance in closure.identities(f"topic:{topic}"):
        bound = cluster_for_topic(view, Identity(user, instance), topic, lambda _name: holders).cluster
        if bound != request.origin:
            return bound
    return request.origin if request.origin in holders else holders[0]


def coordinator_of(view: View, request: MoveRequest, closure: Closure, group: str) -> str | None:
    """The cluster that coordinates the group for the identities that move with it."""
    found = {
        cluster_for_group(view, Identity(user, instance), group) or request.origin
        for user, instance in closure.identities(f"group:{group}")
    }
    return request.origin if request.origin in found or not found else min(found)


def _answers(facts: Facts, cluster: str) -> bool:
    known = facts.clusters.get(cluster)
    return known is not None and known.reachable
