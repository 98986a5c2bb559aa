"""Which topics a migration means, what speaks against it, and which of them need a fence after all."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property

from ha_core.model import MoveRequest, View
from ha_core.operations.environment import Environment
from ha_core.operations.gather import gather
from ha_core.operations.switch.proposal import created
from ha_core.plan.closure import closure
from ha_core.plan.facts import Facts
from ha_core.plan.moving import of_all
from ha_core.plan.preflight import Case, preflight
from ha_core.plan.preflight.cuts import barriers, crossing_verdicts
from ha_core.plan.verdict import Verdict, by_level, refused, warning


@dataclass
class Judged:
    """Verdicts, and which topics take which cut, gathered batch by batch: facts of all at once would be too many."""

    environment: Environment
    view: View
    request: MoveRequest
    verdicts: list[Verdict] = field(default_factory=list)
    ahead: list[str] = field(default_factory=list)
    barrier: list[str] = field(default_factory=list)
    ends: dict[str, dict[int, int]] = field(default_factory=dict)
    """topic → partition that moves → log end in the origin."""
    counts: dict[str, int] = field(default_factory=dict)
    """topic → all its partitions."""
    creates: dict[str, int] = field(default_factory=dict)
    """Topics that are missing in the target → partitions that they get."""
    producers: dict[str, int] = field(default_factory=dict)
    """topic → producers that its leaders remember, counted in each partition."""

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
        request = self.request.model_copy(
            update={"scope": self.request.scope.model_copy(update={"topics": tuple(names)})}
        )
        found = closure(self.view, {}, request)
        facts = gather(self.environment, self.view, (request.origin, request.target), found.moves)
        case = Case(self.view, request, found, facts, self._locks, self._gateways)
        verdicts, moving = preflight(case), case.moves.topics
        if request.cut == "predicted" and not _unreachable(facts, request):
            needs = barriers(moving, request, facts)
            # What pre-flight says of transactions is said better where the topic takes the barrier because of them.
            verdicts = [v for v in verdicts if v.code != "transactional" or v.about not in map(_about, needs)]
            verdicts += [
                warning("takes-barrier", _about(name), f"Topic {name} takes the barrier: {why}.", "Nothing.")
                for name, why in needs.items()
            ]
            ahead = [name for name in moving if name not in needs]
            verdicts += crossing_verdicts(self.view, request, ahead, facts, self._min_in_sync, self._gateways)
            self.ahead += ahead
            self.barrier += needs
        else:
            self.barrier += moving
        self.verdicts += verdicts
        self.creates |= created(request.target, moving, facts)
        for name in moving:
            here = facts.topic(request.origin, name)
            ends = dict(here.ends) if here is not None else {}
            self.counts[name] = len(ends)
            self.producers[name] = here.producers if here is not None else 0
            keys = of_all(request, self.view.topics, [(name, partition) for partition in ends])
            self.ends[name] = {partition: ends[partition] for _, partition in keys}

    @cached_property
    def _min_in_sync(self) -> dict[str, int]:
        sides = (self.request.origin, self.request.target)
        return {name: self.environment.admin(self.view.clusters[name]).min_in_sync() for name in sides}


def _unreachable(facts: Facts, request: MoveRequest) -> bool:
    known = (facts.clusters.get(name) for name in (request.origin, request.target))
    return any(cluster is None or not cluster.reachable for cluster in known)


def _about(topic: str) -> str:
    return f"topic {topic}"
