"""Steps of exchanges that encode long requests and decode long answers off the event loop (`preparing`)."""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

from gateway.session.commands import BrokerLane
from gateway.session.context import SessionContext
from gateway.session.pending import OffloadStep, Send
from gateway.session.request import LONG_ANSWER_BYTES, Message, Request


def ask(
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
