"""The source offset at which a flow begins a partition that it has never copied."""

import pytest

from ha_core.flows.starts import BeginsAt, SeenLog, start_offset


@pytest.mark.parametrize(
    ("begins_at", "start"), [("earliest", 30), ("latest", 100)], ids=["at its log start", "at its end"]
)
def test_a_partition_that_exists_at_the_first_look_begins_where_the_setting_says(
    begins_at: BeginsAt, start: int
) -> None:
    assert start_offset(begins_at, SeenLog(30, 100)) == start


@pytest.mark.parametrize("begins_at", ["earliest", "latest"])
def test_a_partition_created_after_the_first_look_is_copied_from_its_start(begins_at: BeginsAt) -> None:
    assert start_offset(begins_at, None) == 0


@pytest.mark.parametrize("begins_at", ["earliest", "latest"])
def test_a_partition_whose_topic_was_created_again_is_copied_from_its_start(begins_at: BeginsAt) -> None:
    assert start_offset(begins_at, SeenLog(30, 100, "a1"), "b2") == 0


@pytest.mark.parametrize(("then", "now"), [("a1", "a1"), ("", "a1"), ("a1", ""), ("", "")])
def test_a_topic_counts_as_the_one_of_the_first_look_unless_both_ids_are_known_and_differ(then: str, now: str) -> None:
    assert start_offset("latest", SeenLog(30, 100, then), now) == 100


@pytest.mark.parametrize("begins_at", ["earliest", "latest"])
def test_a_partition_that_is_empty_at_the_first_look_is_copied_from_its_start(begins_at: BeginsAt) -> None:
    assert start_offset(begins_at, SeenLog(0, 0)) == 0
