"""Long lists in portions."""

from hypothesis import given
from hypothesis import strategies as st

from ha_core.model.portions import portions


@given(st.lists(st.integers(0, 30), max_size=60), st.integers(1, 20), st.integers(1, 5) | st.none())
def test_portions_keep_everything_in_order_and_only_a_thing_by_itself_is_larger_than_allowed(
    things: list[int], most: int, most_things: int | None
) -> None:
    found = list(portions(things, most, int, most_things))

    assert [thing for portion in found for thing in portion] == things
    assert all(sum(portion) <= most or len(portion) == 1 for portion in found)
    assert all(0 < len(portion) <= (most_things or len(things)) for portion in found)


def test_a_portion_is_filled_before_the_next_one_begins() -> None:
    assert list(portions([3, 3, 4, 1, 9, 1, 1], 10, int)) == [[3, 3, 4], [1, 9], [1, 1]]
