"""Zone of a client, so that it is routed to gateways near it; pure.

Every gateway routes a client to the same one (`process/peers`), so all of them have to compute the same zone for it.
Networks that are configured equally at all gateways ensure that. Without a network, a client may stay in the zone of
the gateway that it asks: answers list only gateways of that zone, so that the client asks no gateway that would route
it to another zone. (`client.rack` is no help: it comes with FETCH, after the client was routed, and to one gateway.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address

Network = IPv4Network | IPv6Network
NOWHERE = ""
"""The client's zone is unknown."""


@dataclass(frozen=True)
class ClientZones:
    """
    :ivar networks: networks with their zones, the narrowest first.
    :ivar otherwise: the zone of clients outside all of them.
    """

    networks: tuple[tuple[Network, str], ...] = ()
    otherwise: str = NOWHERE

    @classmethod
    def of(cls, networks: Mapping[str, Iterable[Network]], otherwise: str = NOWHERE) -> ClientZones:
        """:param networks: by zone."""
        found = [(network, zone) for zone, several in networks.items() for network in several]
        return cls(tuple(sorted(found, key=lambda one: -one[0].prefixlen)), otherwise)

    def zone_of(self, host: str) -> str:
        """The zone of a client by its address."""
        return self._by_network(host) or self.otherwise

    def listed_zone(self, host: str) -> str:
        """The zone whose gateways alone are listed to the client; `NOWHERE`: all are listed.

        Every gateway routes a client of a known network alike, so the client may know, and ask, those of other zones:
        it needs them when its own zone has no gateway left.
        """
        return NOWHERE if self._by_network(host) else self.otherwise

    def _by_network(self, host: str) -> str:
        if not self.networks:
            return NOWHERE
        try:
            address = ip_address(host.partition("%")[0])
        except ValueError:
            return NOWHERE
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        return next((zone for network, zone in self.networks if address in network), NOWHERE)
