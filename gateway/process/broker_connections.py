"""How many connections to brokers all clients hold beyond the first of each, which `max_connections` allows for.

A client needs further ones for coordinators of its groups, for other leaders behind its virtual node, and for batches
that cross over to another cluster. Without a bound, few clients could take every file descriptor of the process, also
those for listeners, ZooKeeper, and the gateway's own questions.
"""

from __future__ import annotations

from itertools import islice
from typing import Protocol

LOOKED_AT = 50
"""Clients asked to close idle connections for a new one. The next new one asks others."""


class Holder(Protocol):
    """A client's connection."""

    def __hash__(self) -> int: ...
    def close_idle_brokers(self) -> None:
        """Closes further connections to brokers on which nothing is under way, and tells `holds` how many are left."""


class BrokerConnections:
    """
    :ivar most: further connections at once.
    :ivar further: as many there are now.
    :ivar refused: as many were not opened for want of room.
    """

    def __init__(self, most: int = 1 << 20) -> None:
        self.most = most
        self.further = self.refused = 0
        self._of: dict[Holder, int] = {}
        """Clients with further connections, those first that were not looked at for longest."""

    def holds(self, connection: Holder, count: int) -> None:
        """The client has so many connections to brokers now."""
        further = max(0, count - 1)
        self.further += further - self._of.pop(connection, 0)
        if further:
            self._of[connection] = further

    def room(self, connection: Holder) -> bool:
        """Whether the client may open one more, beyond its first. At the bound, idle ones are closed for it: the
        client's own, and then those of others."""
        if self.further >= self.most:
            connection.close_idle_brokers()
            for other in tuple(islice(self._of, LOOKED_AT)):
                if self.further < self.most:
                    break
                other.close_idle_brokers()
        if self.further < self.most:
            return True
        self.refused += 1
        return False
