"""Cuts that logs reached by themselves, from operations and their histories."""

from typing import Any

from ha_core.model import HistoryEntry
from ha_core.model.evidence import CrossingEvidence, Cut
from ha_core.model.operation import MigrateOperation
from stack.history.evidence import cuts_ahead
from tests.kit.operations import a_migration

AHEAD = {("orders", 0, "east", "west"), ("orders", 1, "east", "west")}


def crossed(opened: str | None = "2026-01-01T00:00:02.000Z", state: Any = "succeeded") -> MigrateOperation:
    cuts = tuple(Cut(partition, start=700, base=0, writer_epoch=1) for partition in range(2))
    return a_migration(state=state, evidence=CrossingEvidence(opened=opened, cuts={"orders": cuts}))


def entry(step: str, **detail: Any) -> HistoryEntry:
    return HistoryEntry(at="2026-01-01T00:00:03.000Z", epoch=1, step=step, outcome="done", detail=detail)


def test_a_cut_lay_ahead_though_its_proposer_was_stopped_before_he_wrote_it_into_the_history() -> None:
    assert cuts_ahead([(crossed(), [entry("open"), entry("settle")])]) == AHEAD


def test_a_cut_that_was_lowered_under_a_fence_is_an_ordinary_one() -> None:
    lowered = entry("finish", lowered_to={"orders": {"1": 150}})

    assert cuts_ahead([(crossed(), [entry("open"), lowered])]) == {("orders", 0, "east", "west")}


def test_with_too_many_lowered_cuts_to_list_none_counts_as_reached_ahead() -> None:
    assert cuts_ahead([(crossed(), [entry("open"), entry("finish", lowered_to_left_out=9_000)])]) == set()


def test_a_crossing_that_was_not_opened_or_did_not_succeed_has_no_cut_that_a_log_ran_into() -> None:
    assert cuts_ahead([(crossed(opened=None), []), (crossed(state="undone"), [])]) == set()
