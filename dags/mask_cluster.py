"""
### Take a cluster out of service

A **masked** cluster gets nothing new: no switch may have it as its target. What it serves now, it goes on serving;
move that with the `switch` DAG. Use it before maintenance, or when a cluster is not to be trusted any more.

Masking is one revision; the task ends when every gateway serves it. A cluster that is masked already is left alone, and
the task is skipped. The way back: `unmask_cluster`. Without Airflow: `switchyard mask CLUSTER --reason …`.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from ha_core.operators import MaskClusterOperator, ReleaseOperator

with DAG(
    dag_id="mask_cluster",
    dag_display_name="Mask a cluster",
    description="Takes a cluster out of service: nothing new moves to it.",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    max_active_runs=4,
    params={
        "cluster": Param(
            type="string",
            minLength=1,
            title="Cluster",
            description_md="Its name, as `switchyard clusters list` shows it.",
            examples=["east", "west"],
        ),
        "reason": Param(
            type="string",
            minLength=3,
            title="Reason",
            description_md="Why, for everyone who meets the mask, and for the history.",
        ),
    },
    tags=["switchyard", "cluster"],
    default_args={"retries": 2, "retry_delay": timedelta(seconds=2)},
) as dag:
    mask = MaskClusterOperator(task_id="mask", cluster="{{ params.cluster }}", reason="{{ params.reason }}")
    release = ReleaseOperator(task_id="release")

    mask >> release.as_teardown(on_failure_fail_dagrun=True)
    dag.add_result(mask.output)
