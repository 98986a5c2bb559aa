"""What a move would do: gathered, judged, and shown before anything is changed. A dry run stops here."""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field

from ha_core.model import MoveRequest, MoveSet, View
from ha_core.operations.context import Environment
from ha_core.operations.gather import FORCED_S, PATIENCE_S, gather
from ha_core.operations.last_seen import with_last_known
from ha_core.operations.proposal import BaseProposal
from ha_core.operations.requests import format_scope
from ha_core.operations.switch.preview import Preview, preview
from ha_core.plan.closure import closure
from ha_core.plan.crossing_without_origin import crossing_out
from ha_core.plan.facts import Facts
from ha_core.plan.size_verdicts import size_verdicts
from ha_core.plan.verdict import by_level
from ha_core.plan.verdicts import effective, outside_topics, preflight


class Proposal(BaseProposal):
    """A move as it would be made on the state at `revision`. JSON-able: it travels between tasks and to people."""

    request: MoveRequest
    moves: MoveSet
    strangers: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Topic → who uses it outside of the scope, as `user` or `user+instance`."""
    preview: Preview | None = None
    """What it costs, where somebody is to read it."""
    crossings: dict[str, str] = Field(default_factory=dict)
    """Forced only: topic that crosses over out of the dead cluster → the operation that is ended without it first."""

    @property
    def title(self) -> str:
        request = self.request
        scope = " ".join(format_scope(request.scope))
        return f"{scope}: {request.origin} → {request.target}, {request.mode}, on revision {self.revision}"


def plan(environment: Environment, request: MoveRequest, read: bool = False) -> Proposal:
    """What `request` would do now. Changes nothing.

    :param read: somebody is going to read it: with a preview of what it costs.
    """
    store = environment.store
    view = store.load()
    found = closure(view, store.usage(), request)
    facts = judged_facts(environment, view, found.moves, request)
    verdicts = preflight(view, request, found, facts, store.locks(), store.gateways())
    moves = effective(view, request, found, facts)
    verdicts = by_level([*verdicts, *size_verdicts(view, request, moves, facts)])
    strangers: dict[str, tuple[str, ...]] = {}
    for stranger in found.strangers:
        if stranger.topic in moves.topics:
            who = f"{stranger.user}+{stranger.instance}" if stranger.instance else stranger.user
            strangers[stranger.topic] = (*strangers.get(stranger.topic, ()), who)
    crossings = {
        name: operation
        for name in found.moves.topics
        if (operation := crossing_out(request, view.topics.get(name))) is not None
    }
    return Proposal(
        request=request,
        revision=view.revision,
        moves=moves,
        strangers=strangers,
        crossings=crossings,
        verdicts=tuple(verdicts),
        preview=preview(environment, view, request, moves, facts) if read else None,
    )


def judged_facts(environment: Environment, view: View, moves: MoveSet, request: MoveRequest) -> Facts:
    """Facts of the moved topics and groups in every cluster, and of what else the groups have committed."""
    timeout_s = FORCED_S if request.mode == "forced" else PATIENCE_S
    facts = gather(environment, view, view.clusters, moves, timeout_s)
    if request.mode == "forced":
        facts = with_last_known(environment, request.origin, moves, facts)
    outside = outside_topics(moves, facts)
    if not outside:
        return facts
    more = gather(environment, view, view.clusters, MoveSet(topics=outside), timeout_s)
    return replace(facts, topics={**facts.topics, **more.topics})
