"""The first line of a run's result."""

from datetime import UTC, datetime, timedelta, timezone
from types import SimpleNamespace
from typing import Any

import pytest

from ha_core.model import HistoryEntry, MoveRequest, Scope
from ha_core.model.evidence import ComparedCopies, MoveEvidence
from ha_core.model.move_request import MoveSet
from ha_core.operations.move.outcome import CUT_OVER, of_copies
from ha_core.operations.move.switch_mirrors import compared_words
from ha_core.operations.proposal.proposal import Proposal
from ha_core.operations.running.whole_cluster import ClusterProposal
from ha_core.plan.facts.verdict import error, info, warning
from ha_core.plan.move.step_verdicts import copies_differ
from tests.dags import airflow_home
from tests.kit.operations import a_switch

assert airflow_home  # before anything of airflow: the package below imports it

from ha_core.operators.dag_run import of_run, provenance_of, run_by  # noqa: E402
from ha_core.operators.forms import unknown_words  # noqa: E402
from ha_core.operators.outcome import (  # noqa: E402
    DONE,
    DRY_RUN,
    FAILED,
    MAX_SHOWN,
    NOTHING,
    PLANNED,
    REFUSED,
    RunOutcome,
    TaskResult,
    cut_off,
    outcome,
    refusal_in_short,
    shown,
)
from ha_core.present.moves import moved, moved_in_parts, proposal_page, would_move, would_move_cluster  # noqa: E402
from ha_core.present.page import log_lines, markdown  # noqa: E402

PLAN = TaskResult("plan", ("success",), PLANNED, "would move 1 topic")
SKIPPED = TaskResult("cut_over", ("skipped",))
ALICE = {"triggering_user_name": "alice", "dag_id": "switch", "run_id": "r"}


LOOKED = TaskResult("plan", ("success",), DRY_RUN, "would move 1 topic from east to west")
MOVED = TaskResult("record", ("success",), DONE, "moved 1 topic")
UNSOUND = TaskResult("plan", ("failed",), REFUSED, "topic orders: It is not empty.")
NOT_DRAINED = TaskResult("cut_over", ("failed",), FAILED, "no gateway drained")
LATER = TaskResult("verify", ("upstream_failed",))
ONE_REFUSED = TaskResult("migrate", ("failed", "success", "success"), REFUSED, "No lock.")
ONE_FAILED = TaskResult("migrate", ("success", "failed"), FAILED, "no lock")
ALL_THERE = TaskResult("plan", ("skipped",), NOTHING, "all is there")


@pytest.mark.parametrize(
    ("results", "line", "failed"),
    [
        pytest.param((LOOKED, SKIPPED), "DRY RUN: would move 1 topic from east to west", False, id="a dry run"),
        pytest.param((PLAN, MOVED), "DONE: moved 1 topic", False, id="the result rather than the plan"),
        pytest.param(
            (UNSOUND,), "REFUSED: nothing changed. topic orders: It is not empty.", True, id="one refusal, said once"
        ),
        pytest.param(
            (PLAN, NOT_DRAINED, LATER), "FAILED in cut_over: no gateway drained", True, id="the task that failed"
        ),
        pytest.param((PLAN, ONE_FAILED), "FAILED in migrate: 1 of 2 did not succeed: no lock", True, id="one batch"),
        pytest.param(
            (PLAN, ONE_REFUSED),
            "FAILED in migrate: 1 of 3 did not succeed: No lock.",
            True,
            id="a refused batch among others",
        ),
        pytest.param((ALL_THERE, SKIPPED), "NOTHING TO DO: all is there", False, id="nothing to do"),
    ],
)
def test_the_first_line_of_a_run_has_the_outcome_of_its_worst_task(
    results: tuple[TaskResult, ...], line: str, failed: bool
) -> None:
    run_outcome = outcome([*results])

    assert (run_outcome.line, run_outcome.failed) == (line, failed)


def test_a_plan_is_not_reported_as_done() -> None:
    assert "would" not in outcome([PLAN, TaskResult("record", ("success",))]).line


def test_a_task_that_ended_without_a_message_fails_the_run() -> None:
    run_outcome = outcome([PLAN, TaskResult("cut_over", ("failed",)), TaskResult("verify", ("upstream_failed",))])

    assert run_outcome.failed
    assert run_outcome.line.startswith("FAILED in cut_over: it ended without a message")


FORCED = MoveRequest(
    scope=Scope(topics=("orders",)), origin="east", target="west", mode="forced", reason="east is down", unread="wait"
)


@pytest.mark.parametrize(
    ("unread", "words"), [("wait", "wait for its records"), ("skip", "skip its records that they have not read")]
)
def test_a_forced_move_shows_its_effect_on_readers_to_approvers_and_in_its_result(unread: Any, words: str) -> None:
    request = FORCED.model_copy(update={"unread": unread})
    proposal = Proposal(request=request, revision=1, verdicts=(), moves=MoveSet(topics=("orders",)))

    expected = f"east is taken for dead, and readers {words}"

    assert would_move(proposal) == f"would move 1 topic from east to west; {expected}"
    assert expected in log_lines(proposal_page(proposal))
    assert f"**{expected}**" in markdown(proposal_page(proposal))


def test_readers_of_topics_with_copies_are_not_reported_as_waiting() -> None:
    goes = info("goes-to-copy", "topic orders", "Topic orders goes on at its copy in west.", "Nothing.")
    proposal = Proposal(request=FORCED, revision=1, verdicts=(goes,), moves=MoveSet(topics=("orders",)))

    assert would_move(proposal) == (
        "would move 1 topic from east to west; east is taken for dead, and readers continue at copies, without the "
        "records that these lack; how many of its records copies lack is not known"
    )
    # And if only some topics have a copy, both effects are reported
    both = proposal.model_copy(update={"moves": MoveSet(topics=("bills", "orders"))})
    assert (
        "readers of 1 topic continue at copies, without the records that these lack, and readers of the others wait "
        "for its records"
    ) in would_move(both)


def test_a_dry_run_of_a_forced_move_has_the_loss_in_its_first_line() -> None:
    topics = ("audit", "bills", "orders")
    told = [
        warning("goes-to-copy", "topic audit", "It lacked 4.", number=4, unit="records"),
        warning("copy-unknown", "topic bills", "It lacked 3.", number=3, unit="records"),
    ]
    unknown = warning("copy-unknown", "topic orders", "Nobody knows.")

    def line(*verdicts: Any) -> str:
        return would_move(Proposal(request=FORCED, revision=1, verdicts=verdicts, moves=MoveSet(topics=topics)))

    assert line(told[0]).endswith("; copies lack 4 records of it, as far as is known")
    lacked = "; copies lack 7 records of it, as far as is known"
    assert line(*told).endswith(f"{lacked}, and for 1 topic it is not known")
    assert line(*told, unknown).endswith(f"{lacked}, and for 2 topics it is not known")
    none_by_notes = warning("copy-unknown", "topic bills", "It lacked nothing.", number=0, unit="records")
    assert line(none_by_notes).endswith("; how many of its records copies lack is not known")
    assert line(unknown).endswith("; how many of its records copies lack is not known")
    whole = ClusterProposal(revision=1, origin="east", target="west", reason="r", mode="forced", verdicts=tuple(told))
    assert would_move_cluster(whole).endswith(f"{lacked}, and for 1 topic it is not known")
    planned = whole.model_copy(update={"mode": "planned"})
    assert "lack" not in would_move_cluster(planned)


def test_readers_of_a_copy_that_was_never_begun_are_said_to_wait_and_not_to_continue_at_it() -> None:
    empty = warning("copy-empty", "topic orders", "No copier has begun it.", number=4, unit="records")

    line = would_move(Proposal(request=FORCED, revision=1, verdicts=(empty,), moves=MoveSet(topics=("orders",))))

    assert line.endswith("east is taken for dead, and readers wait for its records")


def test_a_refused_forced_move_shows_no_effect_on_readers() -> None:
    lives = error("origin-answers", "cluster east", "Origin east answers.", "Use --mode planned.")
    proposal = Proposal(request=FORCED, revision=1, verdicts=(lives,), moves=MoveSet(topics=("orders",)))

    assert not [line for line in log_lines(proposal_page(proposal)) if "taken for dead" in line]


def test_a_planned_move_shows_no_effect_on_readers() -> None:
    request = FORCED.model_copy(update={"mode": "planned", "unread": None})
    proposal = Proposal(request=request, revision=1, verdicts=(), moves=MoveSet(topics=("orders",)))

    assert would_move(proposal) == "would move 1 topic from east to west"
    assert "dead" not in markdown(proposal_page(proposal))


@pytest.mark.parametrize(("who", "words"), [("bob", "by bob"), ("", "because there was no answer in time")])
def test_a_rejected_run_names_the_user_who_rejected_it(who: str, words: str) -> None:
    run_outcome = outcome([PLAN, SKIPPED], rejected_by=who)

    assert (run_outcome.line, run_outcome.failed) == (f"REJECTED {words}: nothing changed", False)


def test_an_unknown_key_is_named_with_the_nearest_field_of_the_form() -> None:
    words = unknown_words({"dryrun": False, "from": "east", "zzz": 1}, {"dry_run", "from", "to"})

    assert "'dryrun' (is 'dry_run' meant?), 'zzz'. It has dry_run, from, to." in words
    assert unknown_words({"from": "east"}, {"from", "to"}) == ""


def context(run: dict[str, Any], answer: Any = None) -> dict[str, Any]:
    dag = SimpleNamespace(task_ids=["plan", "approve", "acquire"])
    instance = SimpleNamespace(xcom_pull=lambda task_ids: answer)
    return {"dag_run": SimpleNamespace(**run), "task": SimpleNamespace(dag=dag, task_id="acquire"), "ti": instance}


def test_an_operation_records_its_run_and_the_users_who_triggered_and_approved_it() -> None:
    approved = {"chosen_options": ["Approve"], "responded_by_user": {"id": "2", "name": "bob"}}

    assert run_by(context(ALICE)) == "alice (airflow:switch/r)"
    assert run_by(context(ALICE, approved)) == "alice, approved by bob (airflow:switch/r)"
    assert run_by(context({**ALICE, "triggering_user_name": None})) == "airflow:switch/r"


def test_a_change_of_rights_is_by_the_one_who_asked_and_by_the_approver_with_the_time_of_the_approval() -> None:
    answer = {"chosen_options": ["Approve"], "responded_by_user": {"id": "2", "name": "bob"}}
    answer |= {"responded_at": "2026-12-01T10:00:00.5+00:00"}

    by = run_by(context(ALICE, answer), with_time=True)

    assert by == "alice, approved by bob at 2026-12-01T10:00:00.500Z (airflow:switch/r)"
    assert of_run(by, "airflow:switch/r")
    assert run_by(context(ALICE), with_time=True) == "alice (airflow:switch/r)"


def test_an_operation_has_a_field_for_each_of_the_people_and_the_run_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # Given
    monkeypatch.setenv("AIRFLOW__API__BASE_URL", "https://airflow.example/")
    approved = {
        "chosen_options": ["Approve"],
        "responded_by_user": {"id": "2", "name": "bob"},
        "responded_at": datetime(2026, 11, 21, 11, 30, tzinfo=timezone(timedelta(hours=1))),
    }
    triggered = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)
    asked = context({**ALICE, "run_id": "manual__2026-11-21T10:00:00+00:00", "run_after": triggered}, approved)
    asked["ti"].bundle_instance = SimpleNamespace(version="4f2a")
    # When
    found = provenance_of(asked)
    # Then
    assert (found.asked_by, found.approved_by, found.approved_at) == ("alice", "bob", "2026-11-21T10:30:00.000Z")
    assert found.asked_at == "2026-11-21T10:00:00.000Z"
    assert found.bundle_version == "4f2a"
    run = "manual__2026-11-21T10%3A00%3A00%2B00%3A00"
    assert found.run_url == f"https://airflow.example/dags/switch/runs/{run}"


def test_the_user_who_rejected_a_run_is_not_its_approver() -> None:
    """A page said "REJECTED by bob", and below it "Approved by bob"."""
    rejected = {
        "chosen_options": ["Reject"],
        "responded_by_user": {"id": "2", "name": "bob"},
        "responded_at": "2026-12-01T09:00:42.477Z",
    }

    found = provenance_of(context(ALICE, rejected))

    assert (found.asked_by, found.approved_by, found.approved_at) == ("alice", None, None)
    assert run_by(context(ALICE, rejected)) == "alice (airflow:switch/r)"


def test_a_run_without_user_approval_and_bundle_leaves_them_unknown() -> None:
    run = {**ALICE, "triggering_user_name": None}

    unknown, scheduled = provenance_of(context(run)), provenance_of(context({**run, "run_type": "scheduled"}))

    assert (unknown.asked_by, unknown.approved_by, unknown.approved_at, unknown.bundle_version) == (None,) * 4
    assert scheduled.asked_by == "the schedule"


def test_a_run_recognises_its_operations_with_any_approver() -> None:
    owner = "airflow:switch/r"

    assert all(of_run(by, owner) for by in (owner, f"alice ({owner})", f"alice, approved by bob ({owner})"))
    assert not any(of_run(by, owner) for by in ("cli:alice@host", f"{owner}2", f"alice ({owner}2)"))


def test_the_approver_of_a_forced_move_sees_that_topics_with_damaged_copies_may_stay() -> None:
    request = FORCED.model_copy(update={"damaged_copies": "leave"})
    proposal = Proposal(request=request, revision=7, moves=MoveSet(topics=("orders",)), verdicts=())
    assert would_move(proposal).endswith("topics whose copies are damaged stay there")


COMPARED = ComparedCopies(
    verify="sample", records=47_911, partitions=14, ranges=130, of_ranges=1_200, seed=1234567, seconds=9.5
)
FENCED = HistoryEntry(at="2026-11-23T10:00:00Z", epoch=1, step="finish", outcome="done", detail={"fenced_ms": 41.26})
SWITCH = "switch-20261123-100000-0a1b2c3d"


def moved_by(request: MoveRequest, result: str, groups: tuple[str, ...] = (), **evidence: Any) -> str:
    topics = ("audit", "orders", "payments")
    moves = MoveSet(topics=topics, groups=groups, reasons=dict.fromkeys(topics, "named"))
    done = a_switch(id=SWITCH, request=request, moves=moves, state="succeeded", result=result)
    return moved(done.changed(evidence=MoveEvidence(**evidence)), [FENCED])


def test_the_summary_of_a_move_leaves_out_steps_that_went_well() -> None:
    request = FORCED.model_copy(update={"mode": "planned", "unread": None})
    begun = a_switch(id=SWITCH, evidence=MoveEvidence(compared=COMPARED))

    line = moved_by(request, f"{CUT_OVER}; {compared_words(begun)}; orders got no copy", compared=COMPARED)

    assert line == (
        f"moved 3 topics from east to west; clients waited 41.3 ms under its fence; orders got no copy; "
        f"operation {SWITCH}"
    )


def test_the_remedy_after_a_forced_move_to_copies_is_not_cut_off_beside_its_task() -> None:
    begun = a_switch(id=SWITCH, request=FORCED, evidence=MoveEvidence(mirrored=("audit", "orders", "payments")))

    result, groups = "; ".join((CUT_OVER, *filter(None, of_copies(begun)))), tuple(f"group-{n}" for n in range(1_200))
    line = moved_by(FORCED, result, groups, mirrored=begun.evidence.mirrored)

    assert (
        "; east is taken for dead; `switchyard mirror reconcile east`, when it is back, counts what no copy had; "
        in line
    )
    assert len(f"DONE: {line}") <= MAX_SHOWN


def test_the_result_of_a_forced_move_without_copies_has_its_effect_on_readers() -> None:
    assert "; east is taken for dead, and readers wait for its records; " in moved_by(FORCED, CUT_OVER)


def test_a_cluster_switch_has_one_summary_with_the_remaining_work_of_any_part() -> None:
    request = FORCED.model_copy(update={"mode": "planned", "unread": None})
    moves = MoveSet(topics=("orders",), groups=("tills",))
    first = a_switch(id="switch-1", request=request, moves=moves, result=f"{CUT_OVER}; orders got no copy")
    second = a_switch(id="switch-2", request=request, moves=MoveSet(), result=CUT_OVER)

    line = moved_in_parts([first, second], [[FENCED], []])

    assert line == (
        "moved 1 topic and 1 group from east to west in 2 operations; clients waited 41.3 ms at most under a fence; "
        "orders got no copy"
    )


DIFFERING = copies_differ(
    "east", "west", {("orders", number): (123_456, "the headers of a record are other ones") for number in range(9)}
)


def refused(*verdicts: Any) -> RunOutcome:
    text = " ".join(verdict.words for verdict in verdicts)
    result = TaskResult("plan", ("failed",), REFUSED, text, refusal_in_short(verdicts))
    return outcome([result])


def test_the_remedy_of_a_refusal_is_not_cut_off_beside_its_task() -> None:
    run_outcome = refused(info("goes-to-copy", "topic audit", "It goes."), *DIFFERING)

    assert run_outcome.line.startswith(
        "REFUSED: nothing changed. topic audit: It goes. topic orders: The copy of topic orders"
    )
    assert shown(run_outcome).startswith(
        "REFUSED: nothing changed. topic orders (copy-differs): `switchyard mirror verify orders --to west` compares "
        "all of it. For a new copy end the mirror (`switchyard mirror unlink orders --to west`)"
    )
    assert len(shown(run_outcome)) <= MAX_SHOWN


def test_several_refusals_are_counted() -> None:
    more = copies_differ("east", "west", {("bills", 0): (1, "x"), ("audit", 0): (1, "x")})

    assert "nothing changed. topic audit (copy-differs, and 2 more): `switchyard" in shown(refused(*more, *DIFFERING))


def test_a_short_refusal_is_shown_as_it_is() -> None:
    short = outcome([TaskResult("plan", ("failed",), REFUSED, "topic x: It is not. Name it.", "another")])

    assert shown(short) == "REFUSED: nothing changed. topic x: It is not. Name it."


def test_a_long_text_of_no_verdict_has_its_command_before_the_details() -> None:
    text = (
        f"Of east: 1 partition cannot be counted. The first: {'details ' * 30}. `switchyard x` helps. The log has all."
    )

    run_outcome = outcome([TaskResult("reconcile", ("failed",), FAILED, text)])

    assert shown(run_outcome).startswith(
        "FAILED in reconcile: Of east: 1 partition cannot be counted. `switchyard x` helps. The first: details"
    )
    label = text.replace("`switchyard x` helps", 'Say "Accept the loss"')
    assert 'counted. Say "Accept the loss". The first' in shown(outcome([TaskResult("t", ("failed",), FAILED, label)]))


def test_no_command_is_cut_in_two() -> None:
    assert cut_off("Do this: `switchyard mirror unlink orders --to west`, then that.", 40) == "Do this…"
    assert cut_off("Do `this one` and then that.", 20) == "Do `this one` and…"
    assert cut_off("short", 20) == "short"
    assert cut_off("x" * 30, 20) == f"{'x' * 19}…"


def test_the_text_beside_a_task_ends_with_the_next_command_whole() -> None:
    command = "`switchyard reconcile east --reason 'east is back'`"
    long = outcome([TaskResult("record", ("success",), DONE, "moved 1 topic; " + "many words " * 40)])

    text = shown(long, f"Next: {command}")

    assert len(text) <= MAX_SHOWN
    assert text.startswith("DONE: moved 1 topic")
    assert text.endswith(f"… Next: {command}")


def test_a_command_that_is_longer_than_the_text_beside_a_task_is_left_to_the_page_of_the_run() -> None:
    text = shown(outcome([MOVED, ONE_FAILED]), f"Next: `switchyard undo {'x' * 300}`")

    assert len(text) <= MAX_SHOWN
    assert text.endswith("Next: see the tab Outcome of this run")
