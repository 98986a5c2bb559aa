"""
### Limit how fast topics are copied

Each mirror of the topics gets a limit in bytes a second, in one revision. Copiers continue without interruption, slower
or faster, within seconds; the limit stays with the mirror, also over a switch and when it is reversed. A copy that lags
because of it is read from its source meanwhile, and more would be lost with the source: `switchyard mirrors` shows
both.

A limit for all mirrors together is an option of the job `mirror` (`--max-bytes-s`). Without Airflow:
`switchyard mirror throttle TOPIC… --max-bytes-s N|none --reason …`.
"""

from ha_core.operators import forms
from ha_core.operators.dags import end_run, switchyard_dag
from ha_core.operators.mirrors import ThrottleMirrorOperator

PARAMS = {
    forms.FIRST: forms.dry_run("Only show the mirrors that have another limit."),
    "topics": forms.topics("Names or patterns, one a line."),
    "max_bytes_s": forms.max_bytes_s("Limit for each topic."),
    "to": forms.optional_text("To", "The cluster that has the copies, if a topic has several."),
    "reason": forms.reason(),
}

with switchyard_dag(
    "throttle_mirror",
    "Throttle a mirror",
    "Limits how fast topics are copied to another cluster, without interruption.",
    __doc__,
    "mirror",
    PARAMS,
    max_active_runs=4,
):
    throttle = ThrottleMirrorOperator(task_id="throttle")
    end_run(throttle)
