"""The plan of a migration: patterns resolved, cuts suggested, everything judged, in batches.

A batch is one operation: it can be looked at, ended and rolled back by itself, and a run can stop between two of them.
Batches are bounded so that each of their revisions fits into one write of ZooKeeper.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, Field

from ha_core.model import MigrateOperation, MoveOperation, MoveRequest, MoveSet, SwitchOperation, Topic, View
from ha_core.model.evidence import CrossingEvidence, MoveEvidence, PlannedCuts
from ha_core.model.move_request import CutMode, GroupsChoice
from ha_core.model.portions import portions
from ha_core.operations.clusters.collect_facts import PATIENCE_S, gather
from ha_core.operations.engine.creating import Startable
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.report import BaseProposal, require_no_errors
from ha_core.operations.engine.revisions import MAX_REVISION_BYTES, bounded, nested_by_topic
from ha_core.operations.migration.crossing.cuts import from_summary, looked_at
from ha_core.operations.move.dependents import MAX_GROUPS, DependentGroup, Dependents, find_dependents
from ha_core.operations.proposal.proposal import Proposal, created, expected_fence, with_known_names, with_trials
from ha_core.operations.proposal.requests import make_request, migrating_topics
from ha_core.plan.facts.clusters import Partition, TopicFacts
from ha_core.plan.facts.judged import judgement
from ha_core.plan.facts.verdict import Verdict, amount, by_level, error, refused
from ha_core.plan.migration.cuts import Rates, cut_ahead, doubled_records, reached_words
from ha_core.plan.move.carry_over import MAX_TOPIC_SEQUENCES
from ha_core.plan.move.closure import closure
from ha_core.plan.move.partitions import of_all
from ha_core.plan.preflight import CUT_RULES, PreflightCase, judge, preflight
from ha_core.plan.preflight.cuts import Cuts
from ha_core.plan.preflight.sizes import SEQUENCE_BYTES


class Moving(NamedTuple):
    """A topic that moves, as the origin has it."""

    ahead: bool
    """Its cuts are to be ahead; else it takes the barrier."""
    ends: dict[int, int]
    """Partition that moves → log end in the origin."""
    partitions: int
    """Number of all its partitions."""
    producers: int
    """Number of producers that its leaders remember, counted in each partition."""


@dataclass
class JudgedTopics:
    """Verdicts, and the kind of cut of each topic, collected batch by batch: facts of all at once would be too many."""

    environment: Environment
    view: View
    request: MoveRequest
    verdicts: list[Verdict] = field(default_factory=list)
    topics: dict[str, Moving] = field(default_factory=dict)
    creates: dict[str, int] = field(default_factory=dict)
    """Topics that are missing in the target → partitions that they get."""

    def __post_init__(self) -> None:
        self._locks = self.environment.store.locks()
        self._gateways = self.environment.store.gateways()

    @property
    def refused(self) -> bool:
        return refused(self.verdicts)

    @property
    def sorted_verdicts(self) -> tuple[Verdict, ...]:
        return tuple(by_level(dict.fromkeys(self.verdicts)))

    def judge(self, names: Collection[str]) -> None:
        request, view = scoped(self.request, topics=tuple(names)), self.view
        found, sides = closure(view, {}, request), (request.origin, request.target)
        facts = gather(self.environment, view, sides, found.moves)
        case = PreflightCase(view, request, found, facts, self._locks, self._gateways)
        case = with_trials(self.environment, with_known_names(self.environment, case), PATIENCE_S)
        self.verdicts += preflight(case)
        self.creates |= created(request.target, case.moves.topics, facts)
        ahead = set(case.ahead)
        for name in case.moves.topics:
            here = case.here(name) or TopicFacts(exists=False)
            moving = of_all(request, view.topics, [(name, partition) for partition in here.ends])
            ends = {partition: here.ends[partition] for _, partition in moving}
            self.topics[name] = Moving(name in ahead, ends, len(here.ends), here.producers)


def scoped(request: MoveRequest, **scope: Any) -> MoveRequest:
    """The request with other fields of its scope."""
    return request.model_copy(update={"scope": request.scope.model_copy(update=scope)})


TOPICS_PER_BATCH = 200
_BYTES_PER_PARTITION = 200
"""Size of a partition with two extents in the JSON of a map."""


class PartitionPlan(BaseModel):
    """Client offsets; `cut` as it would be chosen now."""

    model_config = ConfigDict(frozen=True)

    topic: str
    partition: int
    end: int
    rate_per_s: float
    """Upper bound of the log's rate, from which the cut was chosen."""
    expected_per_s: float = 0.0
    rate_from: str = ""
    """Source of the rates."""
    cut: int

    @property
    def reached(self) -> str:
        """When the log reaches the cut, for people."""
        return reached_words(self.cut - self.end, self.expected_per_s)


class MigrationBatch(PlannedCuts, Startable):
    """The topics of one operation. With a barrier it is a switch."""

    number: int

    @property
    def fenced(self) -> bool:
        return self.request.cut == "barrier"

    @property
    def operation_class(self) -> type[MoveOperation]:
        return SwitchOperation if self.fenced else MigrateOperation

    @property
    def evidence(self) -> MoveEvidence:
        if self.fenced:
            return super().evidence
        return CrossingEvidence(**self.model_dump(include=set(PlannedCuts.model_fields)), batch=self.number)

    @property
    def waits_for(self) -> Collection[str]:
        return [f"user:{user}" for user in self.request.scope.named_users]

    @property
    def history_detail(self) -> dict[str, Any]:
        return {} if self.fenced else {"topics": len(self.moves.topics)}

    def judged_again(self, environment: Environment) -> Startable:
        if self.fenced:
            return Proposal(request=self.request, revision=0, moves=self.moves).judged_again(environment)
        judged = JudgedTopics(environment, environment.store.load(), self.request)
        judged.judge(self.moves.topics)
        verdicts = judged.sorted_verdicts
        require_no_errors(verdicts)
        return self.model_copy(update={"judged": judgement(environment.now(), judged.view.revision, verdicts)})


class MigrationProposal(BaseProposal):
    """A migration on the state at `revision`. JSON-able: it is passed between tasks and shown to people."""

    origin: str
    target: str
    cut: CutMode
    reason: str
    preparation_s: float
    rates_from: str = ""
    batches: tuple[MigrationBatch, ...] = ()
    partitions: tuple[PartitionPlan, ...] = ()
    """The partitions of topics that take a predicted cut."""
    doubled: dict[str, float | None] = Field(default_factory=dict)
    """topic → records that will be written to both clusters, by these rates; None if a partition is idle."""
    left_out: dict[str, str] = Field(default_factory=dict)
    """topic → why a pattern that matches it leaves it out."""
    groups: GroupsChoice = "leave"
    dependents: tuple[DependentGroup, ...] = ()
    """Groups that come along."""
    creates: dict[str, int] = Field(default_factory=dict)
    """Topics that are missing in the target → partitions that they get."""
    expected_fence: str = ""

    @property
    def topics(self) -> tuple[str, ...]:
        return tuple(name for batch in self.batches for name in batch.moves.topics)

    @property
    def title(self) -> str:
        return (
            f"{amount(len(self.topics), 'topic')}: {self.origin} → {self.target}, cut {self.cut}, "
            f"{len(self.batches)} batch{'' if len(self.batches) == 1 else 'es'}, "
            f"on revision {self.revision}"
        )

    @property
    def cost(self) -> str:
        """The number of records that will be written to both clusters, in words."""
        known = [records for records in self.doubled.values() if records is not None]
        unknown = len(self.doubled) - len(known)
        text = f"about {amount(round(sum(known)), 'record')}"
        return text + (f", and an unknown number of {amount(unknown, 'topic')} with idle partitions" if unknown else "")


def plan_migration(
    environment: Environment,
    topics: Iterable[str],
    origin: str,
    target: str,
    *,
    cut_at: Mapping[Partition, int] | None = None,
    rates: Path | None = None,
    topics_per_batch: int = TOPICS_PER_BATCH,
    **options: Any,
) -> MigrationProposal:
    """The plan of a migration on the current state.

    :param topics: of the origin, single partitions of them (`orders:0,4-7`), or patterns with `*`, `?`, `[…]`.
    :param cut_at: client offsets to cut at, in place of those from the rates.
    :param rates: summary of recorded history; without it the log ends are read twice.
    :param options: further fields of the request; `groups`: `move` takes the groups along that read the topics.
    :raises RefusedError: an illegal argument.
    """
    given = dict(cut_at or {})
    view = environment.store.load()
    names, left_out, whole = whole_request(environment, view, topics, origin, target, **options)
    asked = whole.model_dump(include={"origin", "target", "cut", "reason", "preparation_s", "groups"})
    propose = partial(MigrationProposal, revision=view.revision, left_out=left_out, **asked)
    if not names:
        text = f"Nothing is to move: no topic of {origin} is named by {', '.join(topics) or 'nothing'}."
        return propose(verdicts=(error("unknown-topic", "topics", text, "Correct the names or patterns."),))
    judged = JudgedTopics(environment, view, whole)
    for some in portions(whole.scope.topics, max(1, topics_per_batch), lambda _: 1):
        judged.judge(some)
    if judged.refused:
        return propose(verdicts=judged.sorted_verdicts)
    ends = {(name, p): end for name, moving in judged.topics.items() if moving.ahead for p, end in moving.ends.items()}
    cuts = Cuts(view, whole, ends, _rates(environment, view, whole, ends, rates), given)
    judged.verdicts += judge(CUT_RULES, cuts)
    rows = tuple(_rows(cuts))
    dependents = Dependents()
    if whole.groups == "move":
        dependents = find_dependents(environment, view, whole, judged.topics)
        judged.verdicts += dependents.verdicts
    verdicts, fence = judged.sorted_verdicts, expected_fence(environment)
    checked = judgement(
        environment.now(),
        view.revision,
        verdicts,
        creates=judged.creates,
        records_per_s=round(sum(row.rate_per_s for row in rows), 1) if rows else None,
        rate_from=cuts.rates.words if rows else "",
        expected_fence=fence,
    )
    batches = _with_groups(tuple(_batches(cuts, judged.topics, topics_per_batch)), dependents)
    return propose(
        rates_from=cuts.rates.words if ends else "",
        batches=tuple(batch.model_copy(update={"judged": checked}) for batch in batches),
        dependents=dependents.groups,
        partitions=rows,
        doubled={
            name: doubled_records([(row.cut - row.end, row.rate_per_s) for row in some])
            for name, some in groupby(rows, key=attrgetter("topic"))
        },
        creates=judged.creates,
        expected_fence=fence,
        verdicts=verdicts,
    )


def whole_request(
    environment: Environment, view: View, patterns: Iterable[str], origin: str, target: str, **options: Any
) -> tuple[list[str], dict[str, str], MoveRequest]:
    """The request for all batches, its names, and topic → why a pattern leaves it out."""
    names, left_out = migrating_topics(environment, view, tuple(patterns), origin)
    entries = [f"topic:{name}" for name in names] or ["topic:-"]
    return names, left_out, make_request(entries, origin, target, include_other_users=True, **options)


def _rates(
    environment: Environment, view: View, request: MoveRequest, keys: Collection[Partition], summary: Path | None
) -> Rates:
    """Recorded rates; for partitions without any, those of two looks."""
    recorded = from_summary(summary, request.origin) if summary is not None else Rates({}, "")
    left = [key for key in keys if key not in recorded.by_partition]
    if summary is not None and not left:
        return recorded
    looked = looked_at(environment, environment.admin(view.clusters[request.origin]), left)
    if summary is None:
        return looked
    if len(left) == len(keys):
        return replace(looked, words=f"{looked.words} (nothing is recorded about them)")
    return Rates(
        {**looked.by_partition, **recorded.by_partition},
        f"{recorded.words}; for {amount(len(left), 'partition')} without it, {looked.words}",
    )


def _rows(cuts: Cuts) -> Iterator[PartitionPlan]:
    for key in sorted(cuts.ends):
        end, rate = cuts.end(key), cuts.rates.of(key)
        yield PartitionPlan(
            topic=key[0],
            partition=key[1],
            end=end,
            rate_per_s=round(rate.highest, 3),
            expected_per_s=round(rate.expected, 3),
            rate_from=rate.source,
            cut=cuts.given.get(key, cut_ahead(end, rate.highest, cuts.request.preparation_s)),
        )


def _batches(cuts: Cuts, topics: Mapping[str, Moving], max_partitions: int) -> Iterator[MigrationBatch]:
    request, rates = cuts.request, cuts.rates
    runs: list[tuple[CutMode, list[str]]] = []
    for mode, ahead in (("predicted", True), ("barrier", False)):
        sizes = {
            name: _bytes(cuts.view.topics.get(name), moving) for name, moving in topics.items() if moving.ahead == ahead
        }
        portions_of_mode = portions(sizes, MAX_REVISION_BYTES, sizes.__getitem__, max(1, max_partitions))
        runs += [(mode, some) for some in portions_of_mode]  # type: ignore[misc]  # both literals
    for number, (mode, names) in enumerate(runs, start=1):
        keys = [(name, p) for name in names for p in topics[name].ends]
        some = {name: found for name, found in request.scope.partitions.items() if name in names}
        known = {key: rates.of(key) for key in keys}
        expected = {key: round(rate.expected, 3) for key, rate in known.items() if rate.expected}
        yield MigrationBatch(
            number=number,
            request=scoped(request, topics=tuple(names), partitions=some).model_copy(update={"cut": mode}),
            moves=MoveSet(topics=tuple(names), reasons={f"topic:{name}": "named in the scope" for name in names}),
            rates=nested_by_topic({key: round(rate.highest, 3) for key, rate in known.items() if rate.highest}),
            expected=bounded("expected", expected).get("expected", {}),
            rates_from=rates.words if mode == "predicted" else "",
            cut_at=nested_by_topic({key: cuts.given[key] for key in keys if key in cuts.given}),
        )


def _with_groups(batches: tuple[MigrationBatch, ...], dependents: Dependents) -> tuple[MigrationBatch, ...]:
    """A single batch with a barrier takes the groups in its own revision, if they are not too many. Otherwise they read
    topics of several batches, or of a slow one: they follow at the end of each operation (`dependents`)."""
    at_once = len(batches) == 1 and batches[0].request.cut == "barrier" and len(dependents.groups) <= MAX_GROUPS
    if not at_once or not dependents.groups:
        return batches
    batch = batches[0]
    moves = MoveSet(
        topics=batch.moves.topics,
        groups=tuple(group.group for group in dependents.groups),
        reasons={**batch.moves.reasons, **{f"group:{group.group}": group.reason for group in dependents.groups}},
    )
    request = scoped(batch.request, user_groups=dependents.scope)
    return (batch.model_copy(update={"request": request, "moves": moves}),)


def _bytes(topic: Topic | None, moving: Moving) -> int:
    """Estimated size of the map as JSON, and of last sequences as stored. The stored map is a fraction of that; but
    rates and cuts come on top, and a barrier holds up its whole batch: 3,500 partitions are enough. With cuts ahead
    each topic may be settled by itself; under a fence the whole batch is one revision."""
    sequences = 0 if moving.ahead else SEQUENCE_BYTES * min(moving.producers, MAX_TOPIC_SEQUENCES)
    return _BYTES_PER_PARTITION * moving.partitions + (len(topic.to_bytes()) if topic is not None else 0) + sequences
