"""Drills as tasks: the proposal, and the drill there and home."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ha_core.hooks.airflow_names import AirflowFailException
from ha_core.operators.base import MAX_LISTED, SwitchyardOperator
from ha_core.operators.dag_run import approval_of, responder
from ha_core.operators.forms import FormField, LinesField, Text

if TYPE_CHECKING:
    from ha_core.operations.drill.rehearsal import DrillOrder


class PlanDrillOperator(SwitchyardOperator):
    """Log what the drill's first switch would move, and every objection. Changes nothing.

    :param scope: as of a switch.
    :param origin: the cluster that serves it.
    :param target: the cluster that serves it during the drill.
    :param kind: `planned` or `forced`.
    :param canary: file of librdkafka settings on the worker; "": no canary.
    :param canary_topic: the topic that the canary writes and reads.
    :param hold_s: seconds in the target.
    :param budget_ms: longest time without the service.
    :param rto_target_ms: target of each service; None: none.
    :param lost_target: likewise, in records.
    :param schedule: the schedule that the drill fulfils; "": none.
    """

    scope: Any = LinesField()
    origin: Any = Text(name="from")
    target: Any = Text(name="to")
    reason: Any = Text()
    kind: Any = FormField("planned")
    canary: Any = Text("")
    canary_topic: Any = Text("switchyard-canary")
    hold_s: Any = FormField(10)
    budget_ms: Any = FormField(10_000)
    rto_target_ms: Any = FormField(None)
    lost_target: Any = FormField(None)
    schedule: Any = Text("")

    def work(self) -> dict[str, Any]:
        from ha_core.operations.drill.rehearsal import propose
        from ha_core.present.moves import move_preview, proposal_page, would_move

        proposal = propose(self.environment, self._order())
        self.propose(proposal_page(proposal))
        proposal.require_sound()
        self.would(f"{would_move(proposal)}, and home again", **move_preview(proposal))
        return proposal.to_json()

    def _order(self) -> DrillOrder:
        from ha_core.operations.drill.rehearsal import DrillOrder

        return DrillOrder(
            kind=self.kind,
            scope=tuple(self.scope),
            origin=self.origin,
            target=self.target,
            reason=self.reason,
            hold_s=float(self.hold_s),
            budget_ms=int(self.budget_ms),
            rto_target_ms=self.rto_target_ms,
            lost_target=self.lost_target,
            schedule=self.schedule,
            approved_by=responder(approval_of(self.context)),
        )


class DrillOperator(PlanDrillOperator):
    """Switch the scope there and home, and store the report. Fails unless the drill passed.

    A repetition of a task that was killed brings the scope home first.
    """

    preview_in: ClassVar[str] = "the moves are in the result of the task `plan`"

    def work(self) -> dict[str, Any]:
        from ha_core.operations.drill.canary import Canary, settings_of
        from ha_core.operations.drill.rehearsal import Rehearsal, begun, go_home, propose
        from ha_core.present.drills import drill_page

        environment, order = self.environment, self._order()
        for left in environment.store.drills():
            if (left.away or left.result == "running") and left.by == environment.by:
                go_home(environment, left.id, "its task was repeated")
        proposal = propose(environment, order)
        drill = begun(environment, order, proposal)
        settings = settings_of(Path(self.canary)) if self.canary else None
        client = None if settings is None else Canary(settings, self.canary_topic, drill.id)
        done = Rehearsal(environment, order, drill, client).run()
        self.say(drill_page(done), MAX_LISTED)
        if done.result != "passed":
            raise AirflowFailException(f"Drill {done.id} {done.result}: {done.text}. `switchyard drill show {done.id}`")
        self.done(f"drill {done.id} passed; `switchyard drill show {done.id}` has its report")
        return done.model_dump(mode="json")
