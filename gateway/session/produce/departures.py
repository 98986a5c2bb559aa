"""What waits, at a cut, for its turn at the targets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from gateway.session.pending import Slot
from gateway.session.produce.disposition import Part
from gateway.session.produce.verdict import Key
from ha_core.wire import RequestHeader


@dataclass(slots=True, eq=False)
class Departure:
    """A request that the origin has answered, and of which not all lies below the cut: it waits for its turn at the
    targets, and for the state to decide where its batches belong."""

    header: RequestHeader
    slot: Slot
    timeout_ms: int
    until: float
    """What the state has not decided by then is refused."""
    going: dict[Key, Part]
    """What the origin has taken, and no target yet."""
    merged: dict[str, Any]
    """The answer so far, in client offsets."""
    finish: Callable[[dict[str, Any]], bytes]
    away: bool = False
    """Some of it is on its way to targets."""
    not_before: float = 0.0
    """When targets may be asked again."""
