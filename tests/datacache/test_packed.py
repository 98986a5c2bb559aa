"""Packed values are the values that they were made of, in less memory."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ha_core.datacache.core.digest import of_rows
from ha_core.datacache.core.packed import Packed, packed, plain
from ha_core.datacache.core.source import Row

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
VALUES = st.dictionaries(st.text(), JSON, max_size=8)


def of(value: dict[str, Any]) -> Packed:
    made = packed(Row("key", 1, value)).value
    assert isinstance(made, Packed)
    return made


@given(VALUES, VALUES)
def test_a_packed_value_equals_its_dict_and_nothing_else(value: dict[str, object], other: dict[str, object]) -> None:
    made = of(value)

    assert made == value
    assert plain(made) == value
    assert (made == of(other)) == (value == other)
    assert of_rows([Row("a", 1, made)]) == of_rows([Row("a", 1, value)])
    assert all(made[field] == value[field] for field in value)


def test_deletions_and_packed_rows_stay_as_they_are() -> None:
    gone, row = Row("a", 1, None), packed(Row("a", 1, {"b": "c"}))

    assert packed(gone) is gone
    assert packed(row) is row


def test_shared_parts_are_stored_once() -> None:
    one, two = (of({"".join(["na", "me"]): "".join(["or", "ders"])}) for _ in range(2))

    assert one["name"] is two["name"]
    assert next(iter(one)) is next(iter(two))


def test_missing_fields_raise_and_a_repr_shows_no_values() -> None:
    value = of({"secret": "canary"})

    with pytest.raises(KeyError, match="name"):
        value["name"]
    assert "canary" not in repr(value)
