"""
### Prove that copies equal their sources

Compares mirrors with their sources by content: every record's key, value, headers and timestamp, partition by
partition, through the map of offsets. Nothing is changed, and copying continues meanwhile.

| task | what it does | if it fails |
|---|---|---|
| `compare` | reads both clusters on Spark and compares, range by range | a cluster or Spark is away: see its log |
| `verdict` | fails if a copy differs (it names the first offset) or lacks records | look there in both clusters |
| `report` | the result of the run, in its first line | it fails if any task failed |

A record that the source has deleted since (retention, compaction) is no difference, nor is one that is not copied yet:
both are counted. A copy is not equal if it has deleted records that its source keeps, or if nothing could be compared.
*Sample* below 1 compares only a share of the ranges, chosen by the seed in the result; that seed chooses them again.
The rows are written as Parquet beside the history, in the folder verify.

`compare` runs where the connection **`spark_switchyard`** points to, and without it on the worker. Without Airflow:
`switchyard mirror verify TOPIC`, or `spark-submit spark_jobs/__main__.py verify --output FOLDER`.
"""

from datetime import timedelta

from ha_core.operators import forms
from ha_core.operators.dags import result_of_dag, switchyard_dag
from ha_core.operators.ending import OutcomeOperator
from ha_core.operators.mirrors import COMPARE, MirrorsEqualOperator
from ha_core.operators.spark import HISTORY, SparkJobOperator

PARAMS = {
    "topics": forms.some_topics(),
    "to": forms.optional_text("To", "The cluster that has the copies. Needed if a topic has several."),
    "sample": forms.field(
        "Sample",
        "The share of the ranges to compare. 1: all of them.",
        "number",
        forms.HOW,
        default=1,
        exclusiveMinimum=0,
        maximum=1,
    ),
    "seed": forms.field(
        "Seed", "Chooses the sample. Empty: another one each time.", ["null", "integer"], forms.HOW, default=None
    ),
}

with switchyard_dag(
    "verify_mirror",
    "Verify mirrors",
    "Compares copies with their sources by content, and names the first offset that differs.",
    __doc__,
    "mirror",
    PARAMS,
    run_timeout=timedelta(hours=14),
) as dag:
    compare = SparkJobOperator(
        task_id=COMPARE,
        job="verify",
        arguments=[
            *("--output", HISTORY),
            *("--topics", "{{ (params.topics or []) | join(',') }}"),
            *("--to", "{{ params.to or '' }}"),
            *("--sample", "{{ params.sample }}"),
            *("--seed", "{{ '' if params.seed is none else params.seed }}"),
        ],
        retries=0,  # its time depends on the records to read
        execution_timeout=timedelta(hours=12),
    )
    report = OutcomeOperator(task_id="report")
    compare >> MirrorsEqualOperator(task_id="verdict") >> report
    result_of_dag(dag, report)
