"""Whole numbers in text from outside."""

import pytest

from ha_core.model.cluster import parse_bootstrap
from ha_core.model.numeral import whole_number


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("7", 7), ("007", 7), ("100", 100), ("0" * 5000, 0)])
def test_digits_are_a_number(text: str, number: int) -> None:
    assert whole_number(text, 100) == number


@pytest.mark.parametrize("text", ["", "101", "-1", "+1", "1.0", " 1", "1\n", "\u0663", "\u00b2", "9" * 5000])
def test_anything_else_and_numbers_above_the_bound_are_none(text: str) -> None:
    assert whole_number(text, 100) is None


def test_a_port_of_thousands_of_digits_is_named_as_any_other_wrong_address() -> None:
    with pytest.raises(ValueError, match="is not host:port"):
        parse_bootstrap("broker:" + "9" * 5000)
