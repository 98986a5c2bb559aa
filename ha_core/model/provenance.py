"""The people and the run behind an operation, each in a field of its own."""

from __future__ import annotations

from ha_core.model.document import Part


class Provenance(Part):
    """None: not known, or there is none; so it is in operations of versions before these fields."""

    asked_by: str | None = None
    """The user who asked: `cli:USER@HOST`, or a user of Airflow."""
    asked_at: str | None = None
    """UTC, ISO 8601: when the Airflow run was triggered, before its approval. None: it began at once."""
    approved_by: str | None = None
    """The user who approved the Airflow run."""
    approved_at: str | None = None
    """UTC, ISO 8601."""
    run_url: str | None = None
    """Address of the Airflow run."""
    bundle_version: str | None = None
    """Version of the DAG bundle that the run executes."""
