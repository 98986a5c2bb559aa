"""A drill from its beginning to its report.

Invariant: a drill that was begun is stored before its first switch, and says after each step whether its scope is away.
So a drill whose process has died is seen, and `go_home` ends it: it switches the scope home by an ordinary planned
switch. A drill never leaves its scope away on purpose: a service that is away for longer than the budget allows goes
home at once.

A planned drill switches there and back. A forced one takes the origin for dead although it answers (`force`): records
that no copy has then are lost for readers, as in a real failover, and are counted by reconciling. So a forced drill
moves the canary's topic and no other one.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

from ha_core.model import Drill, MoveRequest
from ha_core.model.drill import DrillKind, DrillStep, ServiceFigures
from ha_core.operations.absence.reconciling import reconcile
from ha_core.operations.drill.canary import Canary
from ha_core.operations.drill.figures import canary_figures, changes_since, fence_figures
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import StepFailedError, unchanged
from ha_core.operations.engine.report import Report
from ha_core.operations.proposal.proposal import Proposal, plan
from ha_core.operations.proposal.requests import make_request
from ha_core.operations.running import engine
from ha_core.plan.facts.verdict import amount

SETTLE_S = 3.0
"""Time after a switch that still counts as its: clients back off, and retry."""
HOME_EVERY_S = 2.0


@dataclass(frozen=True)
class DrillOrder:
    """
    :ivar budget_ms: longest time without the service; beyond it the scope goes home at once.
    :ivar hold_s: time in the target before it goes home.
    :ivar home_within_s: time for the way home to be free: a mirror that catches up, a crossing that ends.
    """

    kind: DrillKind
    scope: tuple[str, ...]
    origin: str
    target: str
    reason: str
    hold_s: float = 10.0
    budget_ms: int = 10_000
    home_within_s: float = 600.0
    rto_target_ms: int | None = None
    lost_target: int | None = None
    schedule: str = ""
    approved_by: str = ""

    def request(self, way: Literal["there", "home"]) -> MoveRequest:
        """:raises RefusedError: an entry of the scope, or an option, is illegal."""
        reason = f"drill: {self.reason}"
        if way == "home":
            return make_request(self.scope, self.target, self.origin, reason=reason)
        if self.kind == "planned":
            return make_request(self.scope, self.origin, self.target, reason=reason)
        forced = {"mode": "forced", "unread": "skip", "force": True}
        return make_request(self.scope, self.origin, self.target, reason=reason, **forced)


@dataclass
class Rehearsal:
    environment: Environment
    order: DrillOrder
    drill: Drill
    canary: Canary | None = None
    clock: Callable[[], float] = time.monotonic
    _spans_s: list[tuple[float, float]] = field(default_factory=list)
    _fenced_ms: list[int | None] = field(default_factory=list)
    _lost: int | None = None
    _topics: frozenset[str] = frozenset()

    def run(self) -> Drill:
        """The ended drill, which is stored. Failures are in it, not raised; a defect is raised, and the drill stays
        `running`."""
        environment = self.environment
        environment.store.write_drill(self.drill)
        with ExitStack() as ends:
            if self.canary is not None:
                ends.enter_context(self.canary)
            result, text = "passed", ""
            try:
                if self.canary is not None:
                    with self._step("canary ready"):
                        self.canary.await_ready()
                self._switch("there", self._there())
                result, text = self._in_the_target()
                self._go_home()
            except engine.FAILURES as error:
                result, text = "failed", str(error)
            services = self._services()
        misses = [miss for service in services for miss in service.misses]
        if result == "passed" and misses:
            result, text = "missed", "; ".join(misses)
        self._store(result=result, text=text, services=tuple(services), ended=environment.now())
        others = (one for one in environment.store.drills() if one.id != self.drill.id)
        before = next((one for one in others if one.scope == self.drill.scope), None)
        self._store(changes=changes_since(before, self.drill))
        return self.drill

    def _there(self) -> Proposal:
        """Judged after the canary has begun, whose topic and group are in use only then."""
        proposal = plan(self.environment, self.order.request("there"))
        proposal.require_sound()
        if self.order.kind == "forced":
            _require_harmless(self.environment, self.order, proposal, self.canary)
        self._topics = frozenset(proposal.moves.topics)
        self._store(topics=len(proposal.moves.topics), groups=len(proposal.moves.groups))
        return proposal

    def _in_the_target(self) -> tuple[str, str]:
        """The result so far, after the time in the target; at once if the budget is spent."""
        away_ms = self._away_ms()
        if away_ms is not None and away_ms > self.order.budget_ms:
            return "aborted", f"the scope was away for {away_ms} ms, and the budget is {self.order.budget_ms} ms"
        with self._step("hold"):
            self.environment.sleep(self.order.hold_s)
        if self.order.kind == "forced":
            with self._step("reconcile") as step:
                self._lost, step.text = self._reconciled()
        return "passed", ""

    def _away_ms(self) -> int | None:
        if self.canary is None:
            return self._fenced_ms[-1]
        begin, end = self._spans_s[-1]
        return canary_figures(self.canary.log, "", [(begin, end)], (None, None)).rto_ms

    def _reconciled(self) -> tuple[int, str]:
        tails = self.environment.store.lost_tails(cluster=self.order.origin)
        topics = sorted({tail.topic for tail in tails} & self._topics)
        if not topics:
            return 0, "no record was without a copy"
        done = reconcile(self.environment, self.order.origin, topics, reason=f"drill: {self.order.reason}")
        return done.records, f"{amount(done.records, 'record')} had no copy"

    def _go_home(self) -> None:
        until = self.clock() + self.order.home_within_s
        while True:
            proposal = plan(self.environment, self.order.request("home"))
            if not proposal.refused or self.clock() > until:
                break
            self.environment.say("the way home is not free yet: " + _objections(proposal))
            self.environment.sleep(HOME_EVERY_S)
        proposal.require_sound()
        self._switch("home", proposal)

    def _switch(self, way: Literal["there", "home"], proposal: Proposal) -> None:
        """:raises StepFailedError: it did not succeed."""
        begin = self.clock()
        with self._step(way) as step:
            operation = engine.start(self.environment, proposal)
            step.operation = operation.id
            report = engine.resume(self.environment, operation.id)
            step.text = report.words
        if report.result != "succeeded":
            raise StepFailedError(f"The switch {way} ended as {report.words}")
        self._store(away=way == "there")  # before the pause, in which the process may die
        self.environment.sleep(SETTLE_S)
        self._spans_s.append((begin, self.clock()))
        self._fenced_ms.append(_fenced_ms(self.environment, report))

    def _services(self) -> list[ServiceFigures]:
        targets = self.order.rto_target_ms, self.order.lost_target
        found: list[ServiceFigures] = []
        if self.canary is not None:
            found.append(canary_figures(self.canary.finish(), "canary", self._spans_s, targets))
        planned = self.order.kind == "planned" and self._fenced_ms
        return found + fence_figures(self.order.scope, self._fenced_ms, 0 if planned else self._lost, targets)

    @contextmanager
    def _step(self, name: str) -> Iterator["_Running"]:
        running, begin = _Running(), self.clock()
        try:
            yield running
        except engine.FAILURES as error:
            running.text = str(error)
            raise
        finally:
            ms = round(1_000 * (self.clock() - begin))
            step = DrillStep(name=name, ms=ms, operation=running.operation, text=running.text[:500])
            self._store(steps=(*self.drill.steps, step))

    def _store(self, **changed: Any) -> None:
        self.drill = self.drill.model_copy(update=changed)
        self.environment.store.write_drill(self.drill)


@dataclass
class _Running:
    operation: str = ""
    text: str = ""


def propose(environment: Environment, order: DrillOrder) -> Proposal:
    """The switch there, judged. Changes nothing.

    :raises RefusedError: the request is illegal, or a drill of a part of this scope runs or is still away.
    """
    for other in environment.store.drills():
        if (other.away or other.result == "running") and set(other.scope) & set(order.scope):
            raise unchanged(
                f"Drill {other.id} of {' '.join(other.scope)} has not ended. Let it end, or bring its scope home: "
                f"`switchyard drill home {other.id} --reason …`."
            )
    return plan(environment, order.request("there"), read=True)


def begun(environment: Environment, order: DrillOrder, proposal: Proposal) -> Drill:
    """The document of a drill that begins now.

    :raises RefusedError: a verdict is an error.
    """
    proposal.require_sound()
    at = environment.now()
    return Drill(
        id=f"drill-{at[:19].translate(str.maketrans('', '', '-:')).replace('T', '-')}",
        kind=order.kind,
        scope=order.scope,
        origin=order.origin,
        target=order.target,
        by=environment.by,
        approved_by=order.approved_by,
        reason=order.reason,
        schedule=order.schedule,
        started=at,
        topics=len(proposal.moves.topics),
        groups=len(proposal.moves.groups),
        gateways={one.id: one.version for one in environment.store.gateways()},
    )


def _require_harmless(environment: Environment, order: DrillOrder, proposal: Proposal, canary: Canary | None) -> None:
    canary_topic = "" if canary is None else canary.topic
    if others := sorted({*proposal.moves.topics} - {canary_topic}):
        raise unchanged(
            f"A forced drill loses records that no copy has yet, so it moves the canary's topic alone, and this scope "
            f"has others: {', '.join(others[:5])}. Give a user of the canary's own, and its topic, or a planned drill."
        )
    mirrors = environment.store.load().mirrors.values()
    if not any((one.topic, one.target) == (canary_topic, order.target) for one in mirrors):
        raise unchanged(
            f"Topic {canary_topic} has no mirror in {order.target}, so a forced drill would rehearse nothing. Link "
            f"one: `switchyard mirror link {canary_topic} --from {order.origin} --to {order.target} --reason …`."
        )


def go_home(environment: Environment, drill_id: str, reason: str) -> Drill:
    """Switch the scope of a drill home whose process has died or whose way home was not free. Safe to repeat.

    :raises RefusedError: no such drill, or the switch home is refused.
    """
    found = environment.store.read(Drill, drill_id)
    if found is None:
        raise unchanged(f"There is no drill {drill_id}. `switchyard drill list` shows all.")
    drill = found[0]
    order = DrillOrder(drill.kind, drill.scope, drill.origin, drill.target, reason, home_within_s=0.0)
    work = Rehearsal(environment, order, drill)
    proposal = plan(environment, order.request("home"))
    if not proposal.nothing_to_do:
        work._go_home()
    why = drill.text or "its process had died"
    result = "failed" if drill.result == "running" else drill.result
    work._store(result=result, text=why, away=False, ended=drill.ended or environment.now())
    return work.drill


def _fenced_ms(environment: Environment, report: Report) -> int | None:
    details = [entry.detail for entry in environment.store.history(report.operation)]
    return next((round(detail["fenced_ms"]) for detail in details if "fenced_ms" in detail), None)


def _objections(proposal: Proposal) -> str:
    return " ".join(verdict.text for verdict in proposal.verdicts if verdict.level == "error")
