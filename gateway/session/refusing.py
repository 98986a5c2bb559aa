"""Answers that refuse a request: held until the fence is lifted, and delayed when a client retries in a loop."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial

from gateway.session.produce.producer_order import RefusedBatch
from gateway.session.refusal import Refusal
from gateway.session.request import Message, Request
from gateway.session.state import ConnectionState


def refuse(
    session: ConnectionState,
    request: Request,
    message: Message,
    refusal: Refusal,
    fence: str | None = None,
    amend: Callable[[Message], Message] | None = None,
) -> None:
    """Refuses a request for a coordinator.

    :param fence: the operation whose fence stands, if one does.
    :param amend: adds the results of the elements that were removed from `message` because they were denied.
    """
    session.count_refused((refusal,))
    make = partial(_refusal, request, message, refusal, session.software, amend)
    lifts_with = fence if refusal is Refusal.FENCE else None
    answer_refused(session, request, make, (refusal,), (request.api_key,), lifts_with)


def refusal_frame(
    request: Request, message: Message, refusal: Refusal, amend: Callable[[Message], Message] | None
) -> bytes:
    """The encoded refusal, for reasons whose error code does not depend on the client's software."""
    return request.answer(_refusal(request, message, refusal, None, amend))


def _refusal(
    request: Request,
    message: Message,
    refusal: Refusal,
    software: str | None,
    amend: Callable[[Message], Message] | None,
) -> Message:
    answer = request.api.refusal(message, refusal.code(request.api, software))
    return answer if amend is None else amend(answer)


def answer_refused(
    session: ConnectionState,
    request: Request,
    answer: Message | Callable[[], Message],
    refusals: Iterable[Refusal],
    what: Iterable[Hashable],
    fence: str | None = None,
    batches: Sequence[RefusedBatch] = (),
) -> None:
    """Sends refusals that are counted already.

    :param answer: the answer, or its factory, which runs off the event loop if the request is long.
    :param what: keys for the back-off: partitions, or a kind of request.
    :param batches: batches that the client has to send again.
    """
    hold_s = max(refusal.hold_s for refusal in refusals) or session.damping.refused(what)
    due_at = session.now + hold_s
    if request.prepared is not None:
        session.reply_later(request, answer if callable(answer) else lambda: answer, "refused", due_at, fence)
    else:
        session.reply(request, answer() if callable(answer) else answer, "refused", due_at, fence, batches)
