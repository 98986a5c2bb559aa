"""The shape that our DAGs have in common: who owns them, how long anything may take, and how a run ends.

Every task has a timeout. A run has one too, longer than all that its tasks may take together: Airflow ends a run that
is too old without its teardown, so it is for runs that hang outside of their tasks.
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
"""For tasks that ask whole clusters by the clock. A task whose pool does not exist is never started: so without the
variable it is Airflow's own, and what an operator waits for in an outage, or what ends a fence, never has one.
"""
LONG: dict[str, Any] = {"execution_timeout": timedelta(hours=1)}
SLOW: dict[str, Any] = {"execution_timeout": timedelta(hours=12)}
"""For tasks that may read whole topics."""
STEP: dict[str, Any] = {"retries": 0}
"""A step that holds a fence, or undoes itself when it fails: it is not repeated."""
PATIENT = timedelta(days=2)
"""Of a run in which a human is asked, who has a day."""


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
    """:param text: its documentation, markdown.
    :param schedule: None: it runs when it is asked for; else from the day on which it is there.
    :param default_args: of its tasks, in place of the usual ones.
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
    """Between `plan` and `then` a human approves; where nobody has to, it goes on at once."""
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
    """After the task `last`: release whatever is left, and report what became of the run as its result. Returns both
    tasks."""
    ends = [reports(task_id="report"), releases(task_id="release")]
    last >> ends
    ends[1].as_teardown(setups=setups, on_failure_fail_dagrun=True)
    last.dag.add_result(ends[0].output)
    return ends
