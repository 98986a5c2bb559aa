"""A Kafka cluster as operators registered it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ha_core.model.document import Document, Part
from ha_core.model.numeral import whole_number

NO_PROFILE = "none"
"""The security profile of a cluster that wants no login."""
UserName = Annotated[str, Field(min_length=1, max_length=255)]


class Mask(Part):
    """Why and since when operators have taken a cluster out of service."""

    since: str
    """UTC, ISO 8601."""
    reason: str
    by: str


class Cluster(Document):
    """`/clusters/{name}`. Credentials are never stored here: `security` names a profile of the reader's own config."""

    FOLDER = "/clusters"
    REPLICATED = True

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9_-]{0,62}$")
    bootstrap: str = Field(min_length=3)
    """`host:port[,host:port…]` of the brokers, as the gateways and tasks reach them."""
    security: str = NO_PROFILE
    default: bool = False
    """Serves identities without a binding whose topic exists nowhere yet. At most one cluster has it."""
    zone: str | None = Field(default=None, min_length=1, max_length=255)
    """Where it runs, by the name that gateways there have for it; None: nobody has said."""
    super_users: tuple[UserName, ...] = Field(default=(), max_length=100)
    """Users that may do anything in it, by the names that clients log in with: none of them is moved, because who
    administers a cluster has to be led to that one, whatever else moves."""
    masked: Mask | None = None
    platform_us: int | None = None
    """Time of the last platform change that has come into force here; None: none has."""


def parse_bootstrap(text: str) -> tuple[tuple[str, int], ...]:
    """`host:port[,host:port…]` (IPv6 in brackets) as addresses. ValueError names the entry that is none."""
    addresses: list[tuple[str, int]] = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, _, port = entry.rpartition(":")
        if not (host and whole_number(port, 65_535)):
            raise ValueError(f"bootstrap {entry!r} is not host:port. Write host:port[,host:port…].")
        addresses.append((host.removeprefix("[").removesuffix("]"), int(port)))
    if not addresses:
        raise ValueError(f"bootstrap {text!r} names no address. Write host:port[,host:port…].")
    return tuple(addresses)
