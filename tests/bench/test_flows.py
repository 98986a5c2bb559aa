"""What the benchmark of flows says about the records that a group is given after a failover."""

from typing import Any

import pytest

from bench.flows import OURS, PEER, missed, unmeasured
from bench.flows_offsets import EXACT, Given, given
from bench.flows_renaming import within


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7, 8, 9], Given(0, 0)),
        ([5, 6, 7, 8, 9], Given(2, 0)),
        ([8, 9], Given(0, 1)),
        ([7, 8, 8, 9], Given(1, 0)),
        ([], Given(0, 3)),
    ],
)
def test_records_below_the_offset_or_doubled_come_twice_and_absent_ones_never(
    values: list[int], expected: Given
) -> None:
    assert given(values, committed=7, records=10) == expected


def figures(ours: dict[str, Any], peer: dict[str, Any]) -> dict[str, dict[str, object]]:
    side = {"new_topic_s": 2.0, "rebalances": 0}
    return {
        PEER: {
            **side,
            "rebalances": 3,
            "offsets": {"checkpoint, 0 back": Given(4, 0), "checkpoint, 5 back": None},
            **peer,
        },
        OURS: {**side, "offsets": {"checkpoint, 0 back": Given(0, 0), f"{EXACT}, 0 back": Given(0, 0)}, **ours},
    }


def test_sound_figures_are_measured_and_meet_their_goals() -> None:
    found = figures({}, {})
    found[OURS]["offsets"] = {"checkpoint, 0 back": Given(0, 0), "checkpoint, 5 back": Given(0, 0)}
    assert list(unmeasured(found, (0, 5))) == []
    assert list(missed(figures({}, {}))) == []


@pytest.mark.parametrize(
    ("ours", "peer", "said"),
    [
        ({"new_topic_s": None}, {}, "the new topic was not copied in time"),
        ({}, {"rebalances": 0}, "its log has no rebalance"),
        ({"offsets": {f"{EXACT}, 0 back": None}}, {}, "no translation by exact map"),
        ({}, {"offsets": {"checkpoint, 0 back": None}}, "no translation by checkpoint"),
    ],
)
def test_a_row_that_measured_nothing_is_named(ours: dict[str, Any], peer: dict[str, Any], said: str) -> None:
    assert any(said in one for one in unmeasured(figures(ours, peer), (0,)))


@pytest.mark.parametrize(
    ("ours", "said"),
    [
        ({"offsets": {f"{EXACT}, 0 back": Given(1, 0)}}, "goal 0 / 0"),
        ({"offsets": {"checkpoint, 0 back": Given(0, 2)}}, "2 records are skipped"),
        ({"rebalances": 4}, "taken over again"),
        ({"new_topic_s": 5.5}, "takes 5.5 s"),
    ],
)
def test_a_missed_goal_is_named(ours: dict[str, Any], said: str) -> None:
    (found,) = missed(figures(ours, {}))
    assert said in found


@pytest.mark.parametrize(("renamed", "kept"), [(96.0, True), (94.0, False)])
def test_renaming_may_cost_five_percent(renamed: float, kept: bool) -> None:
    assert within({"its own name": [100.0], "another name": [renamed]}) is kept
