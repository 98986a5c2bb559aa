"""The common shape of Switchyard's DAGs: owner, timeouts, approval by a human, and end of a run.

Every task has a timeout. A run's timeout is longer than the sum of its tasks' timeouts: Airflow ends a run that
is too old without its teardown, so the run's timeout is only for runs that hang outside of their tasks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from inspect import getdoc
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from airflow.providers.standard.operators.hitl import ApprovalOperator, HITLOperator
from airflow.sdk import DAG, TriggerRule

from ha_core.hooks.airflow_names import AirflowSkipException, conf
from ha_core.hooks.zookeeper import SwitchyardHook
from ha_core.model import WaitingApproval
from ha_core.operators import four_eyes
from ha_core.operators.base import Context, tell
from ha_core.operators.dag_run import APPROVAL, PLAN, responder, run_by, run_owner, triggered_by
from ha_core.operators.ending import OutcomeOperator, ReleaseOperator
from ha_core.operators.forms import Flag, FormArguments, FormField, RefusedRequestError
from ha_core.operators.outcome import REFUSED

if TYPE_CHECKING:
    from ha_core.operations.engine.environment import Environment

NO_APPROVER, ANOTHER_USER = "nobody", "somebody else"
"""Choices of a form. With the second, the user who triggered the run may reject it, but not approve it."""
ANSWER_WITHIN = timedelta(days=1)
"""Airflow rejects the run after this time."""
MAX_REASON = 500
"""Characters of a run's reason that `switchyard status` shows."""


class ApproveOperator(FormArguments, ApprovalOperator):  # type: ignore[misc]  # airflow is not typed here
    """Ask a human to approve the run, showing them the proposal. Skipped in a dry run, or if no approval is required.

    It comes before the locks are taken, so waiting blocks no other operation. After a rejection every task that changes
    something skips itself (`SwitchyardOperator`).

    While the run waits, `switchyard status` names it: `/waiting_approvals` in ZooKeeper. If ZooKeeper does not answer,
    the run asks for approval anyway.

    With four eyes (`four_eyes`) it asks whatever the form has, and an approval by the user who asked ends the run.

    :param approval: the required approver, as the form has it.
    :param proposal_of: the task whose `table` is shown.
    :param zookeeper_conn_id: the state.
    """

    approval: Any = FormField("anybody")
    dry_run: Any = Flag()
    body: str | None

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
        if Flag().read(self.dry_run) or (self.approval == NO_APPROVER and not four_eyes.required()):
            raise AirflowSkipException("This run needs no approval.")
        if who := self._may_not_approve(context):
            # Airflow keeps the first body when it asks again, so only this one can say it.
            self.body = f"**{who} asked for this run, so another user has to approve it.**\n\n{self.body or ''}"
        waiting = self._waiting(context)
        self._note(context, lambda environment: environment.store.await_approval(waiting))
        return super().execute(context)

    def _may_not_approve(self, context: Context) -> str:
        """The user whose approval does not count; empty: any user's counts."""
        return triggered_by(context) if self.approval == ANOTHER_USER or four_eyes.required() else ""

    def _waiting(self, context: Context) -> WaitingApproval:
        now = datetime.now(UTC)
        return WaitingApproval(
            run=run_owner(context),
            by=triggered_by(context),
            reason=str(context["params"].get("reason") or "")[:MAX_REASON],
            since=now.isoformat(timespec="seconds"),
            link=_page_of(context),
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
        if self.APPROVE in chosen and four_eyes.required() and (why := four_eyes.own_approval(context, who)):
            self._note(context, lambda environment: environment.store.end_approval(run_owner(context)))
            tell(context, REFUSED, why)
            raise RefusedRequestError(why)
        if self.APPROVE in chosen and who and who == self._may_not_approve(context):
            self.log.warning("%s triggered this run, so another user has to approve it. Asking again.", who)
            return self.execute(context)  # discards the answer and waits for another one
        # Unlike Airflow's operator, skip no tasks here. If Airflow loses the end of this task, it asks again; later
        # tasks would already have been skipped, and the run reported, by an answer that does not count any more.
        answer = HITLOperator.execute_complete(self, context, event)
        self._note(context, lambda environment: environment.store.end_approval(run_owner(context)))
        self.log.info("%s by %s", ", ".join(chosen), who or "timeout: no answer in time")
        return answer


def _page_of(context: Context) -> str:
    """Address of the run's page; empty without a base URL."""
    base = str(conf.get("api", "base_url", fallback="") or "").rstrip("/")
    run = context["dag_run"]
    return f"{base}/dags/{quote(run.dag_id)}/runs/{quote(run.run_id)}" if base else ""


BACKGROUND: dict[str, Any] = {"pool": os.environ.get("SWITCHYARD_POOL") or "default_pool"}
"""For scheduled tasks that query whole clusters. A task whose pool does not exist never starts, so without the variable
it is Airflow's default pool. Tasks that operators need in an outage, and tasks that end a fence, never have a pool.
"""
LONG: dict[str, Any] = {"execution_timeout": timedelta(hours=1)}
SLOW: dict[str, Any] = {"execution_timeout": timedelta(hours=12)}
"""For tasks that may read whole topics."""
STEP: dict[str, Any] = {"retries": 0}
"""For a step that holds a fence, or undoes itself when it fails: it is not repeated."""
PATIENT = timedelta(days=2)
"""Timeout of a run that needs approval, which may take a day."""


def switchyard_dag(
    dag_id: str,
    title: str,
    description: str,
    text: str,
    tag: str,
    params: Mapping[str, Any] | None = None,
    *,
    schedule: Any = None,
    max_active_runs: int = 1,
    run_timeout: timedelta = timedelta(hours=6),
    deadline: Any = None,
    **default_args: Any,
) -> DAG:
    """:param text: documentation of the DAG, in Markdown.
    :param schedule: None: triggered runs only; otherwise runs start when the DAG is deployed.
    :param deadline: alarm for a run that has not ended by then.
    :param default_args: override the tasks' usual defaults.
    """
    return DAG(
        dag_id=dag_id,
        dag_display_name=title,
        description=description,
        doc_md=text,
        schedule=schedule,
        catchup=False,
        is_paused_upon_creation=None if schedule is None else False,
        max_active_runs=max_active_runs,
        dagrun_timeout=run_timeout,
        deadline=deadline,
        params=dict(params or {}),
        tags=["switchyard", tag],
        default_args={
            "owner": "switchyard",
            "strict_form": True,
            "execution_timeout": timedelta(minutes=15),
            "retries": 2,
            "retry_delay": timedelta(seconds=2),
            **default_args,
        },
    )


def ask(plan: Any, question: str, then: Any) -> None:
    """A human approves between `plan` and `then`. Without a required approval `then` runs at once."""
    approve = ApproveOperator(task_id=APPROVAL, subject=question)
    then.trigger_rule = TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS
    plan >> [approve, then]
    approve >> then


def end_run(
    last: Any,
    releases: type[ReleaseOperator] = ReleaseOperator,
    reports: type[OutcomeOperator] = OutcomeOperator,
    setups: Any = None,
) -> list[Any]:
    """After the task `last`: release what is left, and report the run's outcome as its result. Returns both tasks."""
    ends = [reports(task_id="report"), releases(task_id="release")]
    last >> ends
    ends[1].as_teardown(setups=setups, on_failure_fail_dagrun=True)
    result_of_dag(last.dag, ends[0])
    return ends


def result_of_dag(dag: DAG, task: Any) -> None:
    """The result of a run is that of this task, for callers of Airflow's API. Airflow has such results since 3.3."""
    if hasattr(dag, "add_result"):
        dag.add_result(task.output)
