"""Repeated names in one request.

Brokers differ by API: if the mentions may contradict each other they refuse all of them, DELETE_RECORDS executes the
last one, and all other APIs answer each mention, in the order of the request.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from typing import TypeVar

K = TypeVar("K", bound=Hashable)

MAX_MENTIONS = 4
"""Mentions of one name that are answered. A description may have a megabyte, and a mention few bytes. No client library
repeats names; further mentions get a retriable error."""


def numbered(names: Iterable[K]) -> Iterator[tuple[K, int]]:
    """Each mention of a name, with the number of earlier ones."""
    before: Counter[K] = Counter()
    for name in names:
        yield name, before[name]
        before[name] += 1
