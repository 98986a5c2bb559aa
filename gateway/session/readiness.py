"""Incomplete next request of a client, and reasons for which it waits."""

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from gateway.session.commands import BrokerLane
from gateway.session.pending import Basis, InFlight
from ha_core.wire.apis import Effect


@dataclass(slots=True, eq=False)
class Beginning:
    """The first bytes of a request that is handled when all of its `size` bytes are there."""

    frame: bytearray
    size: int


@dataclass(slots=True, eq=False)
class HalfSent:
    """A produce request whose beginning was sent to a broker. The rest follows as it comes.

    :ivar missing: bytes that the client has not sent yet: nothing else may be written to the broker before them.
    :ivar size: bytes of the whole request.
    :ivar pending: None if it has no answer.
    :ivar writes: topics that it names; None if the names did not come with the beginning.
    :ivar basis: lease generation and revision under which its beginning was written.
    :ivar hurried_at: when an operation was first seen to wait for its rest; None: none waits.
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
    """Order that a request has to wait for."""

    effect: Effect
    lane: BrokerLane | None
    """The broker it goes to; None: several brokers, or connections other than the client's."""


class Delayed(NamedTuple):
    """It waits because its client exceeds a rate limit."""

    since: float
    until: float


class Full(Enum):
    """It waits because too much is in flight."""

    FULL = "full"


class Preparation(Enum):
    """It is long, and is decoded and judged off the event loop (`preparing`)."""

    AWAITED = "awaited"


class AwaitingIdentity(Enum):
    """It waits until the client's identity is verified."""

    AWAITED = "awaited"
