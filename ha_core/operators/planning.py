"""Before anything is changed: the proposal of a switch, and a human's word on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator, HITLOperator
from airflow.sdk.exceptions import AirflowSkipException

from ha_core.operators.base import Context, SwitchyardOperator
from ha_core.operators.naming import base_id, current_id
from ha_core.operators.people import responder, triggered_by

if TYPE_CHECKING:
    from ha_core.model import MoveRequest
    from ha_core.operations.context import Environment


SOMEBODY_ELSE = "somebody else"
"""Choice of a form: who has triggered the run may reject it, and not approve it."""


class PlanSwitchOperator(SwitchyardOperator):
    """Gather, judge, and say what would move. Returns the proposal as JSON; `table` has it for people.

    Fails where a verdict is an error; skips where nothing is to be done. An interrupted switch of the same scope is
    settled first, unless this is a dry run. Cleared while the run's own operation is under way, it says only that.

    The request is the form of the DAG run, its params: rendered by a template they would lose their types.
    """

    def work(self, context: Context) -> dict[str, Any]:
        from ha_core.operations import run
        from ha_core.operations.switch.prepare import Proposal, plan
        from ha_core.operators.words import nothing_to_do, preview_of, proposal_lines, proposal_table, would_words

        dag_run = context["dag_run"]
        base = base_id(dag_run.dag_id, dag_run.run_id, dag_run.run_after)
        with self.environment(context) as environment:
            own = environment.operation(current_id(base, environment.operation))
            if own is not None and own.request is not None and own.moves is not None:
                self.log.info("operation %s of this run is %s; it goes on", own.id, own.state)
                return Proposal(request=own.request, revision=own.revision, moves=own.moves).to_json()
            form = context["params"]
            request = self.request(environment, form)
            settled = None if form["dry_run"] else run.settle_interrupted(environment, request)
            proposal = plan(environment, request, read=True)
        for line in proposal_lines(proposal):
            self.log.info("%s", line)
        document = proposal.to_json()
        instance = context["ti"]
        instance.xcom_push(key="table", value=proposal_table(proposal))
        if nothing_to_do(proposal):
            done = f" Operation {settled.operation}, which had been interrupted, has done it." if settled else ""
            instance.xcom_push(key="return_value", value=document)
            raise AirflowSkipException(f"Everything is where it should be; nothing was changed.{done}")
        if proposal.refused:
            instance.xcom_push(key="return_value", value=document)
            proposal.require_sound()
        self.would(context, would_words(proposal), **preview_of(proposal))
        return document

    def request(self, environment: Environment, form: Mapping[str, Any]) -> MoveRequest:
        """What the form asks for."""
        from ha_core.operators.request import request_of

        return request_of(form)


class PlanFaultMigrationOperator(PlanSwitchOperator):
    """The same for topics of a dead cluster: names and patterns, groups that are known to have read them."""

    def request(self, environment: Environment, form: Mapping[str, Any]) -> MoveRequest:
        from ha_core.operations.requests import fault_request

        return fault_request(
            environment,
            [str(one) for one in form["topics"] or ()],
            str(form["from"]).strip(),
            str(form["to"]).strip(),
            unread=form["unread"],
            reason=str(form["reason"]).strip(),
            force=form["force"],
            with_groups=form["groups"],
            drain_timeout_s=form["drain_timeout_s"],
        )


class ApproveSwitchOperator(ApprovalOperator):  # type: ignore[misc]  # airflow is not typed here
    """Ask a human, with the proposal before its eyes; without `asked` the task is skipped.

    It stands before the locks are taken: nobody else is held up while somebody thinks. After a no every task that
    does something skips itself (`SwitchyardOperator`).

    :param asked: whether approval is wanted in this run; by whom says the form's `approval`.
    """

    template_fields: Sequence[str] = (*ApprovalOperator.template_fields, "asked")

    def __init__(self, *, asked: Any, **kwargs: Any) -> None:
        super().__init__(response_timeout=timedelta(days=1), defaults=self.REJECT, **kwargs)
        self.asked = asked

    def execute(self, context: Context) -> Any:
        if not truth(self.asked):
            raise AirflowSkipException("Nobody has to approve this run.")
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        who, chosen = responder(event), event.get("chosen_options") or ()
        if (
            self.APPROVE in chosen
            and context["params"].get("approval") == SOMEBODY_ELSE
            and who == triggered_by(context)
        ):
            self.log.warning("%s has triggered this run, so somebody else has to approve it. It is asked again.", who)
            return self.execute(context)  # takes the answer back and waits for another
        # Nothing is skipped from here, as Airflow's own would: a task whose end Airflow loses is asked again, and the
        # tasks behind it would have been skipped, and the run reported, by an answer that does not count any more.
        answer = HITLOperator.execute_complete(self, context, event)
        self.log.info("%s by %s", ", ".join(chosen), who or "nobody: the time is over")
        return answer


def truth(rendered: Any) -> bool:
    """A boolean param as a template renders it."""
    return rendered is True or str(rendered) == "True"
