"""The protocol state of one connection to a broker on behalf of one client."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from gateway.session.arriving import Arriving
from gateway.session.commands import BrokerLane
from gateway.session.pending import NO_LEASE, Basis, Discarded, InFlight

MAX_UNACKNOWLEDGED = 10_000
"""Of more topics none is kept, and any may be meant: names come from the wire."""


class Unacknowledged:
    """Topics of requests without an answer (acks=0) that may still be on their way."""

    __slots__ = ("_any", "_topics", "revision")

    def __init__(self) -> None:
        self._topics: set[bytes] = set()
        self._any = False
        """Others may be meant: a request was streamed before all was seen, or there were too many."""
        self.revision = 0
        """Of the state on which the last of them was sent."""

    def __bool__(self) -> bool:
        return self._any or bool(self._topics)

    def add(self, topics: Iterable[bytes], complete: bool, revision: int) -> None:
        """:param complete: whether the request names no others."""
        self.revision = revision
        self._topics.update(topics)
        if not complete or len(self._topics) > MAX_UNACKNOWLEDGED:
            self._any = True
            self._topics.clear()

    def touches(self, topics: frozenset[bytes]) -> bool:
        return bool(topics) if self._any else not topics.isdisjoint(self._topics)

    def take(self) -> tuple[bytes, ...] | None:
        """The topics, whose end is asked for now; None: any."""
        topics = None if self._any else tuple(self._topics)
        self._topics.clear()
        self._any = False
        return topics


@dataclass(slots=True, eq=False)
class Upstream:
    """Requests in flight, the answer that is being read, and the request that is being written."""

    lane: BrokerLane
    queue: deque[InFlight | Discarded] = field(default_factory=deque)
    answer: Arriving | None = None
    """The answer that has begun to arrive: that to the first in the queue."""
    carry: bytes | bytearray = b""
    """Bytes received but not yet used: to be put in front of the next chunk."""
    blocked: bool = False
    """Its answer must not go to the client yet: nothing more is read until it may."""
    missing: int = 0
    """Bytes of the request that is being written which the client has not sent yet: nothing else may be written."""
    half: InFlight | None = None
    """That request, if it has an answer."""
    basis: Basis = (NO_LEASE, 0)
    """What its beginning was written on."""
    arrived_at: float = 0.0
    """When the last bytes of it came."""
    later: list[tuple[InFlight, bytes | memoryview]] = field(default_factory=list)
    """The gateway's own questions that wait for its rest."""
    shut: bool = False
    """Nothing more is written: the broker ends the connection when it has done what came before."""
    mute: bool = False
    """Something without an answer went over it: only its end would tell of a failure."""
    unacknowledged: Unacknowledged = field(default_factory=Unacknowledged)

    def unused(self) -> bool:
        busy = self.queue or self.missing or self.later or self.unacknowledged
        return not (busy or self.mute or self.shut)

    def unsure(self) -> bool:
        """Whether something without an answer may still be on its way."""
        return bool(self.unacknowledged) or any(
            isinstance(pending, Discarded) and pending.topics != () for pending in self.queue
        )
