"""Problems as cards: one for each cause, with its command and a link to the form that mends it."""

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup

from ha_core.model.shown import shown
from ha_core.plan.facts.problem import Problem, ProblemCode
from ha_core.plan.facts.verdict import amount
from ha_core.present.page import Mark
from ha_core.present.problems import MAX_FOLDED, age
from ha_core.present.web.blocks import text

MAX_CARDS = 50
MAX_FILLED = 300
"""Characters of a field; longer values, such as a scope of many topics, are typed by hand."""


class ProblemForm(NamedTuple):
    """A DAG whose form is filled in from a problem.

    :ivar field: the field of the subject's name; empty: the form needs none.
    """

    dag: str
    field: str = ""
    label: str = ""


FORMS: Mapping[ProblemCode, ProblemForm] = {
    "cluster-away": ProblemForm("fail_over_cluster", "cluster", "Fail over the cluster"),
    "masked-writer": ProblemForm("unmask_cluster", "cluster", "Unmask the cluster"),
    "not-reconciled": ProblemForm("reconcile_returned_cluster", "cluster", "Reconcile the cluster"),
    "tail-differs": ProblemForm("reconcile_returned_cluster", "", "Reconcile the cluster"),
    "origin-unchecked": ProblemForm("check_origins", "", "Check the cluster's log ends"),
    "crossing-overdue": ProblemForm("settle_migrations", "", "Settle the migrations"),
    "mirror-not-in-sync": ProblemForm("sync_mirrors", "", "Sync the mirrors"),
    "drill-overdue": ProblemForm("rehearse", "", "Rehearse"),
}
"""Code → the form that mends it. Other problems are mended outside Airflow, or by their command alone."""


def problem_cards(
    problems: Collection[Problem], notices: Collection[Problem] = (), first: Sequence[Markup] = ()
) -> Markup:
    """:param first: cards of further problems."""
    number = len(problems) + len(first)
    if not number:
        head = Markup('<p class="calm">Nothing waits for an operator.</p>')
    else:
        count = amount(number, "problem", "waits", "wait")
        head = Markup('<p class="bad">{} for an operator</p>').format(count)
    cards = [*first]
    cards += [_card(one, "bad") for one in [*problems][:MAX_CARDS]]
    cards += [_card(one, "warning") for one in [*notices][:MAX_CARDS]]
    left = max(0, len(problems) - MAX_CARDS) + max(0, len(notices) - MAX_CARDS)
    more = Markup("<p>… and {} more: <code>switchyard status</code></p>").format(left) if left else Markup("")
    return head + Markup("").join(cards) + more


def form_address(code: ProblemCode, about: str, more: Mapping[str, str] | None = None) -> str:
    """The form of a problem with its subject and further fields filled in; empty if there is none."""
    form = FORMS.get(code)
    if form is None:
        return ""
    fields = {**({form.field: about.split(" ", 1)[-1]} if form.field else {}), **(more or {})}
    fields = {name: value for name, value in fields.items() if len(value) <= MAX_FILLED}
    return f"start?{urlencode({'dag': form.dag, **fields})}"


def _card(problem: Problem, mark: Mark) -> Markup:
    parts = [
        Markup('<p class="strong">{}: {}{}</p>').format(shown(problem.about), problem.code, age(problem)),
        Markup("<p>{}</p><p>{}</p>").format(text(problem.text), text(problem.remedy)),
        Markup("<p><code>{}</code>{}</p>").format(shown(problem.command), _form(problem)),
    ]
    if problem.follows:
        named = problem.follows[:MAX_FOLDED]
        rows = Markup("").join(
            Markup("<li>{}: {}</li>").format(f"{shown(one.about)} ({one.code})", text(one.text)) for one in named
        )
        more = len(problem.follows) - len(named)
        rows += Markup("<li>… and {} more</li>").format(more) if more else ""
        parts.append(
            Markup('<details id="{}"><summary>{} with it</summary><ul>{}</ul></details>').format(
                shown(problem.key), amount(len(problem.follows), "problem", "ends", "end"), rows
            )
        )
    return Markup('<section class="problem {}">{}</section>').format(mark, Markup("").join(parts))


def _form(problem: Problem) -> Markup:
    address = form_address(problem.code, problem.about, problem.form)
    if not address:
        return Markup("")
    return Markup(' <a href="{}">{} …</a>').format(address, FORMS[problem.code].label)
