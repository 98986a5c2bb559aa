"""From the form to a request, and from a proposal to words."""

from typing import Any

import pytest

from ha_core.model import MoveSet, Scope
from ha_core.moves.errors import RefusedError
from ha_core.moves.switch.prepare import Proposal, make_request
from ha_core.plan.verdict import Verdict
from tests.dags import airflow_home

assert airflow_home  # before anything of airflow: the package below imports it

from ha_core.operators.request import request_of, scope_entries  # noqa: E402
from ha_core.operators.words import nothing_to_do, proposal_lines, proposal_table  # noqa: E402

FORM: dict[str, Any] = {
    "from": " east ",
    "to": "west",
    "mode": "planned",
    "reason": "a test",
    "drain_timeout_s": 10,
    "include_followers": False,
    "unread": "skip",
}


def proposal(*verdicts: Verdict, **reasons: str) -> Proposal:
    request = make_request(["user:alice"], "east", "west", reason="a test")
    moves = MoveSet(topics=("orders",), reasons={f"topic:{name}": why for name, why in reasons.items()})
    return Proposal(request=request, revision=7, moves=moves, verdicts=verdicts)


def test_every_list_of_the_form_becomes_its_part_of_the_scope() -> None:
    form = {
        **FORM,
        "users": ["alice", " ", "alice", "a+b%#c"],
        "instances": ["bob+billing-1"],
        "user_topics": ["carol#orders"],
        "user_groups": ["carol##billing"],
        "topics": ["payments"],
    }

    request = request_of(form)

    assert request.origin == "east"
    assert request.scope == Scope(
        users=("alice", "a+b%#c"),
        instances=(("bob", "billing-1"),),
        user_topics=(("carol", "orders"),),
        user_groups=(("carol", "billing"),),
        topics=("payments",),
    )


@pytest.mark.parametrize(
    ("field", "entry"),
    [
        ("instances", "alice"),
        ("instances", "+one"),
        ("user_topics", "alice##group"),
        ("user_topics", "alice#"),
        ("user_groups", "alice#topic"),
    ],
)
def test_a_pair_that_is_none_is_refused_by_name(field: str, entry: str) -> None:
    with pytest.raises(RefusedError, match=field):
        scope_entries({field: [entry]})


def test_an_empty_form_is_refused() -> None:
    with pytest.raises(RefusedError, match="empty"):
        request_of({**FORM, "users": None})


def test_the_log_says_what_moves_and_what_speaks_against_it() -> None:
    verdict = Verdict("error", "topic orders", "It is not empty.", "Empty it.")

    said = "\n".join(proposal_lines(proposal(verdict, orders="alice uses it")))

    assert "topic orders, because alice uses it" in said
    assert "error: topic orders: It is not empty. Empty it." in said


def test_names_that_clients_chose_cannot_break_the_table() -> None:
    table = proposal_table(proposal(orders="as <script>|`x`\nnext"))

    row = next(line for line in table.splitlines() if "script" in line)
    assert row.endswith("| as \\<script\\>\\|\\`x\\` next |")


def test_only_a_move_without_anything_to_do_counts_as_such() -> None:
    nothing = Verdict("error", "scope", "Nothing is to move from east to west.")

    assert nothing_to_do(proposal(nothing))
    assert not nothing_to_do(proposal())
    assert not nothing_to_do(proposal(nothing, Verdict("error", "cluster west", "It is masked.")))
