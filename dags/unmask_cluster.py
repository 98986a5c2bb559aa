"""
### Put a cluster back into service

Takes the mask off a cluster, **after a health probe**: a cluster that does not answer the service account stays masked.
Nothing moves back by itself: use the `switch` DAG for that.

Unmasking is one revision; the task ends when every gateway serves it. A cluster that is not masked is left alone, and
the task is skipped. Without Airflow: `switchyard unmask CLUSTER`.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param

from ha_core.operators import ReleaseOperator, UnmaskClusterOperator

with DAG(
    dag_id="unmask_cluster",
    dag_display_name="Unmask a cluster",
    description="Puts a cluster back into service, after a health probe.",
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
            "back in service", type="string", minLength=3, title="Reason", description_md="Why, for the history."
        ),
    },
    tags=["switchyard", "cluster"],
    default_args={"retries": 2, "retry_delay": timedelta(seconds=2)},
) as dag:
    unmask = UnmaskClusterOperator(task_id="unmask", cluster="{{ params.cluster }}", reason="{{ params.reason }}")
    release = ReleaseOperator(task_id="release")

    unmask >> release.as_teardown(on_failure_fail_dagrun=True)
    dag.add_result(unmask.output)
