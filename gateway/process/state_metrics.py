"""Metrics of the state as a whole: `switchyard_…`, by the one gateway that records facts of clusters.

While no look is known to be recent they are absent: an alarm must not take an old state for the present one.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from prometheus_client.core import Metric

from gateway.process.helper_processes import RecorderProcess
from ha_core.metrics.http import Families

_families = Families("switchyard_")
_gauge = _families.gauge


def state_metrics(recorder: RecorderProcess) -> Iterable[Metric]:
    state = recorder.state if recorder.running else None
    if state is None:
        return
    text = "When the state was last looked at for the metrics of operations, migrations, approvals and problems."
    yield _gauge("state_looked_timestamp_seconds", text, recorder.state_at)
    text = "When the next look should have ended: later than this, the process that looks stands still."
    yield _gauge("state_look_due_timestamp_seconds", text, recorder.state_due_at)
    yield from _operations(state)
    text = "Topics that were moved, by the status of their last migration."
    yield _gauge("migrations", text, state["migrations"], "status")
    crossing: dict[str, int] = dict(state["crossing"])
    text = "Records that partitions of a crossing lack until their cuts, as far as their log ends are known."
    yield _gauge("crossing_missing_records", text, crossing.pop("missing_records"))
    text = "Partitions of topics that cross over, by their distance to the cut; those of unknown log end are `unknown`."
    yield _gauge("crossing_partitions", text, crossing, "progress")
    yield _gauge("approvals_waiting", "Runs in Airflow that wait for an approval.", state["approvals"])
    oldest_s = state["approvals_oldest_s"]
    if oldest_s is not None:
        yield _gauge("approvals_oldest_seconds", "Time for which a run has waited for its approval.", oldest_s)
    text = "Problems that wait for an operator, as `switchyard status --check` lists them."
    yield _gauge("problems", text, state["problems"], "code")


def _operations(state: Mapping[str, Any]) -> Iterable[Metric]:
    rows = {(one["kind"], one["state"]): one for one in state["operations"]}
    counts = {labels: one["number"] for labels, one in rows.items()}
    yield _gauge("operations", "Operations that have not ended.", counts, "kind", "state")
    ages = {labels: one["oldest_s"] for labels, one in rows.items()}
    text = "Time since the start of the oldest operation of a kind and state."
    yield _gauge("operations_oldest_seconds", text, ages, "kind", "state")
