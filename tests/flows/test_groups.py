"""Checkpoints and commits: neither goes back unless the group went back; a group that reads in the target is left."""

from collections.abc import Mapping

import pytest

from ha_core.flows.filters import NameFilter, Patterns, parts
from ha_core.flows.groups import (
    SkippedGroup,
    TargetGroup,
    commits,
    goes_back,
    groups_to_follow,
    is_due,
    topic_of_checkpoint,
)
from ha_core.flows.own_filters import OwnFilter
from ha_core.flows.policies import DefaultPolicy
from ha_core.flows.records import Checkpoint

KEY = ("A.t", 0)


def checkpoint(upstream: int, downstream: int) -> Checkpoint:
    return Checkpoint("g", *KEY, upstream, downstream)


@pytest.mark.parametrize(
    ("last", "due", "sampled_due", "back"),
    [
        (None, True, True, False),
        (checkpoint(10, 5), True, True, False),
        (checkpoint(20, 15), False, False, False),
        (checkpoint(15, 18), True, False, True),  # the remote topic was created anew: records have lower offsets
        (checkpoint(20, 18), True, False, True),
        (checkpoint(30, 25), True, True, True),
        (checkpoint(10, 15), False, False, False),
    ],
)
def test_a_checkpoint_is_due_if_the_group_advanced_or_went_back(
    last: Checkpoint | None, due: bool, sampled_due: bool, back: bool
) -> None:
    assert is_due(checkpoint(20, 15), last, "exact") is due
    assert is_due(checkpoint(20, 15), last, "sampled") is sampled_due
    assert goes_back(checkpoint(20, 15), last) is back


def test_a_topic_that_came_from_the_target_has_its_original_name_there() -> None:
    policy = DefaultPolicy()
    assert topic_of_checkpoint(policy, "A", "B", "t") == "A.t"
    assert topic_of_checkpoint(policy, "A", "B", "B.t") == "t"
    assert topic_of_checkpoint(policy, "A", "B", "C.t") == "A.C.t"


def test_groups_that_a_flow_does_not_follow_have_a_reason() -> None:
    def chosen(include: str, exclude: str = "") -> NameFilter:
        return NameFilter(Patterns.of("x", parts(include)), Patterns.of("y", parts(exclude)))

    committed = {"billing": ["t"], "console-consumer-1": ["t"], "other": ["t"], "idle": ["unrelated"]}
    assert list(groups_to_follow(committed, chosen("(?!other).*", "console-consumer-.*"), chosen("t"))) == [
        "billing",
        SkippedGroup("console-consumer-1", "groups.exclude names it"),
        SkippedGroup("other", "groups does not name it"),
        SkippedGroup("idle", "it has committed no offset of a topic that the flow copies"),
    ]


def test_groups_that_a_filter_of_the_operators_does_not_accept_have_a_reason() -> None:
    none = Patterns.of("x", ())

    class OnlyBilling:
        def __init__(self, keys: Mapping[str, str]) -> None:
            pass

        def accepts(self, name: str) -> bool:
            return name == "billing"

    groups = NameFilter(none, none, OwnFilter("mine", OnlyBilling))
    topics = NameFilter(Patterns.of("x", (".*",)), none)
    assert list(groups_to_follow({"billing": ["t"], "other": ["t"]}, groups, topics)) == [
        "billing",
        SkippedGroup("other", "the filter mine does not accept it"),
    ]


@pytest.mark.parametrize(
    ("there", "go_back", "committed"),
    [
        (TargetGroup("Dead", {}), False, True),
        (TargetGroup("Empty", {}), False, True),
        (TargetGroup("Empty", {KEY: 10}), False, True),
        (TargetGroup("Empty", {KEY: None}), False, True),
        (TargetGroup("Empty", {KEY: 15}), False, False),
        (TargetGroup("Empty", {KEY: 20}), False, False),
        (TargetGroup("Empty", {KEY: 20}), True, True),
        (TargetGroup("Stable", {KEY: 10}), True, False),
        (TargetGroup("PreparingRebalance", {}), False, False),
    ],
)
def test_offsets_are_committed_only_for_idle_groups_and_only_forwards(
    there: TargetGroup, go_back: bool, committed: bool
) -> None:
    found = list(commits("g", {KEY: checkpoint(20, 15)}, there, go_back))
    assert [one for one in found if isinstance(one, Checkpoint)] == ([checkpoint(20, 15)] if committed else [])


def test_a_group_whose_offsets_are_not_committed_has_a_reason() -> None:
    (reads,) = commits("g", {KEY: checkpoint(20, 15)}, TargetGroup("Stable", {}), False)
    (above,) = commits("g", {KEY: checkpoint(20, 15)}, TargetGroup("Empty", {KEY: 20}), False)
    assert reads == SkippedGroup("g", "it is Stable in the target: its consumers there commit themselves")
    assert above == SkippedGroup("g", "the target has offset 20, above the translated 15", KEY)
