"""What a request names, maybe several times.

Brokers differ by the API: where the mentions may contradict each other they refuse all of them, DELETE_RECORDS does the
last one, and all else answers each mention by itself, in the order of the request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from typing import TypeVar

K = TypeVar("K", bound=Hashable)

MAX_MENTIONS = 4
"""Of one name in a request, which are answered. A description may have a megabyte, and a mention few bytes. No client
library names anything twice: whatever comes beyond is told to ask again."""


def numbered(names: Iterable[K]) -> Iterator[tuple[K, int]]:
    """Each mention of a name, with the number of those before it."""
    before: Counter[K] = Counter()
    for name in names:
        yield name, before[name]
        before[name] += 1
