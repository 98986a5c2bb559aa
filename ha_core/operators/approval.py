"""The human's word on a proposal, asked for before anything is changed."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator, HITLOperator
from airflow.sdk.exceptions import AirflowSkipException

from ha_core.operators.base import Context, truth
from ha_core.operators.dag_run import responder, triggered_by

if TYPE_CHECKING:
    pass

SOMEBODY_ELSE = "somebody else"
"""Choice of a form: who has triggered the run may reject it, and not approve it."""


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
