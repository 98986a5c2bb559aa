"""Cards for parts of Airflow that give no sign of life. The API server, which serves the page, lives."""

from collections.abc import Mapping
from typing import NamedTuple

from markupsafe import Markup

from ha_core.plan.facts.verdict import duration

DATABASE = "database"
RUNBOOK = "docs/runbooks/airflow-away.md"
_STANDS: Mapping[str, str] = {
    DATABASE: "No move can be started in Airflow, and no task goes on.",
    "scheduler": "No task starts, also of moves that run.",
    "triggerer": "Crossings wait for the DAG settle_migrations.",
    "dag-processor": "DAGs stay as they are.",
}
"""Part → what stands without it."""


class SilentPart(NamedTuple):
    """:ivar silent_s: seconds since its last sign of life; of the database since it was asked last."""

    name: str
    silent_s: float


def airflow_card(part: SilentPart) -> Markup:
    silent = "does not answer"
    if part.name != DATABASE:
        silent = f"has given no sign of life for {duration(part.silent_s)}"
    return Markup(
        '<section class="problem bad"><p class="strong">Airflow\'s {} {}</p><p>{}</p>'
        "<p>Look at its log, and start it again: <code>{}</code>. Clients notice nothing, and the command line does "
        "all that the forms do.</p><p><code>switchyard status --check</code></p></section>"
    ).format(part.name, silent, _STANDS[part.name], RUNBOOK)
