"""Rows of the benchmarks of flows that measured nothing or miss their goals, and their arithmetic."""

from typing import Any

import pytest

from bench import flows, flows_offsets
from bench.flow_sides import OURS, PEER
from bench.flows_offsets import EXACT, GivenRecords, Offsets, given
from bench.flows_renaming import within


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([7, 8, 9], GivenRecords(0, 0)),
        ([5, 6, 7, 8, 9], GivenRecords(2, 0)),
        ([8, 9], GivenRecords(0, 1)),
        ([7, 8, 8, 9], GivenRecords(1, 0)),
        ([], GivenRecords(0, 3)),
    ],
)
def test_records_below_the_offset_or_doubled_come_twice_and_absent_ones_never(
    values: list[int], expected: GivenRecords
) -> None:
    assert given(values, committed=7, records=10) == expected


def offsets(ours: Offsets, peer: Offsets) -> dict[str, Offsets]:
    theirs = {"checkpoint, 0 back": GivenRecords(4, 0), "checkpoint, 5 back": None}
    sound = {f"{way}, {back} back": GivenRecords(0, 0) for way in ("checkpoint", EXACT) for back in (0, 5)}
    return {PEER: {**theirs, **peer}, OURS: {**sound, **ours}}


def test_an_offset_below_the_oldest_sync_of_mirror_maker_is_a_figure() -> None:
    found = offsets({}, {})
    assert list(flows_offsets.unmeasured(found, (0, 5))) == []
    assert list(flows_offsets.missed(found)) == []


@pytest.mark.parametrize(
    ("ours", "peer", "said"),
    [
        ({f"{EXACT}, 0 back": None}, {}, "no translation by exact map for [0] behind"),
        ({}, {"checkpoint, 0 back": None}, "no translation by checkpoint for [0, 5] behind"),
    ],
)
def test_a_way_without_translation_is_named(ours: Offsets, peer: Offsets, said: str) -> None:
    (found,) = flows_offsets.unmeasured(offsets(ours, peer), (0, 5))
    assert said in found


@pytest.mark.parametrize(
    ("ours", "said"),
    [
        ({f"{EXACT}, 0 back": GivenRecords(1, 0)}, "1 / 0 records twice / never, goal 0 / 0"),
        ({"checkpoint, 5 back": GivenRecords(0, 2)}, "2 records are skipped"),
    ],
)
def test_inexact_offsets_of_ours_are_named(ours: Offsets, said: str) -> None:
    (found,) = flows_offsets.missed(offsets(ours, {}))
    assert said in found


@pytest.mark.parametrize(
    ("ours", "peer", "unmeasured", "missed"),
    [
        ({}, {}, [], []),
        ({"new_topic_s": None}, {}, ["the new topic was not copied in time"], []),
        ({}, {"all_topics_s": None}, ["not all topics were copied"], []),
        ({}, {"rebalances": 0}, ["its log has no rebalance"], []),
        ({"rebalances": 4}, {}, [], ["4 partitions were taken over again"]),
        ({"new_topic_s": 5.5}, {}, [], ["a new topic takes 5.5 s"]),
    ],
)
def test_topics_that_were_not_copied_and_rebalances_are_named(
    ours: dict[str, Any], peer: dict[str, Any], unmeasured: list[str], missed: list[str]
) -> None:
    found = {
        PEER: {"all_topics_s": 90.0, "new_topic_s": 500.0, "rebalances": 3, **peer},
        OURS: {"all_topics_s": 9.0, "new_topic_s": 2.0, "rebalances": 0, **ours},
    }
    for wanted, texts in ((unmeasured, flows.unmeasured(found)), (missed, flows.missed(found))):
        said = list(texts)
        assert len(said) == len(wanted)
        assert all(one in text for one, text in zip(wanted, said, strict=True))


@pytest.mark.parametrize(("renamed", "kept"), [(96.0, True), (94.0, False)])
def test_renaming_may_cost_five_percent(renamed: float, kept: bool) -> None:
    assert within({"its own name": [100.0], "another name": [renamed]}) is kept
