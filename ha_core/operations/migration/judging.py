"""The topics of a migration, the verdicts against it, and the topics that need a fence after all."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ha_core.model import MoveRequest, View
from ha_core.operations.clusters.collect_facts import PATIENCE_S, gather
from ha_core.operations.engine.environment import Environment
from ha_core.operations.proposal.made_topics import with_trials
from ha_core.operations.proposal.proposal import created
from ha_core.plan.facts.clusters import TopicFacts
from ha_core.plan.facts.verdict import Verdict, by_level, refused
from ha_core.plan.move.closure import closure
from ha_core.plan.move.partitions import of_all
from ha_core.plan.preflight import PreflightCase, preflight


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
        case = with_trials(self.environment, case, PATIENCE_S)
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
