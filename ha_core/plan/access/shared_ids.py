"""Client ids in use at several addresses at once: a binding of an instance moves all its clients, or none.

Clients on one machine, or behind one NAT, share an address and count as one.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from ha_core.plan.facts.grouping import grouped

IDLE_MS = 15_000
"""A connection idle this long is not in use: consumers poll, and group members send heartbeats."""


class SharedId(NamedTuple):
    user: str
    client_id: str
    addresses: tuple[str, ...]


def in_use(row: Mapping[str, Any]) -> bool:
    """Whether a connection is in use: clients also keep connections to brokers that they have left."""
    return bool(row["in_flight"] > 0 or row["idle_ms"] < IDLE_MS)


def shared_ids(connections: Iterable[Mapping[str, Any]]) -> Iterator[SharedId]:
    """:param connections: only those in use, since a client that has moved keeps idle ones open."""
    named = (row for row in connections if row["user"] and row["client_id"])
    places = grouped(((row["user"], row["client_id"]), row["address"]) for row in named)
    for (user, client_id), addresses in sorted(places.items()):
        if len({*addresses}) > 1:
            yield SharedId(user, client_id, tuple(sorted({*addresses})))
