"""Whole numbers in text from outside. Python's `int` takes digits of any script, and raises an error of its own for
some thousands of them."""

from __future__ import annotations


def whole_number(text: str, most: int) -> int | None:
    """The number that the text is, if it is one from 0 to `most` in ASCII digits; leading zeros do not count."""
    if not (text.isascii() and text.isdecimal()):
        return None
    digits = text.lstrip("0") or "0"
    if len(digits) > len(str(most)):
        return None
    number = int(digits)
    return number if number <= most else None
