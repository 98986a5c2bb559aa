"""Known names like a mistyped one."""

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

MAX_COMPARED = 5_000
"""Names of about the same length; comparing so many takes some 100 ms."""
MAX_LENGTHS_APART = 3
MAX_LENGTH = 250
LIKENESS = 0.7


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` Did you mean orders?`; empty: no known name is like it."""
    if not name or len(name) > MAX_LENGTH:
        return ""
    near = (one for one in known if one != name and abs(len(one) - len(name)) <= MAX_LENGTHS_APART)
    found = get_close_matches(name, islice(near, MAX_COMPARED), n=2, cutoff=LIKENESS)
    return f" Did you mean {' or '.join(found)}?" if found else ""
