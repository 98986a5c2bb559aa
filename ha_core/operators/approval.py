"""A human approves a proposal before anything is changed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from inspect import getdoc
from typing import TYPE_CHECKING, Any

from airflow.providers.standard.operators.hitl import ApprovalOperator, HITLOperator
from airflow.sdk.exceptions import AirflowSkipException

from ha_core.hooks.zookeeper import SwitchyardHook
from ha_core.model import WaitingApproval
from ha_core.operators.base import Context
from ha_core.operators.dag_run import PLAN, responder, run_by, run_owner, triggered_by
from ha_core.operators.forms import Flag, FormField, OfForm

if TYPE_CHECKING:
    from ha_core.operations.engine.environment import Environment

NOBODY, SOMEBODY_ELSE = "nobody", "somebody else"
"""Choices of a form. With the second, the user who triggered the run may reject it, but not approve it."""
ANSWER_WITHIN = timedelta(days=1)
"""Airflow rejects the run after this time."""
MAX_REASON = 500
"""Characters of a run's reason that `switchyard status` shows."""


class ApproveOperator(OfForm, ApprovalOperator):  # type: ignore[misc]  # airflow is not typed here
    """Ask a human to approve the run, showing them the proposal. Skipped in a dry run, or if no approval is required.

    It comes before the locks are taken, so waiting blocks no other operation. After a rejection every task that changes
    something skips itself (`SwitchyardOperator`).

    While the run waits, `switchyard status` names it: `/waiting_approvals` in ZooKeeper. If ZooKeeper does not answer,
    the run asks for approval anyway.

    :param approval: the required approver, as the form has it.
    :param proposal_of: the task whose `table` is shown.
    :param zookeeper_conn_id: the state.
    """

    approval: Any = FormField("anybody")
    dry_run: Any = Flag()

    def __init__(
        self, *, proposal_of: str = PLAN, zookeeper_conn_id: str = SwitchyardHook.default_conn_name, **kwargs: Any
    ) -> None:
        self.zookeeper_conn_id = zookeeper_conn_id
        defaults = {
            "body": f"{{{{ ti.xcom_pull(task_ids={proposal_of!r}, key='table') }}}}",
            "doc_md": getdoc(type(self)),
            "response_timeout": ANSWER_WITHIN,
            "retries": 1,  # Airflow takes an immediate answer for a failure: ask again
        }
        super().__init__(**{**defaults, "defaults": self.REJECT, **kwargs})

    def execute(self, context: Context) -> Any:
        if self.approval == NOBODY or Flag().read(self.dry_run):
            raise AirflowSkipException("This run needs no approval.")
        waiting = self._waiting(context)
        self._note(context, lambda environment: environment.store.await_approval(waiting))
        return super().execute(context)

    def _waiting(self, context: Context) -> WaitingApproval:
        now = datetime.now(UTC)
        return WaitingApproval(
            run=run_owner(context),
            by=triggered_by(context),
            reason=str(context["params"].get("reason") or "")[:MAX_REASON],
            since=now.isoformat(timespec="seconds"),
            answer_by=(now + self.response_timeout).isoformat(timespec="seconds"),
        )

    def _note(self, context: Context, write: Callable[[Environment], None]) -> None:
        """Write to ZooKeeper for `switchyard status`. The run asks for approval even if this fails."""
        try:
            with SwitchyardHook(self.zookeeper_conn_id).get_conn(run_by(context)) as environment:
                write(environment)
        except Exception as error:
            self.log.warning("`switchyard status` may be wrong about whether this run waits for approval: %s", error)

    def execute_complete(self, context: Context, event: dict[str, Any]) -> Any:
        who, chosen = responder(event), event.get("chosen_options") or ()
        if self.APPROVE in chosen and self.approval == SOMEBODY_ELSE and who == triggered_by(context):
            self.log.warning("%s triggered this run, so another user has to approve it. Asking again.", who)
            return self.execute(context)  # discards the answer and waits for another one
        # Unlike Airflow's operator, skip no tasks here. If Airflow loses the end of this task, it asks again; later
        # tasks would already have been skipped, and the run reported, by an answer that does not count any more.
        answer = HITLOperator.execute_complete(self, context, event)
        self._note(context, lambda environment: environment.store.end_approval(run_owner(context)))
        self.log.info("%s by %s", ", ".join(chosen), who or "timeout: no answer in time")
        return answer
