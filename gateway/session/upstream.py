"""Protocol state of the connections to brokers on behalf of one client."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gateway.session.commands import BrokerLane, ToUpstream
from gateway.session.context import SessionContext
from gateway.session.pending import SEVERAL, Arriving, Discarded, Gathered, Gathering, InFlight, concerns
from gateway.session.readiness import HalfSent
from gateway.session.request import Request
from gateway.session.retry_backoff import RetryBackoff
from ha_core.wire import ApiKey

MAX_UNACKNOWLEDGED = 10_000
"""Bound on tracked topics, since names come from the wire; above it any topic may be affected."""


class Unacknowledged:
    """Topics of requests without an answer (acks=0) that may still be in flight."""

    __slots__ = ("_any", "_topics", "ever", "revision")

    def __init__(self) -> None:
        self._topics: set[bytes] = set()
        self._any = False
        """Any topic may be affected: a request was streamed before all names were seen, or there were too many
        topics."""
        self.ever = False
        """Such a request was sent: only the connection's end would report a failure."""
        self.revision = 0
        """State revision at which the last of them was sent."""

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
        """The topics, when a probe for their end is sent; None: any."""
        topics = None if self._any else tuple(self._topics)
        self._topics.clear()
        self._any = False
        return topics


class Between:
    """Complete requests were written: the next one may be."""


class HalfClosed:
    """Nothing more is written: the broker closes the connection after it has executed everything before."""


BETWEEN, SHUT = Between(), HalfClosed()


@dataclass(slots=True, eq=False)
class Upstream:
    """Requests in flight, the answer that is being read, and the state of writing."""

    lane: BrokerLane
    queue: deque[InFlight | Discarded] = field(default_factory=deque)
    answer: Arriving | None = None
    """The answer that has begun to arrive, to the first request in the queue."""
    carry: bytes | bytearray = b""
    """Bytes received but not used yet; the driver puts them in front of the next chunk."""
    blocked: bool = False
    """The answer must not go to the client yet; nothing more is read until it may."""
    writing: Between | HalfSent | HalfClosed = BETWEEN
    unacknowledged: Unacknowledged = field(default_factory=Unacknowledged)

    def begin(self, half: HalfSent) -> None:
        """The beginning of a request was written."""
        assert self.writing is BETWEEN
        self.writing = half

    def complete(self, half: HalfSent, now: float) -> None:
        """The rest of the request was written."""
        assert self.writing is half
        self.writing = BETWEEN
        if half.pending is not None:
            half.pending.request.came_at = half.pending.sent_at = now

    def shut(self, half: HalfSent) -> None:
        """The rest will never be written. A broker does not execute a request that was not sent whole."""
        assert self.writing is half
        if half.pending is not None:
            self.queue.remove(half.pending)
        self.writing = SHUT

    def discard(self, pending: Gathered) -> None:
        """Drops this broker's answer to the request."""
        self.queue[self.queue.index(pending)] = pending.without()
        if isinstance(self.answer, Gathering) and self.answer.pending is pending:
            self.answer = self.answer.dropped()

    def unused(self) -> bool:
        return self.writing is BETWEEN and not self.queue and not self.unacknowledged.ever

    def abandoned(self) -> bool:
        """True if only questions are in flight whose answers no client waits for."""
        return (
            self.writing is BETWEEN
            and not self.unacknowledged.ever
            and all(isinstance(pending, Discarded) and pending.topics == () for pending in self.queue)
        )

    def unsure(self) -> bool:
        """True if a request without an answer may still be in flight."""
        return bool(self.unacknowledged) or any(
            isinstance(pending, Discarded) and pending.topics != () for pending in self.queue
        )

    def owes(self) -> bool:
        """True if the broker has a request to answer, or to execute without an answer."""
        return bool(self.queue or self.unacknowledged) or self.writing is not BETWEEN

    def ended_in_order(self) -> bool:
        """True if the connection's end leaves no doubt about requests without an answer, or half-sent ones."""
        return self.writing is SHUT or (self.writing is BETWEEN and not self.unacknowledged.ever)

    def holds_back(self, topics: frozenset[bytes], since: int) -> bool:
        """True if an operation on `topics` has to wait for acks=0 requests that were sent before revision `since`."""
        if any(isinstance(pending, Discarded) and concerns(pending, topics) for pending in self.queue):
            return True
        # All others were probed before `since` was followed; only after a half-sent request no probe can be written.
        unacknowledged = self.unacknowledged
        return self.writing is not BETWEEN and unacknowledged.revision < since and unacknowledged.touches(topics)


class Upstreams(dict[BrokerLane, Upstream]):
    """The connections to brokers on behalf of one client.

    :ivar unacknowledged: True if a request without an answer was sent.
    """

    __slots__ = ("_context", "_retry_backoff", "unacknowledged")

    def __init__(self, context: SessionContext, retry_backoff: RetryBackoff) -> None:
        super().__init__()
        self._context, self._retry_backoff = context, retry_backoff
        self.unacknowledged = False

    def send(self, lane: BrokerLane, data: bytes | bytearray | memoryview) -> Upstream:
        upstream = self.get(lane)
        if upstream is None:
            upstream = self[lane] = Upstream(lane)
        self._context.out.append(ToUpstream(lane, data))
        return upstream

    def forward(self, pending: InFlight, lane: BrokerLane, data: bytes | bytearray | memoryview) -> None:
        """Sends a request to a broker, whose answer belongs to `pending`."""
        if lane.lane == 0:
            pending.lane = lane if pending.lane in (None, lane) else SEVERAL
        pending.sent_at = self._context.now
        self._retry_backoff.forwarded(pending.request.api_key)
        self.send(lane, data).queue.append(pending)

    def forward_each(self, pending: InFlight, frames: Mapping[BrokerLane, bytes | memoryview]) -> bool:
        """Like `forward`, but queues a frame while a request to its broker is half sent. False: one of the frames can
        never be sent."""
        sent = True
        for lane, frame in frames.items():
            upstream = self.get(lane)
            if upstream is None or upstream.writing is BETWEEN:
                self.forward(pending, lane, frame)
            elif isinstance(upstream.writing, HalfSent):
                upstream.writing.later.append((pending, frame))
            else:
                sent = False
        return sent

    def send_unacknowledged(
        self, lane: BrokerLane, data: bytes | memoryview, topics: Iterable[bytes], complete: bool
    ) -> None:
        """:param complete: True if `topics` are all that the request names."""
        upstream = self.send(lane, data)
        self.unacknowledged = True
        upstream.unacknowledged.add(topics, complete, self._context.snapshot.view.revision)

    def unsure(self) -> bool:
        """True if a request without an answer may still be in flight."""
        return any(upstream.unsure() for upstream in self.values())

    def probe(self, everything: bool = False) -> None:
        """Sends a question after requests without an answer for which an operation may wait. Its answer shows that they
        are in the log: a broker answers a connection in order."""
        fenced = self._context.snapshot.fences.topics
        for upstream in self.values():
            if everything or upstream.unacknowledged.touches(fenced):
                self.ask_for_the_end(upstream)

    def ask_for_the_end(self, upstream: Upstream) -> None:
        if not upstream.unacknowledged or upstream.writing is not BETWEEN:
            return
        question = Request.own(ApiKey.API_VERSIONS, 0, self._context.shared.limits)
        self.send(upstream.lane, question.rewritten({}))
        upstream.queue.append(Discarded(question, upstream.unacknowledged.pop_all()))

    def release(self, lane: BrokerLane) -> bool:
        """Releases a broker's idle connection: the next request to that broker opens a new one."""
        upstream = self.get(lane)
        if upstream is None or not upstream.unused():
            return False
        del self[lane]
        return True
