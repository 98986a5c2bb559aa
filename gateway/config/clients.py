"""The sections about clients: how much of the gateway they may take, and their zones."""

from typing import Annotated, Literal, Self

from pydantic import Field, IPvAnyNetwork, model_validator

from gateway.config.section import ConfigSection
from ha_core.wire.limits import WireLimits

MAX_NETWORKS = 1000


class Limits(ConfigSection):
    """Bounds on the resources that clients can take."""

    max_request_bytes: Annotated[int, Field(ge=1024, le=2_147_483_647)] = 104_857_600
    max_connections: Annotated[int, Field(ge=1, le=1_000_000)] = 10_000
    max_connections_per_user: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Limit for one user. Default: half of `max_connections`, or all where only one user can log in."""
    max_connections_per_address: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Limit for one address. Default: all, since behind a load balancer all clients have one address."""
    max_in_flight_per_connection: Annotated[int, Field(ge=1, le=10_000)] = 100
    idle_ms: Annotated[int, Field(ge=1000, le=86_400_000)] = 600_000
    handshake_ms: Annotated[int, Field(ge=100, le=86_400_000)] = 10_000
    """Longest time of a client's TLS handshake."""
    max_handshakes: Annotated[int, Field(ge=1, le=1_000_000)] = 500
    """TLS handshakes at once: the next ones wait until some have ended, or overdue ones were ended for them."""
    login_ms: Annotated[int, Field(ge=1000, le=86_400_000)] = 30_000
    """Longest time from a client's connection to its login."""
    max_logins: Annotated[int, Field(ge=1, le=1_000_000)] = 1_000
    """Clients that have not logged in, at once: the next ones wait until some have, or overdue ones were ended."""

    max_login_bytes: Annotated[int, Field(ge=1024, le=2_147_483_647)] = 131_072
    """Limit for a request of a client that has not logged in."""
    frame_ms: Annotated[int, Field(ge=1000, le=86_400_000)] = 60_000
    """Longest time for a request to arrive."""
    min_produce_bytes_s: Annotated[int, Field(ge=1, le=1_000_000_000)] = 16_384
    """A produce request that is forwarded as it arrives gets the time of its bytes at this rate in addition."""
    max_elements: Annotated[int, Field(ge=1000, le=1_000_000)] = 100_000
    """Limit for one request: items of all its lists together."""
    max_partitions: Annotated[int, Field(ge=100, le=1_000_000)] = 20_000
    """Limit for one produce, and as many topics; for a fetch twice as many of both together."""
    max_created_partitions: Annotated[int, Field(ge=1, le=2_147_483_647)] = 10_000
    """Partitions that one request may add: of all topics that it creates or grows together."""
    max_held_bytes: Annotated[int, Field(ge=1024)] = 1 << 30
    """Limit for the incomplete requests of all clients."""

    @model_validator(mode="after")
    def _one_request_fits(self) -> Self:
        if self.max_held_bytes < self.max_request_bytes:
            raise ValueError(
                f"max_held_bytes={self.max_held_bytes} is less than one request may have "
                f"(max_request_bytes={self.max_request_bytes}); raise it, or lower that"
            )
        return self

    def wire(self) -> WireLimits:
        """The codec's limits under this configuration."""
        return WireLimits(
            max_request_bytes=self.max_request_bytes,
            max_login_bytes=self.max_login_bytes,
            max_partitions=self.max_partitions,
            max_inline=self.max_elements,
            max_created_partitions=self.max_created_partitions,
        )


class ClientZonesSection(ConfigSection):
    """Zones of clients; the section has to be equal at all gateways."""

    networks: Annotated[
        dict[Annotated[str, Field(min_length=1, max_length=255)], list[IPvAnyNetwork]], Field(max_length=1000)
    ] = Field(default_factory=dict)
    """Zone → networks (CIDR); the narrowest that has the client's address counts."""
    others: Literal["any", "asked"] = "any"
    """Clients of no such network go to gateways of all zones, or of the zone of the gateway that they ask."""

    @model_validator(mode="after")
    def _each_network_is_in_one_zone(self) -> Self:
        seen: dict[object, str] = {}
        for zone, networks in self.networks.items():
            for network in networks:
                if seen.setdefault(network, zone) != zone:
                    raise ValueError(f"networks: {network} is in {seen[network]} and in {zone}; give it to one of them")
        if len(seen) > MAX_NETWORKS:
            raise ValueError(f"networks: {len(seen)}, at most {MAX_NETWORKS}; merge some of them")
        return self
