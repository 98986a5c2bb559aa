"""What is too much for one request, or one write, in portions that are not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def portions(
    things: Iterable[T], most: int, size: Callable[[T], int], most_things: int | None = None
) -> Iterator[list[T]]:
    """Runs of things whose sizes add up to `most`, or that are one thing; no longer than `most_things`."""
    portion: list[T] = []
    total = 0
    for thing in things:
        more = size(thing)
        if portion and (total + more > most or len(portion) == most_things):
            yield portion
            portion, total = [], 0
        portion.append(thing)
        total += more
    if portion:
        yield portion
