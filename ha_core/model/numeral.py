"""Whole numbers in untrusted text. Python's `int` accepts digits of any script, and raises its own error for some
thousands of them."""


def whole_number(text: str, maximum: int) -> int | None:
    """Parse 0 to `maximum` in ASCII digits, leading zeros allowed; None: anything else."""
    if not (text.isascii() and text.isdecimal()):
        return None
    digits = text.lstrip("0") or "0"
    if len(digits) > len(str(maximum)):
        return None
    number = int(digits)
    return number if number <= maximum else None
