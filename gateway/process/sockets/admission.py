"""Who may be connected: so many who have not said who they are, each for so long, and so many of each user.

Many who do not log in have less time, so that they cannot keep out those who do. Users are counted, not addresses:
behind a load balancer all clients come from one.

Each other gateway keeps a connection here by which it would notice the end of this one (`peers`), and never logs in.
There is room for these beside the clients: else, with many gateways, clients would wait for their turn all the time,
and so would the gateways, who would take this one for dead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Generic, TypeVar

HURRY_S = 1.0
"""How long each has at least, however many there are."""

C = TypeVar("C")


class Logins(Generic[C]):
    def __init__(self, most: int, patience_s: float) -> None:
        self._most, self._patience_s = most, patience_s
        self._since: dict[C, float] = {}
        """In the order in which they came."""
        self.gateways = 0
        """Others, of which each has a connection here, and a second one while it looks."""

    def __len__(self) -> int:
        return len(self._since)

    def came(self, connection: C, now: float) -> None:
        self._since[connection] = now

    def entered(self, connection: C) -> None:
        """It has logged in, or has gone."""
        self._since.pop(connection, None)

    def room(self, now: float) -> tuple[bool, C | None]:
        """Whether one more may come; and the one that has to go for it, if it has to."""
        if len(self._since) < self._most + 2 * self.gateways:
            return True, None
        oldest = next(iter(self._since))
        return (True, oldest) if now - self._since[oldest] >= HURRY_S else (False, None)

    def overdue(self, now: float) -> list[C]:
        return [connection for connection, since in self._since.items() if now - since >= self._patience_s]


class ConnectionShares:
    def __init__(self) -> None:
        self._user: dict[Hashable, str] = {}
        self._connections: Counter[str] = Counter()

    def admit(self, connection: Hashable, user: str, most: int) -> bool:
        """Whether the user may have this one as well; it is counted as his, and no longer as whosever it was."""
        self.release(connection)
        if self._connections[user] >= most:
            return False
        self._user[connection] = user
        self._connections[user] += 1
        return True

    def release(self, connection: Hashable) -> None:
        user = self._user.pop(connection, None)
        if user is not None:
            self._connections[user] -= 1
            if not self._connections[user]:
                del self._connections[user]


def share(connections: int, users: int) -> int:
    """How many one user may have where nothing else is said: half, unless there is nobody whom the rest is kept for."""
    return max(1, connections // 2) if users > 1 else connections
