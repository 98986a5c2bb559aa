"""Runs exchanges with brokers: sends the frames that they yield, and resumes them with the answers.

Invariant: of the exchanges in the line only the first is resumed, so they complete in order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gateway.session import streaming
from gateway.session.commands import BrokerLane, Cause, OffloadWork
from gateway.session.pending import Exchange, Gathered, OffloadStep, Send, StandInLine
from gateway.session.produce.producer_order import RefusedBatch
from gateway.session.request import Request
from gateway.session.state import ConnectionState


def begin(
    session: ConnectionState,
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
    session.enqueue(pending)
    _resume(session, pending, None)
    return pending


def ask_aside(session: ConnectionState, question: Request, exchange: Exchange) -> None:
    """Starts an exchange that no client waits for."""
    _resume(session, Gathered(question, exchange=exchange), None)


def collect(session: ConnectionState, pending: Gathered, lane: BrokerLane, frame: bytearray | None) -> None:
    """Handles an awaited answer that is complete, or will never come."""
    pending.frames[lane] = frame
    pending.awaited.discard(lane)
    if pending.awaited:
        return
    stood_in_line = pending in session.line
    frames, pending.frames = pending.frames, {}
    _resume(session, pending, frames)
    if stood_in_line and pending not in session.line:
        proceed(session)


def worked(session: ConnectionState, pending: Gathered, result: Any) -> None:
    """Resumes an exchange with the result of its offloaded work."""
    if pending in session.queue:
        _resume(session, pending, result)


def proceed(session: ConnectionState) -> None:
    """Resumes the exchanges in the line, in order, after a new state or the passing of time."""
    line = session.line
    head = None
    while line and session.life.goes_on and not line[0].awaited and line[0] is not head:
        head = line[0]
        _resume(session, head, None)
    for pending in line:
        if not pending.awaited:
            # Nothing of it is in flight, and it is judged again when resumed. An operation that waited for it would
            # wait for itself.
            pending.revision = session.snapshot.view.revision


def _resume(session: ConnectionState, pending: Gathered, found: Any) -> None:
    try:
        step = pending.exchange.send(found)
    except StopIteration as done:
        if pending in session.line:
            session.line.remove(pending)
        if done.value is not None:
            session.complete(pending, pending.ready(done.value, session.now))
        return
    if isinstance(step, Send):
        pending.sent, pending.awaited = step, set(step.frames)
        pending.clusters.update(lane.cluster for lane in step.frames)
        if step.spared:
            pending.due_at = session.now + step.patience_s
            session.wake()
        streaming.forward(session, pending, step.frames)
    elif isinstance(step, OffloadStep):
        if pending in session.line:
            session.line.remove(pending)  # the next one in the line need not wait for this work
        session.emit(OffloadWork(pending, step.work, Cause.UPSTREAM_MALFORMED))
    elif isinstance(step, StandInLine):
        session.line.append(pending)
        proceed(session)
    else:
        pending.due_at = step.until
        session.wake()
