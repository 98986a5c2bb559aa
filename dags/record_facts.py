"""
### Record facts about every cluster

A dead cluster cannot be asked any more. So this runs every 15 minutes, and by hand at any time.

| task | what it does |
|---|---|
| `look` | writes specs, log ends and group commits of each cluster to ZooKeeper, in place of older ones |
| `history` | adds starts, ends, specs and commits of all clusters to Parquet; merges, thins and deletes old days |
| `rates` | the growth rate of each log, from that history, and the cut that would be suggested for it now |

A move out of a dead cluster uses the facts of `look`, within seconds. `history` gives rates, and shows whether an old
origin is still written. `migrate_topics` uses the result of `rates` if its form names no rates.

A cluster that does not answer fails nothing: its earlier facts stay, and the table in the log of `history` shows their
age. No task changes anything in a cluster.

`history` and `rates` are Spark jobs. They run where the connection **`spark_switchyard`** points to (`local[*]` on the
worker, a `spark://` master, YARN …), and without that connection on the worker. The folder is `SWITCHYARD_HISTORY` in
the environment of the workers; with more than one machine it has to be a shared one. Without Airflow:
`switchyard facts record`, `spark-submit spark_jobs/__main__.py facts --history FOLDER`, and `… offsets --rates FILE`.
"""

from datetime import timedelta

from ha_core.operators import forms
from ha_core.operators.dags import BACKGROUND, result_of_dag, switchyard_dag
from ha_core.operators.spark import HISTORY, RATES, SparkJobOperator
from ha_core.operators.upkeep import RecordKnownOperator

PARAMS = {
    "keep_days": forms.field(
        "Keep, days", "How long the history goes back. Older days are deleted.", "integer", default=30, minimum=1
    ),
}

with switchyard_dag(
    "record_facts",
    "Record facts",
    "Records facts about every cluster, for moves out of one that does not answer.",
    __doc__,
    "facts",
    PARAMS,
    schedule="*/15 * * * *",  # without this schedule no facts are there when a cluster dies
    run_timeout=timedelta(hours=4),
    retries=1,
    retry_delay=timedelta(seconds=30),
    execution_timeout=timedelta(minutes=30),
    **BACKGROUND,
) as dag:
    RecordKnownOperator(task_id="look")
    history = SparkJobOperator(task_id="history", job="facts", arguments=["--keep-days", "{{ params.keep_days }}"])

    suggested = ["--output", HISTORY, "--keep-results", "4", "--rates", RATES]
    history >> SparkJobOperator(task_id="rates", job="offsets", arguments=suggested)

    result_of_dag(dag, history)
