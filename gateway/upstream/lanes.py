"""The gateway's own connections to the brokers of one cluster: several to each.

A broker works on one request per connection at a time, so what may take long has another one than what all wait for.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from gateway.topology import Address, ApiRange
from gateway.upstream.broker import BrokerConnection
from gateway.upstream.decoding import Decoder
from gateway.upstream.dialling import Dialling
from ha_core.wire.apis import Pace
from ha_core.wire.limits import Limits


class Lanes:
    """Opened when first used, and again when they were lost."""

    def __init__(self, dialling: Dialling, client_id: str, limits: Limits) -> None:
        self._dialling, self._client_id, self._limits = dialling, client_id, limits
        self._decoder = Decoder(limits)
        self._connections: dict[tuple[Address, Pace], BrokerConnection] = {}

    def connection(self, address: Address, pace: Pace) -> BrokerConnection:
        connection = self._connections.get((address, pace))
        if connection is None:
            dial = partial(self._dialling.dial, address)
            connection = self._connections[address, pace] = BrokerConnection(
                dial, self._client_id, self._limits, self._decoder
            )
        return connection

    def connected(self, address: Address) -> bool:
        """Whether the broker can be asked for metadata without being dialled."""
        connection = self._connections.get((address, Pace.QUICK))
        return connection is not None and connection.connected

    def keep(self, addresses: Collection[Address]) -> None:
        """Lets go of brokers that are no more."""
        for key in [key for key in self._connections if key[0] not in addresses]:
            self._connections.pop(key).close("the broker left the cluster, or is a bootstrap address only")

    def drop(self, why: str) -> None:
        """Lets go of all."""
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            connection.close(why)

    def common_versions(self, addresses: Collection[Address]) -> dict[int, ApiRange]:
        """What all of these brokers offer that have said so; empty where none has."""
        connections = (self._connections.get((address, Pace.QUICK)) for address in addresses)
        offers = [
            connection.api_versions for connection in connections if connection is not None and connection.api_versions
        ]
        common: dict[int, ApiRange] = {}
        for key in set.intersection(*(set(offer) for offer in offers)) if offers else ():
            low, high = max(offer[key][0] for offer in offers), min(offer[key][1] for offer in offers)
            if low <= high:
                common[key] = (low, high)
        return common
