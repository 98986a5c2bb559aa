"""The one shape of the DAGs that take a cluster out of service and put it back: look, change, release."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from airflow.sdk import DAG, Param

from ha_core.operators import forms
from ha_core.operators.clusters import LookAtClusterOperator
from ha_core.operators.ending import OutcomeOperator, ReleaseOperator


def cluster_dag(
    dag_id: str,
    title: str,
    description: str,
    text: str,
    change: Callable[..., Any],
    task_id: str,
    reason: Param,
    more: Mapping[str, Param] | None = None,
    **options: str,
) -> DAG:
    """A DAG with a form of cluster, reason, dry run and `more`.

    :param text: its documentation, markdown.
    :param change: the operator that changes the cluster; gets `cluster`, `reason`, `dry_run` and `options`.
    """
    params = {
        forms.FIRST: forms.dry_run("Only show who depends on the cluster."),
        "cluster": forms.cluster("Cluster", "The one to change."),
        "reason": reason,
        **(more or {}),
    }
    with DAG(
        dag_id=dag_id,
        dag_display_name=title,
        description=description,
        doc_md=text,
        schedule=None,
        catchup=False,
        max_active_runs=4,
        params=params,
        tags=["switchyard", "cluster"],
        default_args={"retries": 2, "retry_delay": timedelta(seconds=2)},
    ) as dag:
        cluster = "{{ params.cluster }}"
        look = LookAtClusterOperator(task_id="look", cluster=cluster, change=task_id)
        changed = change(
            task_id=task_id,
            cluster=cluster,
            reason="{{ params.reason }}",
            dry_run="{{ params.dry_run }}",
            **options,
        )
        release = ReleaseOperator(task_id="release")
        report = OutcomeOperator(task_id="report")
        look >> changed >> report
        changed >> release.as_teardown(on_failure_fail_dagrun=True)
        dag.add_result(report.output)
    return dag
