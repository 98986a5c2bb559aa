"""An approval that a run of Airflow waits for: the run has begun no operation yet, so no other document names it."""

from __future__ import annotations

from ha_core.model.document import Document


class WaitingApproval(Document):
    """`/waiting_approvals/{run}`: written before a run asks its question, removed when it is answered or the run ends.

    A run that Airflow marks as failed leaves it behind until `answer_by`.
    """

    FOLDER = "/waiting_approvals"
    KEY = "run"

    run: str
    """`airflow:DAG/RUN`."""
    by: str
    """The user who triggered the run; empty for a run by the clock."""
    reason: str = ""
    since: str
    """UTC, ISO 8601."""
    answer_by: str
    """After this Airflow takes the question for rejected. UTC, ISO 8601."""
