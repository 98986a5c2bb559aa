"""A DAG's form with some fields filled in. Airflow triggers the run, and decides whether this user may.

Airflow's own form cannot be opened with values: what a problem already knows would be typed again at night.
"""

from collections.abc import Mapping
from typing import NamedTuple

from markupsafe import Markup

from ha_core.present.web.problems import FORMS


class StartField(NamedTuple):
    name: str
    label: str
    text: str = ""
    needed: bool = True
    several: bool = False
    """Entries, one a line."""


_CLUSTER = StartField("cluster", "Cluster")
_REASON = StartField("reason", "Reason", "Kept in the history. A ticket number is a good reason.")
FIELDS: Mapping[str, tuple[StartField, ...]] = {
    "fail_over_cluster": (
        StartField("cluster", "Cluster", "The one that is dead. It is refused while the cluster answers."),
        _REASON,
    ),
    "unmask_cluster": (_CLUSTER, _REASON),
    "reconcile_returned_cluster": (StartField("cluster", "Cluster", "The one that is back."), _REASON),
    "check_origins": (),
    "settle_migrations": (),
    "age_migrations": (),
    "sync_mirrors": (),
    "rollback_migration": (
        StartField("operation", "Operation", "Its topics have not begun to cross over."),
        _REASON,
    ),
    "rehearse": (
        StartField("scope", "Scope", "What moves, one entry a line: user:NAME, topic:NAME and so on.", several=True),
        StartField("from", "From", "The cluster that the drill leaves."),
        StartField("to", "To", "The cluster that it goes to, and comes home from."),
        StartField("kind", "Kind", "planned, or forced: of the topic of a canary alone. Empty: planned.", needed=False),
        StartField("schedule", "Schedule", "The schedule that this drill fulfils.", needed=False),
        _REASON,
    ),
}
"""DAG → the fields that it needs. All others have their defaults: *Dry run* is on where a form has it."""
_DRY = frozenset({"unmask_cluster", "rollback_migration", "rehearse", "reconcile_returned_cluster", "age_migrations"})
"""DAGs whose forms have a dry run."""


def start_contents(dag: str, fields: Mapping[str, str]) -> Markup:
    """:raises ValueError: the DAG has no such form, or the form no such field."""
    wanted = FIELDS.get(dag)
    if wanted is None:
        raise ValueError(f"{dag}: there is no form for it here. It is among Airflow's DAGs if it exists.")
    if unknown := fields.keys() - {one.name for one in wanted}:
        raise ValueError(f"{dag} has no field {', '.join(sorted(unknown))}.")
    inputs = Markup("").join(_input(one, fields.get(one.name, "")) for one in wanted)
    if dag in _DRY:
        inputs += Markup(
            '<label><input type="checkbox" name="dry_run" checked> Dry run<small>Only show what it would do. '
            "</small></label>"
        )
    return Markup(
        '<form class="start" data-api="../api/v2/dags/{dag}/dagRuns" data-runs="../dags/{dag}/runs">{inputs}'
        '<p><button class="go">Trigger {dag}</button> '
        '<a href="../dags/{dag}" target="_top">its whole form, and what it does</a></p></form>'
    ).format(dag=dag, inputs=inputs)


def _input(field: StartField, value: str) -> Markup:
    if field.several:
        return Markup(
            '<label>{} <textarea name="{}" rows="3" data-several required>{}</textarea><small>{}</small></label>'
        ).format(field.label, field.name, value, field.text)
    return Markup('<label>{} <input name="{}" value="{}" maxlength="300"{}><small>{}</small></label>').format(
        field.label, field.name, value, Markup(" required") if field.needed else "", field.text
    )


assert all(form.dag in FIELDS for form in FORMS.values())
