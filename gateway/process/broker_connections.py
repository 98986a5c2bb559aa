"""Limits the connections to brokers that all clients hold beyond their first, which `max_connections` allows for.

A client needs more of them for coordinators of its groups, for other leaders behind its virtual node, and for batches
that cross over to another cluster. Without a limit, few clients could take every file descriptor of the process,
including those for listeners, ZooKeeper, and the gateway's own questions.
"""

from __future__ import annotations

from itertools import islice
from typing import Protocol

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
    """
    :ivar most: limit of further connections.
    :ivar further: their current number.
    :ivar refused: connections not opened because of the limit.
    """

    def __init__(self, most: int = 1 << 20) -> None:
        self.most = most
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
        if self.further >= self.most:
            if not connection.close_idle_brokers(last=True):
                return True  # the new one is its first
            for other in tuple(islice(self._of, LOOKED_AT)):
                if self.further < self.most:
                    break
                other.close_idle_brokers()
        if self.further < self.most:
            return True
        self.refused += 1
        return False
