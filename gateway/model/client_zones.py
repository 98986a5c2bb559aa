"""In which zone a client is, so that it is led to gateways near it; pure.

Every gateway leads a client to the same one (`driver/peers`), so all of them have to know the same zone of it. Networks
that are configured alike at all gateways give that. Without one a client may stay in the zone of whatever gateway it
asks: answers list gateways of that zone only, so that the client asks no other, which would lead it to
another zone. (`client.rack` is no help: it comes with FETCH, after the client was led, to one gateway alone.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address

Network = IPv4Network | IPv6Network
NOWHERE = ""
"""Nothing says where the client is."""


@dataclass(frozen=True)
class ClientZones:
    """
    :ivar networks: with their zones, the narrowest first.
    :ivar otherwise: the zone of clients that come from none of them.
    """

    networks: tuple[tuple[Network, str], ...] = ()
    otherwise: str = NOWHERE

    @classmethod
    def of(cls, networks: Mapping[str, Iterable[Network]], otherwise: str = NOWHERE) -> ClientZones:
        """:param networks: by zone."""
        found = [(network, zone) for zone, several in networks.items() for network in several]
        return cls(tuple(sorted(found, key=lambda one: -one[0].prefixlen)), otherwise)

    def zone_of(self, host: str) -> str:
        """The zone of a client by the address that it comes from."""
        return self._by_network(host) or self.otherwise

    def listed_zone(self, host: str) -> str:
        """The zone whose gateways alone are listed to the client; `NOWHERE`: all are listed.

        A client of a known network is led alike by every gateway, so it may know, and ask, those of other zones: it
        needs them when its zone has none any more.
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
