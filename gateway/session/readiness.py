"""What has come of the client's next request, where that is not enough to handle it; and why it has to wait."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from gateway.session.commands import BrokerLane
from gateway.session.pending import Basis, InFlight
from ha_core.wire.apis import Effect


@dataclass(slots=True, eq=False)
class Beginning:
    """Of a request that is handled when all of it is there, `size` bytes."""

    frame: bytearray
    size: int


@dataclass(slots=True, eq=False)
class HalfSent:
    """A produce request of which the beginning was sent to a broker. Its rest goes there as it comes.

    :ivar missing: bytes that the client has not sent yet: nothing else may be written to the broker before them.
    :ivar size: bytes of the whole request.
    :ivar pending: None if it has no answer.
    :ivar writes: topics that it names; None where the names did not come with the beginning.
    :ivar basis: the lease and the revision under which its beginning was written.
    :ivar hurried_at: when an operation was first seen to wait for its rest; None: none does.
    :ivar later: the gateway's own questions that wait for its rest.
    """

    lane: BrokerLane
    missing: int
    size: int
    pending: InFlight | None
    writes: tuple[bytes, ...] | None
    basis: Basis
    hurried_at: float | None = field(default=None, init=False)
    later: list[tuple[InFlight, bytes | memoryview]] = field(default_factory=list, init=False)


class Turn(NamedTuple):
    """What a request has to wait for."""

    effect: Effect
    lane: BrokerLane | None
    """Where it goes; None: to several brokers, or by connections that are not the client's."""


class Delayed(NamedTuple):
    """It waits because its client asks more often than it may."""

    since: float
    until: float


class Full(Enum):
    """It waits because too much is under way."""

    FULL = "full"


class Preparation(Enum):
    """It is long, and is read and judged beside the event loop (`beside`)."""

    AWAITED = "awaited"


class AwaitingIdentity(Enum):
    """It waits because it is not known yet who its client is."""

    AWAITED = "awaited"
