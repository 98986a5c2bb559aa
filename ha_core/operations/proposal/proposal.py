"""The effect and the cost of a move: facts are collected, judged and shown before anything is changed."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.facts import TopicSpec
from ha_core.model import KnownTopic, MoveOperation, MoveRequest, MoveSet, SwitchOperation, View
from ha_core.model.move_request import UnreadPolicy
from ha_core.model.topic import client_end
from ha_core.operations.clusters.collect_facts import FORCED_S, PATIENCE_S, gather_all
from ha_core.operations.clusters.mirrors import findings, reported_lags
from ha_core.operations.copies.copy_notes import committed_tails, noted_copies
from ha_core.operations.engine.cluster_admins import admin_of
from ha_core.operations.engine.creating import StartableProposal
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError, unchanged
from ha_core.operations.proposal.recorded_ends import RecordedEnds
from ha_core.operations.proposal.usage import known_usage
from ha_core.plan.facts.clusters import Facts
from ha_core.plan.facts.judged import judgement
from ha_core.plan.facts.settings import OF_A_COPY, STAMPS, settings_of, to_create
from ha_core.plan.move.closure import closure
from ha_core.plan.preflight import REVISION_RULES, PreflightCase, preflight


class Proposal(StartableProposal):
    """A move on the state at `revision`. JSON-able: it is passed between tasks and shown to people."""

    other_users: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Topic → its users outside of the scope, as `user` or `user+instance`."""
    preview: Preview | None = None
    """Its cost, if the proposal is to be read by people."""
    crossings: dict[str, str] = Field(default_factory=dict)
    """Forced moves only: topic with a crossing out of the dead cluster → the operation to end without it first."""

    @property
    def operation_class(self) -> type[MoveOperation]:
        return SwitchOperation

    @property
    def title(self) -> str:
        request = self.request
        scope = " ".join(request.scope.entries)
        return f"{scope}: {request.origin} → {request.target}, {request.mode}, on revision {self.revision}"

    @property
    def lock_keys(self) -> Sequence[str]:
        return [*super().lock_keys, *(f"topic:{name}" for name in self.crossings)]

    @property
    def ends_first(self) -> tuple[Collection[str], UnreadPolicy, bool]:
        """Crossings out of a cluster that a forced move takes for dead."""
        return sorted(set(self.crossings.values())), self.request.unread or "wait", self.request.force

    @property
    def history_detail(self) -> dict[str, Any]:
        return {"ended_without_origin": dict(self.crossings)} if self.crossings else {}

    def judged_again(self, environment: Environment) -> Proposal:
        """:raises RefusedError: a verdict is an error, or the set of topics and groups has changed."""
        again = plan(environment, self.request)
        again.require_sound()
        if changed := sorted(again.moves.reasons.keys() ^ self.moves.reasons.keys()):
            raise unchanged(f"The move differs from the proposal now: {', '.join(changed)}. Look at a new proposal.")
        return again


def plan(environment: Environment, request: MoveRequest, read: bool = False) -> Proposal:
    """The effect of `request` on the current state. Changes nothing.

    :param read: people are going to read it: adds a preview of the cost.
    """
    store = environment.store
    view = store.load()
    usage, dormant = known_usage(environment)
    found = closure(view, usage, request)
    # Only for its error: the cut reads these documents under the fence, where a failure makes clients wait.
    store.deleted_records(found.moves.topics)
    dead = request.origin if request.mode == "forced" else None
    patience_s = FORCED_S if dead else PATIENCE_S
    recorded = RecordedEnds.read(environment, request.origin, found.moves.topics if read else ())
    facts = gather_all(environment, view, view.clusters, found.moves, patience_s, dead=dead)
    recorded = recorded.looked(environment)
    tails = store.lost_tails(found.moves.topics)
    case = PreflightCase(view, request, found, facts, store.locks(), store.gateways(), usage, dormant, tails=tails)
    if case.to_copies:
        case = replace(case, lags=reported_lags(environment, view), findings=findings(store, request))
        case = replace(case, tails=committed_tails(environment, case))
        noted = noted_copies(environment, case, patience_s)
        case = replace(case, copies=noted.copies, noted=noted.reached, later=noted.later, not_begun=noted.not_begun)
    case = with_trials(environment, with_known_names(environment, case), patience_s)
    moves = case.moves
    other_users: dict[str, tuple[str, ...]] = {}
    for other in found.other_users:
        if other.name in moves.topics:
            other_users[other.name] = (*other_users.get(other.name, ()), other.who)
    crossings = {name: operation for name in found.moves.topics if (operation := case.crossing_out(name)) is not None}
    verdicts = tuple(preflight(case, *REVISION_RULES))
    cost = preview(environment, view, request, moves, facts, recorded) if read else None
    figures = {} if cost is None else {name: getattr(cost, name) for name in Preview.model_fields}
    return Proposal(
        request=request,
        revision=view.revision,
        moves=moves,
        other_users=other_users,
        crossings=crossings,
        verdicts=verdicts,
        preview=cost,
        judged=judgement(environment.now(), view.revision, verdicts, **figures),
    )


MOVES_LOOKED_AT, OPERATIONS_LOOKED_AT, ENTRIES_LOOKED_AT = 5, 50, 20
"""Limits of the search in the history for the expected fence."""


class Preview(BaseModel):
    """Facts about the cost of a move; they decide nothing."""

    model_config = ConfigDict(frozen=True)

    creates: dict[str, int] = {}
    """Topics that are missing in the target → partitions that they get."""
    lag_records: dict[str, int | None] = {}
    """Group → records below the ends of the topics that it reads; None: its cluster does not answer."""
    records_per_s: float | None = None
    """All moved topics together; None: they were not recorded before."""
    rate_from: str = ""
    expected_fence: str = ""
    """How long clients will wait, with the source of that number."""


def preview(
    environment: Environment, view: View, request: MoveRequest, moves: MoveSet, facts: Facts, recorded: RecordedEnds
) -> Preview:
    """The cost of the move on the current state. Changes nothing."""
    rate, rate_from = recorded.rate(moves.topics, facts) if moves.topics else (None, "no topic moves")
    return Preview(
        creates=created(request.target, moves.topics, facts),
        lag_records={group: _lag(view, request.origin, group, facts) for group in moves.groups},
        records_per_s=rate,
        rate_from=rate_from,
        expected_fence=expected_fence(environment),
    )


def created(target: str, topics: Iterable[str], facts: Facts) -> dict[str, int]:
    """Topics that the target lacks by its own answer → their partitions elsewhere."""
    return {
        name: max((one.partitions for (_, topic), one in facts.topics.items() if topic == name), default=0)
        for name in topics
        if (there := facts.topic(target, name)) is not None and not there.exists
    }


def expected_fence(environment: Environment) -> str:
    """Fence times of the last moves."""
    store, found = environment.store, []
    for operation in store.operations(OPERATIONS_LOOKED_AT):
        if operation.FENCES and operation.state == "succeeded":
            entries = store.history(operation.id, ENTRIES_LOOKED_AT)
            found += [entry.detail["fenced_ms"] for entry in entries if entry.detail.get("fenced_ms") is not None]
        if len(found) >= MOVES_LOOKED_AT:
            break
    if not found:
        return "some tens of milliseconds; no move was made here yet"
    if len(found) == 1:
        return f"about {found[0]:.0f} ms, from the one move before"
    return f"about {median(found):.0f} ms: the last {len(found)} moves took {min(found):.0f} to {max(found):.0f} ms"


def _lag(view: View, origin: str, group: str, facts: Facts) -> int | None:
    group_facts = facts.group(origin, group)
    if group_facts is None:
        return None
    return sum(
        max(0, client_end(view.topics.get(name), partition, topic.ends[partition]) - committed)
        for (name, partition), committed in group_facts.offsets.items()
        if (topic := facts.topic(origin, name)) is not None and partition in topic.ends
    )


def as_made(spec: TopicSpec, defaults: Mapping[str, str], brokers: int, request: MoveRequest) -> TopicSpec:
    """The spec that the target is asked to create.

    :param spec: the topic, as the origin has it.
    :param defaults: settings of the target's brokers for topics without their own; empty: unknown.
    """
    replication = max(1, min(spec.replication, brokers))
    there = to_create(settings_of(spec.config, spec.defaults), defaults, replication, request.settings_left_alone)
    config = {key: value for key, value in there.changes.items() if value is not None}
    if request.COPIES:
        # From the first record on: a broker that has not seen a later change of the setting would stamp records anew.
        config[STAMPS] = OF_A_COPY[STAMPS]
    return replace(spec, config=config)


def with_known_names(environment: Environment, case: PreflightCase) -> PreflightCase:
    """The case with the names of the clusters' topics, if the request names one that does not exist."""
    if all(case.source(name) is not None for name in case.request.scope.topics):
        return case
    store = environment.store
    return replace(case, known={topic for name in case.view.clusters for topic in store.known_names(KnownTopic, name)})


def with_trials(environment: Environment, case: PreflightCase, timeout_s: float) -> PreflightCase:
    """The case with the target's answers about the topics that are to be created there (`validate_only`)."""
    request, target = case.request, case.facts.clusters.get(case.request.target)
    if target is None or not target.reachable:
        return case
    specs = [
        as_made(spec, target.topic_defaults, len(target.brokers), request) for spec in _missing(case, case.moves.topics)
    ]
    try:
        trials = admin_of(environment, request.target).try_topics(specs, timeout_s) if specs else {}
    except (KafkaAdminError, RefusedError) as error:
        environment.say(f"{request.target} does not answer whether it would create these topics: {error}")
        return case
    return replace(case, trials=trials)


def _missing(case: PreflightCase, topics: Collection[str]) -> list[TopicSpec]:
    """Topics as the origin has them, if the target answers that it lacks them."""
    found = []
    for name in topics:
        here, there = case.here(name), case.facts.topic(case.request.target, name)
        if here is not None and there is not None and not there.exists:
            counts = max(here.partitions, 1), max(here.replication, 1)
            found.append(TopicSpec(name, *counts, here.config, defaults=here.defaults))
    return found
