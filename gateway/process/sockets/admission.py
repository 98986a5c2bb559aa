"""Limits on connections: on those that have not logged in, in number and time, on those of each user, and on those to
brokers.

When many have not logged in they get less time, so that they cannot keep out clients that do. Users are counted, not
addresses: behind a load balancer all clients have one address.

Each other gateway keeps a connection here that shows it the end of this one (`peers`), and never logs in. These have
room of their own beside the clients: otherwise, with many gateways, clients would wait for a place all the time, and
so would the gateways, which would take this one for dead.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Hashable
from itertools import islice
from typing import Generic, Protocol, TypeVar

HURRY_S = 1.0
"""Least time for each, however many there are."""

C = TypeVar("C")


class Logins(Generic[C]):
    def __init__(self, limit: int, patience_s: float) -> None:
        self._limit, self._patience_s = limit, patience_s
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
        if len(self._since) < self._limit + 2 * self.gateways:
            return True, None
        oldest = next(iter(self._since))
        return (True, oldest) if now - self._since[oldest] >= HURRY_S else (False, None)

    def overdue(self, now: float) -> list[C]:
        return [connection for connection, since in self._since.items() if now - since >= self._patience_s]


class ConnectionShares:
    def __init__(self) -> None:
        self._user: dict[Hashable, str] = {}
        self._connections: Counter[str] = Counter()

    def admit(self, connection: Hashable, user: str, limit: int) -> bool:
        """Whether the user may have this connection, too; counts it for the user, and no longer for an earlier one."""
        self.release(connection)
        if self._connections[user] >= limit:
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


SLICE_S = 0.002
MAX_LEFT = 32


class UnauthenticatedReads:
    """Limits reading from clients that have not logged in to a few milliseconds in each turn of the loop. Used on one
    event loop only.

    Their requests take longer than forwarded ones, and anyone may send them: read as they arrive, requests of a
    thousand clients would be one turn of the loop, and clients that are logged in would wait for its end.

    The kernel reports clients that were not read again in the next turn, in their order, so none is starved.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.slice_s = SLICE_S
        self._until: float | None = None
        """When this turn's time is over; None: no client was read in it."""
        self._left = self._left_before = 0
        """Clients not read in this turn, and in the one before it."""
        self._looking = False

    @property
    def busy(self) -> bool:
        """Whether to accept no more: clients stay in the kernel's queue, in order, lest those that wait here are ended
        to make room for later ones."""
        return self._left_before >= MAX_LEFT

    def may_be_read(self) -> bool:
        """To be called by each client with input, in each turn until it returns true."""
        if not self._looking:
            self._looking = True
            self._loop.call_soon(self._next_turn)
        now = time.monotonic()
        if self._until is None:
            self._until = now + self.slice_s
        elif now >= self._until:
            self._left += 1
            return False
        return True

    def _next_turn(self) -> None:
        self._until = None
        self._left_before, self._left = self._left, 0
        self._looking = self._left_before > 0
        if self._looking:
            self._loop.call_soon(self._next_turn)


LOOKED_AT = 50
"""Clients asked to close idle connections for a new one. The next new one asks others."""


class Holder(Protocol):
    """A client's connection."""

    def __hash__(self) -> int: ...
    def close_idle_brokers(self, last: bool = False) -> int:
        """Closes further connections to brokers that are idle, and passes the number of the rest to `holds`.

        :param last: close also an idle one that is the client's only connection to a broker.
        :returns: the number of the rest.
        """


class BrokerConnections:
    """Limits the connections to brokers that all clients hold beyond their first, which `max_connections` allows for.

    A client needs more of them for coordinators of its groups, for other leaders that its virtual node stands for, and
    for batches that cross over to another cluster. Without a limit, few clients could take every file descriptor of the
    process, including those for listeners, ZooKeeper, and the gateway's own questions.

    :ivar limit: limit of further connections.
    :ivar further: their current number.
    :ivar refused: connections not opened because of the limit.
    """

    def __init__(self, limit: int = 1 << 20) -> None:
        self.limit = limit
        self.further = self.refused = 0
        self._of: dict[Holder, int] = {}
        """Clients with further connections, least recently checked first."""

    def holds(self, connection: Holder, count: int) -> None:
        """The client now has `count` connections to brokers."""
        further = max(0, count - 1)
        self.further += further - self._of.pop(connection, 0)
        if further:
            self._of[connection] = further

    def room(self, connection: Holder) -> bool:
        """Whether the client may open one more, beyond its first. At the limit, idle ones are closed for it: the
        client's own, and then those of other clients."""
        if self.further >= self.limit:
            if not connection.close_idle_brokers(last=True):
                return True  # the new one is its first
            for other in tuple(islice(self._of, LOOKED_AT)):
                if self.further < self.limit:
                    break
                other.close_idle_brokers()
        if self.further < self.limit:
            return True
        self.refused += 1
        return False
