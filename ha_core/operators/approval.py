"""The human's word on a proposal, asked for before anything is changed."""

from __future__ import annotations

from datetime import timedelta
from inspect import getdoc
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator, HITLOperator
from airflow.sdk.exceptions import AirflowSkipException

from ha_core.operators.base import Context
from ha_core.operators.dag_run import PLAN, responder, triggered_by
from ha_core.operators.forms import Flag, FormField, OfForm

NOBODY, SOMEBODY_ELSE = "nobody", "somebody else"
"""Choices of a form. Somebody else: who has triggered the run may reject it, and not approve it."""


class ApproveOperator(OfForm, ApprovalOperator):  # type: ignore[misc]  # airflow is not typed here
    """Ask a human to approve the run, showing them the proposal. Skipped in a dry run, or where nobody has to.

    It stands before the locks are taken: nobody is held up while somebody thinks. After a no every task that does
    something skips itself (`SwitchyardOperator`).

    :param approval: who has to approve: `nobody`, `anybody` or `somebody else`.
    :param proposal_of: the task whose `table` is shown.
    """

    approval: Any = FormField("anybody")
    dry_run: Any = Flag()

    def __init__(self, *, proposal_of: str = PLAN, **kwargs: Any) -> None:
        defaults = {
            "body": f"{{{{ ti.xcom_pull(task_ids={proposal_of!r}, key='table') }}}}",
            "doc_md": getdoc(type(self)),
            "response_timeout": timedelta(days=1),
            "retries": 1,  # Airflow takes an answer that comes at once for a failure: ask again
        }
        super().__init__(**{**defaults, "defaults": self.REJECT, **kwargs})

    def execute(self, context: Context) -> Any:
        if self.approval == NOBODY or Flag().read(self.dry_run):
            raise AirflowSkipException("Nobody has to approve this run.")
        return super().execute(context)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        who, chosen = responder(event), event.get("chosen_options") or ()
        if self.APPROVE in chosen and self.approval == SOMEBODY_ELSE and who == triggered_by(context):
            self.log.warning(
                "%s triggered this run, so somebody else has to approve it. The question is asked again.", who
            )
            return self.execute(context)  # takes the answer back and waits for another
        # Nothing is skipped from here, as Airflow's own would: a task whose end Airflow loses is asked again, and the
        # tasks after it would have been skipped, and the run reported, by an answer that does not count any more.
        answer = HITLOperator.execute_complete(self, context, event)
        self.log.info("%s by %s", ", ".join(chosen), who or "nobody: there was no answer in time")
        return answer
