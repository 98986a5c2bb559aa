"""Offsets of a group that moves to the target: exact ones, ones that repeat records, ones that would lose records."""

import pytest

from ha_core.flows.filters import NameFilter, Patterns
from ha_core.flows.group_move import LogStarts, MovedOffset, MovedTopic, NotMoved, moved_offsets, place_of
from ha_core.flows.groups import TargetGroup
from ha_core.flows.policies import DefaultPolicy, IdentityPolicy
from ha_core.flows.topology import FlowRoute
from ha_core.flows.translation import Translated, Translation, Untranslated, by_runs
from ha_core.model import Run

ALL = NameFilter(Patterns.of("topics", (".*",)), Patterns.of("topics.exclude", ()))
THERE = FlowRoute("A", "B", DefaultPolicy(), ALL)
BACK = FlowRoute("B", "A", DefaultPolicy(), ALL)
RUNS = (Run(10, 0, 5), Run(16, 5, 4))
"""Offset 15 of the source has no record."""
COPY = MovedTopic("A.orders", "copy")
EMPTY = TargetGroup("Empty", {})


def moved(
    offset: int, begins: int | None = 10, there: TargetGroup = EMPTY, copy_begins: int | None = 0
) -> MovedOffset | NotMoved:
    def translate(_partition: tuple[str, int], _place: MovedTopic, offset: int) -> Translation:
        return by_runs(RUNS, offset)

    source = {} if begins is None else {("orders", 0): begins}
    target = {} if copy_begins is None else {("A.orders", 0): copy_begins}
    (found,) = moved_offsets(
        {("orders", 0): (offset, "note")}, {"orders": COPY}, LogStarts(source, target), translate, there
    )
    return found


@pytest.mark.parametrize(("offset", "there"), [(10, 0), (14, 4), (15, 5), (16, 5), (20, 9), (3, 0)])
def test_an_exactly_known_offset_is_moved_with_its_metadata_and_without_repeats(offset: int, there: int) -> None:
    assert moved(offset) == MovedOffset("orders", 0, offset, ("A.orders", 0), there, "note")


def test_an_offset_above_the_copy_repeats_records_copied_until_then() -> None:
    found = moved(25)
    assert isinstance(found, MovedOffset)
    assert (found.there, bool(found.repeats)) == (9, True)


def test_an_offset_below_the_targets_own_commit_is_reported_as_a_repeat() -> None:
    found = moved(12, there=TargetGroup("Empty", {("A.orders", 0): 7}))
    assert isinstance(found, MovedOffset)
    assert "committed 7 in the target, above 2" in found.repeats


def test_an_offset_whose_records_were_not_copied_is_not_moved() -> None:
    found = moved(8, begins=7)
    assert isinstance(found, NotMoved)
    assert "were not copied" in found.reason


def test_an_offset_whose_records_the_target_has_deleted_is_not_moved() -> None:
    found = moved(12, copy_begins=3)
    assert isinstance(found, NotMoved)
    assert found.reason.startswith("its next record had offset 2 of A.orders-0 in the target")
    assert "deleted everything below 3" in found.reason


def test_partitions_that_do_not_exist_are_reported() -> None:
    for found in (moved(12, begins=None), moved(12, copy_begins=None)):
        assert isinstance(found, NotMoved)
        assert "does not exist" in found.reason


def test_an_untranslated_offset_keeps_its_reason() -> None:
    (found,) = moved_offsets(
        {("orders", 0): (1, "")},
        {"orders": COPY},
        LogStarts({("orders", 0): 0}, {}),
        lambda *_: Untranslated("nothing is copied yet"),
        EMPTY,
    )
    assert found == NotMoved("orders", 0, 1, "nothing is copied yet")


def test_a_topic_that_neither_flow_copies_is_reported() -> None:
    (found,) = moved_offsets(
        {("orders", 0): (1, "")},
        {"orders": None},
        LogStarts({("orders", 0): 0}, {}),
        lambda *_: Translated(0, "exact"),
        EMPTY,
    )
    assert isinstance(found, NotMoved)
    assert "no enabled flow" in found.reason


@pytest.mark.parametrize(
    ("topic", "forward", "backward", "place"),
    [
        ("orders", THERE, None, MovedTopic("A.orders", "copy")),
        ("orders", THERE, BACK, MovedTopic("A.orders", "copy")),
        ("B.orders", THERE, BACK, MovedTopic("orders", "origin")),
        ("B.orders", None, BACK, MovedTopic("orders", "origin")),
        ("B.C.orders", None, BACK, MovedTopic("C.orders", "origin")),
        ("orders", None, BACK, None),
        ("orders", None, FlowRoute("B", "A", IdentityPolicy(source_alias="B"), ALL), MovedTopic("orders", "origin")),
        ("B.orders", THERE, None, None),
        ("mm2-copies.internal", THERE, BACK, None),
    ],
)
def test_a_topics_place_in_the_target_follows_from_the_flows_in_both_directions(
    topic: str, forward: FlowRoute | None, backward: FlowRoute | None, place: MovedTopic | None
) -> None:
    assert place_of(topic, forward, backward, "B") == place
