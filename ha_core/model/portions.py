"""Split things into portions that fit one request or one write."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def portions(
    things: Iterable[T], max_size: int, size: Callable[[T], int], most_things: int | None = None
) -> Iterator[list[T]]:
    """Portions of consecutive things: their sizes add up to `max_size`, unless it is a single thing, and their number
    to `most_things`."""
    portion: list[T] = []
    total = 0
    for thing in things:
        more = size(thing)
        if portion and (total + more > max_size or len(portion) == most_things):
            yield portion
            portion, total = [], 0
        portion.append(thing)
        total += more
    if portion:
        yield portion
