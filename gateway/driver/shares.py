"""How many connections each user has: nobody may have so many that there is no room for the others.

Counted by user and not by address: behind a load balancer all clients come from one.
"""

from __future__ import annotations

from collections import Counter
from typing import Generic, TypeVar

C = TypeVar("C")


class Shares(Generic[C]):
    def __init__(self) -> None:
        self._user: dict[C, str] = {}
        self._held: Counter[str] = Counter()

    def take(self, connection: C, user: str, most: int) -> bool:
        """Whether the user may have this one as well; it is counted as his, and no longer as whosever it was."""
        self.give_back(connection)
        if self._held[user] >= most:
            return False
        self._user[connection] = user
        self._held[user] += 1
        return True

    def give_back(self, connection: C) -> None:
        """It has gone."""
        user = self._user.pop(connection, None)
        if user is not None:
            self._held[user] -= 1
            if not self._held[user]:
                del self._held[user]


def share(connections: int, users: int) -> int:
    """How many one user may have where nothing else is said: half, unless there is nobody whom the rest is kept for."""
    return max(1, connections // 2) if users > 1 else connections
