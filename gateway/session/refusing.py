"""Bodies of answers that refuse a request for a coordinator."""

from __future__ import annotations

from collections.abc import Callable

from gateway.session.refusal import Refusal
from gateway.session.request import Message, Request


def refusal_frame(
    request: Request, message: Message, refusal: Refusal, amend: Callable[[Message], Message] | None
) -> bytes:
    """The encoded refusal, for reasons whose error code does not depend on the client's software."""
    return request.answer(refusal_answer(request, message, refusal, None, amend))


def refusal_answer(
    request: Request,
    message: Message,
    refusal: Refusal,
    software: str | None,
    amend: Callable[[Message], Message] | None,
) -> Message:
    answer = request.api.refusal(message, refusal.code(request.api, software))
    return answer if amend is None else amend(answer)
