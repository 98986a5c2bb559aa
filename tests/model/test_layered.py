"""A layered mapping is an immutable dict whose changed copies share unchanged entries."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_core.model import layered
from ha_core.model.layered import Layered

keys = st.integers(0, 40).map(str)
changes = st.lists(st.dictionaries(keys, st.none() | st.integers(), max_size=20), max_size=8)


@pytest.fixture(autouse=True, scope="module")
def small() -> Iterator[None]:
    with patch.object(layered, "LEAST", 3), patch.object(layered, "PART", 4):
        yield


@given(st.dictionaries(keys, st.integers(), max_size=40), changes)
def test_a_changed_copy_equals_a_changed_dict_and_the_original_stays(
    first: dict[str, int], taken: list[dict[str, int | None]]
) -> None:
    made, expected = Layered(first), dict(first)
    for change in taken:
        before, was = made, dict(expected)

        made = made.changed(change)

        expected = {key: value for key, value in (expected | change).items() if value is not None}
        assert (dict(made.items()), len(made), set(made), dict(made.entries())) == (
            expected,
            len(expected),
            set(expected),
            expected,
        )
        assert before == was
        assert len(before) == len(was)
        for key in map(str, range(42)):
            assert (key in made, made.get(key), made.get(key, -1)) == (
                key in expected,
                expected.get(key),
                expected.get(key, -1),
            )


def test_of_many_entries_a_change_copies_a_few() -> None:
    values = {str(number): object() for number in range(1000)}
    before = Layered(values)

    after = before.changed({"7": object(), "8": None})

    assert after._below is before._below
    assert len(after._upper) == 2


def test_missing_records_are_reported() -> None:
    made = Layered({"a": 1, "b": 2}).changed({"a": None})
    for key in "ac":
        with pytest.raises(KeyError, match=key):
            made[key]
