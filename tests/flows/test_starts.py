"""Where a flow begins partitions that it has never copied."""

import pytest

from ha_core.flows.starts import BeginsAt, SeenLog, start_offset


@pytest.mark.parametrize(
    ("begins_at", "start"), [("earliest", 30), ("latest", 100)], ids=["at its log start", "at its end"]
)
def test_a_partition_of_the_first_look_begins_where_the_setting_says(begins_at: BeginsAt, start: int) -> None:
    assert start_offset(begins_at, SeenLog(30, 100)) == start


@pytest.mark.parametrize("begins_at", ["earliest", "latest"])
def test_a_partition_that_is_created_later_is_copied_whole(begins_at: BeginsAt) -> None:
    assert start_offset(begins_at, None) == 0


@pytest.mark.parametrize("begins_at", ["earliest", "latest"])
def test_an_empty_partition_of_the_first_look_is_copied_whole(begins_at: BeginsAt) -> None:
    assert start_offset(begins_at, SeenLog(0, 0)) == 0
