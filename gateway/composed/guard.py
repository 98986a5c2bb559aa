"""Handlers behind the rights of whoever asks: they see what he may ask for, and he sees what he may see of the rest."""

from __future__ import annotations

from gateway.composed.ask import Message
from gateway.composed.handlers import HANDLERS, Context, Handler
from gateway.model.rights import Gate
from ha_core.plan.access.rights import Verdicts
from ha_core.wire.apis import APIS


def compose(context: Context, api_key: int, version: int, request: Message) -> Handler:
    """The answer in the making."""
    if context.verdicts is None:
        return HANDLERS[api_key](context, version, request)
    return _guarded(context, context.verdicts, api_key, version, request)


def _guarded(context: Context, verdicts: Verdicts, api_key: int, version: int, request: Message) -> Handler:
    # Behind the first step: of a request with a hundred thousand names that is done beside the event loop.
    gate = Gate(verdicts, APIS[api_key], version, request)
    if gate.denied:
        context.deny(gate.denied)
        # What is left of the topics that METADATA names may be none. In its version 0 that would be all of them.
        version = APIS[api_key].max_version
    if gate.answer is not None:
        return gate.answer
    answer = yield from HANDLERS[api_key](context, version, gate.request)
    return gate.amend(answer)
