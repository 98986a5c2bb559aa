"""
### Parity of clusters that stand in for each other

A standby takes over only what it has. This compares two clusters, every two minutes: topics of the source that the
target lacks, partitions, settings, rights, quotas of the brokers, what the mirrors' syncs could not mend, and schemas
where registries are named. Things that only the target has are no difference.

A run fails where something differs; its log has each difference with the command that mends it, and
`switchyard status --check` reports `parity-drift` until a comparison finds none. Nothing is changed.

Without fields every pair that has mirrors, or was compared once, is compared, with the ignored settings and the
registries of its last comparison. Without Airflow: `switchyard parity check SOURCE TARGET`.
"""

from datetime import timedelta

from ha_core.operators import forms
from ha_core.operators.dags import BACKGROUND, LONG, end_run, switchyard_dag
from ha_core.operators.parity import CheckParityOperator

PARAMS = {
    "from": forms.optional_text("From", "The cluster that clients use. Empty, with *To*: every pair that has mirrors."),
    "to": forms.optional_text("To", "The cluster that has to take its place."),
    "ignored": forms.optional_entries("Ignored settings", "Names or patterns of settings that may differ."),
    "source_registry": forms.optional_text("Registry of the source", "URL of its schema registry.", forms.HOW),
    "target_registry": forms.optional_text("Registry of the target", "URL of its schema registry.", forms.HOW),
}

with switchyard_dag(
    "check_parity",
    "Compare clusters",
    "Compares clusters that stand in for each other, and reports what the standby lacks.",
    __doc__,
    "upkeep",
    PARAMS,
    schedule=timedelta(minutes=2),  # it changes nothing
):
    end_run(CheckParityOperator(task_id="check", **BACKGROUND, **LONG))
