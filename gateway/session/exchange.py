"""Runs exchanges with brokers: sends the frames that they yield, and resumes them with the answers. Long requests are
encoded, and long answers decoded, off the event loop (`preparing`).

Invariant: of the exchanges in the line only the first is resumed, so they complete in order.
"""

from collections.abc import Generator, Sequence
from functools import partial
from typing import Any

from gateway.session.commands import BrokerLane, Cause, OffloadWork
from gateway.session.context import SessionContext
from gateway.session.in_flight import RequestsInFlight
from gateway.session.pending import Exchange, Gathered, OffloadStep, Send, StandInLine
from gateway.session.produce.producer_order import RefusedBatch
from gateway.session.request import LONG_ANSWER_BYTES, Message, Request


class Exchanges:
    """Exchanges of one session; those in the line belong to its requests in flight."""

    __slots__ = ("_context", "_in_flight")

    def __init__(self, context: SessionContext, in_flight: RequestsInFlight) -> None:
        self._context, self._in_flight = context, in_flight

    def start(
        self,
        request: Request,
        exchange: Exchange,
        topics: tuple[bytes, ...] = (),
        group: bytes | None = None,
        leased: bool = False,
        refused: Sequence[RefusedBatch] = (),
    ) -> Gathered:
        """Starts the exchange that answers a request; the client waits for it from now on.

        :param topics: topics to whose logs it may write.
        :param group: the group that it may change.
        :param leased: brokers' answers are read under the lease only.
        :param refused: batches that its answer will refuse.
        """
        pending = Gathered(request, topics, group, exchange=exchange, leased=leased, refused=refused)
        self._in_flight.enqueue(pending)
        self._resume(pending, None)
        return pending

    def ask_aside(self, question: Request, exchange: Exchange) -> None:
        """Starts an exchange that no client waits for."""
        self._resume(Gathered(question, exchange=exchange), None)

    def collect(self, pending: Gathered, lane: BrokerLane, frame: bytearray | None) -> None:
        """Handles an awaited answer that is complete, or will never come."""
        pending.frames[lane] = frame
        pending.awaited.discard(lane)
        if pending.awaited:
            return
        stood_in_line = pending in self._in_flight.line
        frames, pending.frames = pending.frames, {}
        self._resume(pending, frames)
        if stood_in_line and pending not in self._in_flight.line:
            self.proceed()

    def worked(self, pending: Gathered, result: Any) -> None:
        """Resumes an exchange with the result of its offloaded work."""
        if pending in self._in_flight.queue:
            self._resume(pending, result)

    def proceed(self) -> None:
        """Resumes the exchanges in the line, in order, after a new state or the passing of time."""
        head = None
        while self._in_flight.line and self._context.life.goes_on:
            first = self._in_flight.line[0]
            if first.awaited or first is head:
                break
            head = first
            self._resume(head, None)
        for pending in self._in_flight.line:
            if not pending.awaited:
                # Nothing of it is in flight, and it is judged again when resumed. An operation that waited for it would
                # wait for itself.
                pending.revision = self._context.snapshot.view.revision

    def _resume(self, pending: Gathered, found: Any) -> None:
        try:
            step = pending.exchange.send(found)
        except StopIteration as done:
            self._in_flight.leave_line(pending)
            if done.value is not None:
                self._in_flight.complete(pending, pending.ready(done.value, self._context.now))
            return
        if isinstance(step, Send):
            pending.sent, pending.awaited = step, set(step.frames)
            pending.clusters.update(lane.cluster for lane in step.frames)
            if step.spared:
                pending.due_at = self._context.now + step.patience_s
                self._in_flight.wake()
            self._in_flight.forward_each(pending, step.frames)
        elif isinstance(step, OffloadStep):
            self._in_flight.leave_line(pending)  # the next one in the line need not wait for this work
            self._context.emit(OffloadWork(pending, step.work, Cause.UPSTREAM_MALFORMED))
        elif isinstance(step, StandInLine):
            self._in_flight.line += (pending,)
            self.proceed()
        else:
            pending.due_at = step.until
            self._in_flight.wake()


def ask_broker(
    context: SessionContext, request: Request, message: Message, lane: BrokerLane, *, survives_loss: bool = False
) -> Generator[OffloadStep | Send, Any, bytearray | None]:
    """Part of an exchange: sends a request with another body to a broker.

    :returns: its answer; None: the request was not sent because the lease was lost while it was encoded, or (with
        `survives_loss`) the broker was lost before it answered.
    """
    if request.prepared is None:
        frame = request.rewritten(message)
    else:
        frame = yield OffloadStep(partial(request.rewritten, message))
        if not context.leased():
            return None
    frames = yield Send({lane: frame}, survives_loss)
    answered: bytearray | None = frames[lane]
    return answered


def is_long(request: Request, answered: bytearray) -> bool:
    """True if a broker's answer is decoded off the event loop."""
    return request.prepared is not None or len(answered) >= LONG_ANSWER_BYTES
