"""Partitions are spread over tasks evenly, and keep their tasks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_jobs.mirror.planning import SLACK, assign

keys = st.integers(0, 60)


def test_large_partitions_are_spread_first() -> None:
    assert assign("abcd", {"a": 100, "b": 60, "c": 50, "d": 10}, 2, {}) == {"a": 0, "b": 1, "c": 1, "d": 0}


def test_a_partition_stays_with_its_task_when_others_come_and_go() -> None:
    before = assign(range(10), {}, 3, {})
    after = assign([*range(8), 20, 21], {}, 3, before)
    assert {one: task for one, task in after.items() if one < 8} == {one: before[one] for one in range(8)}


def test_partitions_of_a_dead_task_go_to_the_others() -> None:
    before = assign(range(9), {}, 3, {})
    after = assign(range(9), {}, 2, before)
    assert set(after.values()) == {0, 1}
    assert all(after[one] == task for one, task in before.items() if task < 2)


def test_two_dominant_partitions_get_separate_tasks() -> None:
    after = assign("abcd", {"a": 900, "b": 900, "c": 1, "d": 1}, 2, {"a": 0, "b": 0, "c": 1, "d": 1})
    assert after["a"] != after["b"]


def test_moves_that_only_swap_loads_are_not_made() -> None:
    before = assign(range(9), {0: 44739243.06218417}, 4, {})
    assert assign(range(9), {0: 44739243.06218417}, 4, before) == before


def test_one_partition_that_is_larger_than_all_others_stays_where_it_is() -> None:
    assert assign("ab", {"a": 1000, "b": 1}, 2, {"a": 0, "b": 1}) == {"a": 0, "b": 1}


def test_idle_partitions_stay_beside_one_that_is_larger_than_all_others() -> None:
    # Given one busy partition and two thousand idle ones
    busy = {0: 1_000_000.0, **dict.fromkeys(range(1, 2001), 0.0)}
    before = assign(range(2001), dict.fromkeys(range(2001), 0.0), 2, {})
    # Then nothing moves when it begins, nor when it ends
    assert assign(range(2001), busy, 2, before) == before


def test_many_small_partitions_with_a_large_sum_are_spread() -> None:
    after = assign(range(1000), dict.fromkeys(range(1000), 1000.0), 2, dict.fromkeys(range(1000), 0))

    assert 375 <= list(after.values()).count(1) <= 500


def test_second_task_for_a_whole_fleet_gets_its_share_quickly() -> None:
    # Twenty thousand partitions compared pair by pair would take minutes.
    weighed: list[int] = []

    class Key(int):
        def __str__(self) -> str:
            weighed.append(self)
            return int.__str__(self)

    keys = [Key(n) for n in range(20_000)]

    after = assign(keys, {}, 2, dict.fromkeys(keys, 0))

    assert 7_500 <= list(after.values()).count(1) <= 10_000
    assert len(weighed) <= len(keys)


def test_without_a_task_nothing_can_be_assigned() -> None:
    with pytest.raises(ValueError, match="0 tasks"):
        assign("a", {}, 0, {})


@given(
    st.sets(keys, min_size=1), st.dictionaries(keys, st.floats(0, 1e9)), st.integers(1, 8), st.dictionaries(keys, keys)
)
def test_every_partition_has_one_task_and_a_second_pass_moves_nothing(
    partitions: set[int], measured: dict[int, float], tasks: int, placed: dict[int, int]
) -> None:
    found = assign(partitions, measured, tasks, placed)
    assert found.keys() == partitions
    assert set(found.values()) <= set(range(tasks))
    assert assign(partitions, measured, tasks, found) == found


@given(st.integers(20, 200), st.integers(2, 8))
def test_many_partitions_of_like_size_are_even(count: int, tasks: int) -> None:
    found = assign(range(count), {}, tasks, dict.fromkeys(range(count), 0))
    shares = [list(found.values()).count(task) for task in range(tasks)]
    assert max(shares) <= SLACK * count / tasks + 1
