"""A Kafka cluster as operators registered it."""

from typing import Annotated

from pydantic import Field

from ha_core.model.document import Document, Part
from ha_core.model.numeral import whole_number

NO_PROFILE = "none"
"""The security profile of a cluster without a login."""
UserName = Annotated[str, Field(min_length=1, max_length=255)]


class Mask(Part):
    """An operator's decision to take a cluster out of service."""

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
    """This cluster serves identities without a binding whose topic does not exist yet. At most one is the default."""
    zone: str | None = Field(default=None, min_length=1, max_length=255)
    """Zone as gateways there name it in their own settings; None: not set."""
    super_users: tuple[UserName, ...] = Field(default=(), max_length=100)
    """Login names of users that may do anything in this cluster. They are never moved: a cluster's administrator has to
    reach that cluster, whatever else moves."""
    masked: Mask | None = None
    platform_us: int | None = None
    """Time of the last platform change that took effect here; None: none has."""


def parse_bootstrap(text: str) -> tuple[tuple[str, int], ...]:
    """Parse `host:port[,host:port…]` (IPv6 in brackets).

    :raises ValueError: an entry is not `host:port`, or there is none.
    """
    addresses: list[tuple[str, int]] = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        host, _, port = entry.rpartition(":")
        if not (host and whole_number(port, 65_535)):
            raise ValueError(f"bootstrap {entry!r} is not host:port. Write host:port[,host:port…].")
        addresses.append((host.removeprefix("[").removesuffix("]"), int(port)))
    if not addresses:
        raise ValueError(f"bootstrap {text!r} names no address. Write host:port[,host:port…].")
    return tuple(addresses)
