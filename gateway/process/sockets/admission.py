"""Limits on connections: on those that have not logged in, in number and time, and on those of each user.

When many have not logged in they get less time, so that they cannot keep out clients that do. Users are counted, not
addresses: behind a load balancer all clients have one address.

Each other gateway keeps a connection here that shows it the end of this one (`peers`), and never logs in. These have
room of their own beside the clients: otherwise, with many gateways, clients would wait for a place all the time, and
so would the gateways, which would take this one for dead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from typing import Generic, TypeVar

HURRY_S = 1.0
"""Least time for each, however many there are."""

C = TypeVar("C")


class Logins(Generic[C]):
    def __init__(self, most: int, patience_s: float) -> None:
        self._most, self._patience_s = most, patience_s
        self._since: dict[C, float] = {}
        """In order of arrival."""
        self.gateways = 0
        """Other gateways; each has one connection here, and a second one during a probe."""

    def __len__(self) -> int:
        return len(self._since)

    def came(self, connection: C, now: float) -> None:
        self._since[connection] = now

    def entered(self, connection: C) -> None:
        """The connection has logged in, or has ended."""
        self._since.pop(connection, None)

    def room(self, now: float) -> tuple[bool, C | None]:
        """Whether one more is admitted, and the connection to end for it, if any."""
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
        """Whether the user may have this connection, too; counts it for the user, and no longer for an earlier one."""
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
    """Default limit per user: half of all connections, or all of them if there is only one user."""
    return max(1, connections // 2) if users > 1 else connections
