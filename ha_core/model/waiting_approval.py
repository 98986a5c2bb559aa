"""An approval that an Airflow run waits for. The run has no operation yet, so no other document names it."""

from ha_core.model.document import Document


class WaitingApproval(Document):
    """`/waiting_approvals/{run}`: written before a run requests approval, removed at the answer or the end of the run.

    If Airflow marks the run as failed, it remains until `answer_by`.
    """

    FOLDER = "/waiting_approvals"
    KEY = "run"

    run: str
    """`airflow:DAG/RUN`."""
    by: str
    """The user who triggered the run; empty for a scheduled run."""
    reason: str = ""
    since: str
    """UTC, ISO 8601."""
    link: str = ""
    """Page of the run in Airflow; empty: unknown."""
    answer_by: str
    """Airflow rejects the run at this time. UTC, ISO 8601."""
