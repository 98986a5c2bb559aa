"""From the form to a request, and from a proposal to text."""

from typing import Any

import pytest

from ha_core.model import MoveRequest, MoveSet, Scope
from ha_core.operations.access import bindings_file
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.proposal.proposal import Proposal
from ha_core.operations.proposal.requests import make_request
from ha_core.plan.facts.verdict import Verdict
from stack.memory_store import MemoryStore
from tests.dags import airflow_home

assert airflow_home  # before anything of airflow: the package below imports it

from airflow.sdk import DAG  # noqa: E402

from ha_core.operators.bindings import CompareBindingsOperator  # noqa: E402
from ha_core.operators.clusters import MaskClusterOperator  # noqa: E402
from ha_core.operators.switch import AcquireOperator, CutOverOperator, PlanSwitchOperator  # noqa: E402
from ha_core.present.moves import proposal_page  # noqa: E402
from ha_core.present.page import log_lines, markdown  # noqa: E402

FORM: dict[str, Any] = {
    "from": " east ",
    "to": "west",
    "mode": "planned",
    "reason": "a test",
    "drain_timeout_s": 10,
    "include_other_users": False,
    "unread": None,
    "damaged_copies": "refuse",
}


def request_of(form: dict[str, Any], **arguments: Any) -> MoveRequest:
    """The request of the planning task in a run with this form."""
    task = PlanSwitchOperator(task_id="plan", **arguments)
    task.environment = Environment(MemoryStore(), "test")
    task.render_template_fields({"params": form})
    task.read_arguments()
    request: MoveRequest = task.request()
    return request


def proposal(*verdicts: Verdict, **reasons: str) -> Proposal:
    request = make_request(["user:alice"], "east", "west", reason="a test")
    moves = MoveSet(topics=("orders",), reasons={f"topic:{name}": why for name, why in reasons.items()})
    return Proposal(request=request, revision=7, moves=moves, verdicts=verdicts)


def test_declared_bindings_keep_the_indentation_of_the_form() -> None:
    # Given a declaration that was copied out of an indented block
    declaration = "  complete: false\n  bindings: {alice: {cluster: west}}\n"
    task = CompareBindingsOperator(task_id="difference")
    task.render_template_fields({"params": {"declaration": declaration, "reason": "a test"}})
    # When the task reads the form
    task.read_arguments()
    # Then it can be parsed
    assert bindings_file.parse(task.declaration, "the declaration").bindings["alice"].cluster == "west"


def test_the_scope_of_the_form_is_that_of_the_command_line() -> None:
    entries = ["user:alice", " ", "user:a%2Bb%25c", "user:bob+billing-1", "user:carol#orders", "user:carol##billing"]

    request = request_of({**FORM, "scope": [*entries, " topic:payments:0,4-7 "]})

    assert request.origin == "east"
    assert request.scope == Scope(
        users=("alice", "a+b%c"),
        instances=(("bob", "billing-1"),),
        user_topics=(("carol", "orders"),),
        user_groups=(("carol", "billing"),),
        topics=("payments",),
        partitions={"payments": (0, 4, 5, 6, 7)},
    )


def test_a_dag_resolves_a_topic_in_the_scope_to_its_users() -> None:
    assert request_of({**FORM, "scope": ["user:alice+#orders"]}).scope == Scope(users=("alice",))


def test_in_a_dag_without_a_form_operators_take_arguments_and_templates() -> None:
    request = request_of(
        {"team": "payments", "wait": 20},
        scope=["user:{{ params.team }}"],
        origin="east",
        target="west",
        reason="{{ params.team }} moves",
        drain_timeout_s="{{ params.wait }}",
    )

    assert request.scope == Scope(users=("payments",))
    assert (request.reason, request.mode, request.drain_timeout_s) == ("payments moves", "planned", 20)


def test_arguments_come_from_default_args_or_other_tasks_and_can_be_mapped() -> None:
    with DAG("own", default_args={"reason": "a test", "proposal_of": "look"}):
        planned = PlanSwitchOperator(task_id="look", scope=["user:alice"], origin="east", target="west")
        acquired = AcquireOperator(task_id="acquire")
        cut_over = CutOverOperator(task_id="cut_over", operation_id=acquired.output)
        mapped = MaskClusterOperator.partial(task_id="mask", force=True).expand(cluster=["east", "west"])

    assert (planned.reason, acquired.proposal_of) == ("a test", "look")
    assert cut_over.upstream_task_ids == {"acquire"}
    assert mapped.partial_kwargs["force"] is True


def test_a_missing_argument_is_named() -> None:
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(AirflowFailException, match="There is no 'to'"):
        request_of({"scope": ["user:alice"], "from": "east", "reason": "a test"})


@pytest.mark.parametrize("entries", [["alice"], ["user:+one"], ["user:alice##"], [" "]])
def test_a_malformed_scope_is_refused(entries: list[str]) -> None:
    with pytest.raises(RefusedError, match="user:NAME"):
        request_of({**FORM, "scope": entries})


def test_a_forced_move_without_a_choice_for_unread_records_is_refused() -> None:
    forced = {**FORM, "scope": ["user:alice"], "mode": "forced"}

    with pytest.raises(RefusedError, match=r"--unread wait .*--unread skip"):
        request_of(forced)

    assert request_of({**forced, "unread": "wait"}).unread == "wait"


def test_the_log_has_the_moves_and_the_verdicts() -> None:
    verdict = Verdict("error", "foreign-data", "topic orders", "It is not empty.", "Empty it.")

    said = "\n".join(log_lines(proposal_page(proposal(verdict, orders="alice uses it"))))

    assert "topic orders, because alice uses it" in said
    assert "error: topic orders: It is not empty. Empty it." in said


def test_names_chosen_by_clients_are_escaped_in_tables() -> None:
    table = markdown(proposal_page(proposal(orders="as <script>|`x`\nnext")))

    row = next(line for line in table.splitlines() if "script" in line)
    assert row.endswith("| as \\<script\\>\\|\\`x\\` next |")


def test_a_move_has_nothing_to_do_only_when_no_other_error_stands() -> None:
    nothing = Verdict("error", "nothing-to-move", "scope", "Nothing is to move.")

    assert proposal(nothing).nothing_to_do
    assert not proposal().nothing_to_do
    assert not proposal(nothing, Verdict("error", "masked-target", "cluster west", "It is masked.")).nothing_to_do
