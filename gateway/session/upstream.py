"""The protocol state of one connection to a broker on behalf of one client."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from gateway.session.answer_arrival import Arriving, Gathering
from gateway.session.commands import BrokerLane
from gateway.session.pending import Discarded, Gathered, InFlight
from gateway.session.readiness import HalfSent

MAX_UNACKNOWLEDGED = 10_000
"""Of more topics none is kept, and any may be meant: names come from the wire."""


class Unacknowledged:
    """Topics of requests without an answer (acks=0) that may still be on their way."""

    __slots__ = ("_any", "_topics", "ever", "revision")

    def __init__(self) -> None:
        self._topics: set[bytes] = set()
        self._any = False
        """Others may be meant: a request was streamed before all was seen, or there were too many."""
        self.ever = False
        """Something went over the connection: only its end would tell of a failure."""
        self.revision = 0
        """Of the state on which the last of them was sent."""

    def __bool__(self) -> bool:
        return self._any or bool(self._topics)

    def add(self, topics: Iterable[bytes], complete: bool, revision: int) -> None:
        self.ever = True
        self.revision = revision
        self._topics.update(topics)
        if not complete or len(self._topics) > MAX_UNACKNOWLEDGED:
            self._any = True
            self._topics.clear()

    def touches(self, topics: frozenset[bytes]) -> bool:
        return bool(topics) if self._any else not topics.isdisjoint(self._topics)

    def pop_all(self) -> tuple[bytes, ...] | None:
        """The topics, whose end is asked for now; None: any."""
        topics = None if self._any else tuple(self._topics)
        self._topics.clear()
        self._any = False
        return topics


class Between:
    """Whole requests were written: the next one may be."""


class HalfClosed:
    """Nothing more is written: the broker ends the connection when it has done what came before."""


BETWEEN, SHUT = Between(), HalfClosed()


@dataclass(slots=True, eq=False)
class Upstream:
    """Requests in flight, the answer that is being read, and what may be written."""

    lane: BrokerLane
    queue: deque[InFlight | Discarded] = field(default_factory=deque)
    answer: Arriving | None = None
    """The answer that has begun to arrive: that to the first in the queue."""
    carry: bytes | bytearray = b""
    """Bytes received but not yet used: to be put in front of the next chunk."""
    blocked: bool = False
    """Its answer must not go to the client yet: nothing more is read until it may."""
    writing: Between | HalfSent | HalfClosed = BETWEEN
    unacknowledged: Unacknowledged = field(default_factory=Unacknowledged)

    def begin(self, half: HalfSent) -> None:
        """The beginning of a request was written."""
        assert self.writing is BETWEEN
        self.writing = half

    def complete(self, half: HalfSent) -> None:
        """The rest of it was."""
        assert self.writing is half
        self.writing = BETWEEN

    def shut(self, half: HalfSent) -> None:
        """Its rest never will be. A request that was not sent whole is not executed."""
        assert self.writing is half
        if half.pending is not None:
            self.queue.remove(half.pending)
        self.writing = SHUT

    def discard(self, pending: Gathered) -> None:
        """What this broker says to it is dropped."""
        self.queue[self.queue.index(pending)] = pending.without()
        if isinstance(self.answer, Gathering) and self.answer.pending is pending:
            self.answer = self.answer.dropped()

    def unused(self) -> bool:
        return self.writing is BETWEEN and not self.queue and not self.unacknowledged.ever

    def abandoned(self) -> bool:
        """Whether all that is under way is questions that nobody waits for."""
        return (
            self.writing is BETWEEN
            and not self.unacknowledged.ever
            and all(isinstance(pending, Discarded) and pending.topics == () for pending in self.queue)
        )

    def unsure(self) -> bool:
        """Whether something without an answer may still be on its way."""
        return bool(self.unacknowledged) or any(
            isinstance(pending, Discarded) and pending.topics != () for pending in self.queue
        )

    def owes(self) -> bool:
        """Whether the broker has something to answer, or to execute without an answer."""
        return bool(self.queue or self.unacknowledged) or self.writing is not BETWEEN

    def ended_in_order(self) -> bool:
        """Whether its end tells of no failure of what had no answer, or was not sent whole."""
        return self.writing is SHUT or (self.writing is BETWEEN and not self.unacknowledged.ever)
