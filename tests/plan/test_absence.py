"""A cluster that was away: which operation may begin, and what a look at its log settles."""

from typing import get_args

import pytest

from ha_core.model import Cluster, View
from ha_core.model.cluster import Mask
from ha_core.plan.absence.decision import (
    FINDINGS,
    PERMITS,
    AbsenceOperation,
    Finding,
    Presence,
    State,
    compare,
    out_of_service,
    settled,
)


def test_every_operation_has_a_rule_for_every_presence_and_every_finding_has_one() -> None:
    assert set(PERMITS) == set(get_args(AbsenceOperation))
    assert all(set(states) == set(get_args(State)) for states in PERMITS.values())
    assert set(FINDINGS) == set(get_args(Finding))


@pytest.mark.parametrize("state", ["refuses", "back"])
def test_records_of_a_cluster_that_answers_are_given_up_only_by_the_operators_word(state: State) -> None:
    presence = Presence("east", state)
    assert presence.answers
    assert not presence.permits("give-up")
    assert presence.permits("give-up", declared=True)


@pytest.mark.parametrize("state", get_args(State))
def test_extents_close_only_by_the_logs_of_a_cluster_that_can_be_asked(state: State) -> None:
    assert Presence("east", state).permits("return", declared=True) == (state == "back")


def test_only_a_cluster_that_is_away_is_said_to_be_gone_for_good() -> None:
    words = {state: Presence("east", state, "why").words for state in get_args(State)}
    assert [state for state, text in words.items() if "give-up east" in text] == ["away"]
    assert "`switchyard unmask east` when it is healthy" in words["masked"]


def test_a_masked_or_removed_cluster_is_not_asked() -> None:
    east = Cluster(name="east", bootstrap="east:9092")
    masked = east.changed(name="west", masked=Mask(reason="rack fire", since="2026-01-01T00:00:00Z", by="ann"))
    view = View(clusters={"east": east, "west": masked})
    assert out_of_service(view, "east") is None
    assert out_of_service(view, "west") == Presence("west", "masked", "rack fire")
    assert out_of_service(view, "north") == Presence("north", "unregistered")


@pytest.mark.parametrize(
    ("end", "most", "finding"),
    [
        (99, None, "less"),
        (100, None, "whole"),
        (500, None, "whole"),
        (99, 200, "less"),
        (200, 200, "whole"),
        (201, 200, "more"),
    ],
)
def test_a_log_is_whole_from_its_known_end_up_to_its_cut(end: int, most: int | None, finding: Finding) -> None:
    assert compare(end, 100, most) == finding


def test_without_the_operators_word_only_a_whole_or_counted_log_is_settled() -> None:
    for what in ("extent", "tail"):
        assert {one for one in FINDINGS if settled(one, what, accepted=False)} == {"whole", "counted"}


def test_an_accepted_loss_never_closes_an_extent_whose_log_is_unknown() -> None:
    assert not settled("unknown", "extent", accepted=True)
    assert settled("unknown", "tail", accepted=True)
