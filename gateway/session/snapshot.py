"""What a session knows of the world: replaced as a whole when anything in it changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.session.fences import Fences, fences
from gateway.topology import Topology
from ha_core.model import View


@dataclass(frozen=True, slots=True)
class Snapshot:
    view: View
    topology: Topology
    apis: tuple[dict[str, Any], ...] = ()
    """Body of the ApiVersions answer: `api_key, min_version, max_version` per key."""
    offered: Mapping[int, tuple[int, int]] = field(init=False)
    """The same by key."""
    unreadable: frozenset[str] = frozenset()
    """Paths of documents that were never readable: what they may say of a topic or user is not guessed at."""
    fresh: bool = True
    """False until the first view is loaded: then only ApiVersions and retriable errors are answered."""
    fences: Fences = None  # type: ignore[assignment]
    """Of the view; whoever makes the snapshot elsewhere than on the event loop may have found them there."""

    def __post_init__(self) -> None:
        if self.fences is None:
            object.__setattr__(self, "fences", fences(self.view))
        offered = {line["api_key"]: (line["min_version"], line["max_version"]) for line in self.apis}
        object.__setattr__(self, "offered", offered)


@dataclass(frozen=True, slots=True)
class Port:
    """The listener that a client connected to: a broker's virtual node, or the bootstrap listener (both None)."""

    cluster: str | None = None
    broker: int | None = None


@dataclass(slots=True)
class Lease:
    """Until when produce and group calls may be forwarded, and acknowledged (seconds on the driver's clock).

    Renewed by every confirmed round trip to ZooKeeper. Past it, others may have taken this gateway for dead and moved
    on, so forwarding would make a second writer.
    """

    valid_until: float = field(default=float("-inf"))
    generation: int = 0
    """A lease that was lost and is back is another one: what others did in between was not seen."""

    def holds(self, now: float) -> bool:
        return now < self.valid_until

    def renew(self, asked_at: float, lease_s: float) -> None:
        """ZooKeeper has confirmed the session, when asked at this time."""
        if asked_at > self.valid_until:
            self.generation += 1
        self.valid_until = max(self.valid_until, asked_at + lease_s)

    def revoke(self) -> None:
        """The session is gone, whatever the clock says."""
        self.valid_until = float("-inf")
