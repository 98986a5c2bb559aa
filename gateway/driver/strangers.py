"""Connections of those who have not said who they are: so many at once, and each for so long.

Whoever logs in takes some round trips. Where there are many who do not, they have less time, so that they cannot keep
out those who do.
"""

from __future__ import annotations

from typing import Generic, TypeVar

HURRY_S = 1.0
"""How long each has at least, however many there are."""

C = TypeVar("C")


class Strangers(Generic[C]):
    def __init__(self, most: int, patience_s: float) -> None:
        self._most, self._patience_s = most, patience_s
        self._since: dict[C, float] = {}
        """In the order in which they came."""

    def __len__(self) -> int:
        return len(self._since)

    def came(self, connection: C, now: float) -> None:
        self._since[connection] = now

    def entered(self, connection: C) -> None:
        """It has logged in, or has gone."""
        self._since.pop(connection, None)

    def room(self, now: float) -> tuple[bool, C | None]:
        """Whether one more may come; and the one that has to go for it, if it has to."""
        if len(self._since) < self._most:
            return True, None
        oldest = next(iter(self._since))
        return (True, oldest) if now - self._since[oldest] >= HURRY_S else (False, None)

    def overdue(self, now: float) -> list[C]:
        """Those whose time is over."""
        return [connection for connection, since in self._since.items() if now - since >= self._patience_s]
