"""The common shape of Switchyard's DAGs: owner, timeouts, and end of a run.

Every task has a timeout. A run's timeout is longer than the sum of its tasks' timeouts: Airflow ends a run that
is too old without its teardown, so the run's timeout is only for runs that hang outside of their tasks.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, TriggerRule

from ha_core.operators.approval import ApproveOperator
from ha_core.operators.dag_run import APPROVAL
from ha_core.operators.ending import OutcomeOperator, ReleaseOperator

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
    **default_args: Any,
) -> DAG:
    """:param text: documentation of the DAG, in Markdown.
    :param schedule: None: triggered runs only; otherwise runs start when the DAG is deployed.
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
    last.dag.add_result(ends[0].output)
    return ends
