"""The tab *Outcome* on the page of a run: all that its task `report` has left, and nothing of it cut off."""

from markupsafe import Markup

from ha_core.operators.base import SAID
from ha_core.present.page_document import page_of
from ha_core.present.web.blocks import MAX_ROWS, blocks
from ha_core.present.web.layout import bare_document

REPORT = "report"
"""The task that ends a run of Switchyard."""
NONE_YET = Markup(
    '<p class="dim">There is no outcome. A run of Switchyard has one when its task <code>report</code> has ended; '
    "while a task <code>approve</code> waits, its <em>Required Actions</em> show what moves.</p>"
)


def outcome_html(dag_id: str, run_id: str, prefix: str) -> str:
    """:param prefix: path of the pages' style."""
    # Only API servers read Airflow's database; other processes import this module, too.
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    query = XComModel.get_many(run_id=run_id, key=SAID, task_ids=REPORT, dag_ids=dag_id, limit=1)
    with create_session() as session:
        found = session.scalars(query).first()
        said = None if found is None else XComModel.deserialize_value(found)
    # Links lead to pages beside the others, not to tabs of a run.
    body = blocks(page_of(said), MAX_ROWS, {}) if isinstance(said, list) else NONE_YET
    return bare_document("Outcome", body, prefix)
