"""Handlers that see the rights of a client: the request is reduced to its allowed part, and the answer to its visible
part."""

from __future__ import annotations

from gateway.composed.ask import Message
from gateway.composed.handlers import HANDLERS, Context, Handler
from gateway.model.rights import Gate
from ha_core.plan.access.rights import Verdicts
from ha_core.wire.apis import APIS


def compose(context: Context, api_key: int, version: int, request: Message) -> Handler:
    """The handler for a request."""
    if context.verdicts is None:
        return HANDLERS[api_key](context, version, request)
    return _guarded(context, context.verdicts, api_key, version, request)


def _guarded(context: Context, verdicts: Verdicts, api_key: int, version: int, request: Message) -> Handler:
    # After the first step: for a request with a hundred thousand names this runs off the event loop.
    gate = Gate(verdicts, APIS[api_key], version, request)
    if gate.denied:
        context.deny(gate.denied)
        # All topics that METADATA names may be denied. In version 0 an empty list would ask for all topics.
        version = APIS[api_key].max_version
    if gate.answer is not None:
        return gate.answer
    answer = yield from HANDLERS[api_key](context, version, gate.request)
    return gate.amend(answer)
