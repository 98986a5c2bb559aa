"""Answers that refuse: held for their fence, and damped where a client asks again and again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence

from gateway.session.produce.producer_order import Refused
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
    :param amend: adds what is said of what was taken out of `message`, because it was denied.
    """
    session.count_refused((refusal,))
    answer = request.api.refusal(message, refusal.code(request.api))
    if amend is not None:
        answer = amend(answer)
    lifts_with = fence if refusal is Refusal.FENCE else None
    answer_refused(session, request, answer, (refusal,), (request.api_key,), lifts_with)


def answer_refused(
    session: ConnectionState,
    request: Request,
    answer: Message,
    refusals: Iterable[Refusal],
    what: Iterable[Hashable],
    fence: str | None = None,
    batches: Sequence[Refused] = (),
) -> None:
    """Says refusals that are counted already.

    :param what: was refused: partitions, or a kind of request.
    :param batches: that have to come again.
    """
    hold_s = max(refusal.hold_s for refusal in refusals) or session.damping.refused(what)
    session.reply(request, answer, "refused", session.now + hold_s, fence, batches)
