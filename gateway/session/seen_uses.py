"""First uses of topics and groups on a connection, which are reported once, and again some hours later."""

from __future__ import annotations

from gateway.session.client import SessionClient
from gateway.session.commands import Saw
from gateway.session.context import SessionContext
from gateway.session.request import Request, text
from ha_core.model.usage import SEEN_AGAIN

MAX_SEEN = 10_000
"""Topics and groups of one connection whose use is reported."""
SEEN_AGAIN_S = SEEN_AGAIN.total_seconds()
MADE_WITHIN_S = 60.0
"""A topic that is not known here may be new: clusters are looked at twice as often as this."""


class SeenUses:
    """:ivar until: when uses are reported again: a connection may stay open for months."""

    __slots__ = ("_client", "_context", "_hashes", "until")

    def __init__(self, context: SessionContext, client: SessionClient) -> None:
        self._context, self._client = context, client
        self._hashes: dict[int, None] = {}
        """Hashes of reported uses. (Most connections have none or one; an empty set takes three times as much
        memory.)"""
        self.until = 0.0

    def look_again(self) -> None:
        """Reports all further uses again."""
        self.until = self._context.now + SEEN_AGAIN_S
        self._hashes.clear()

    def forget(self) -> None:
        """A topic was deleted. A topic created under its name is a new one, and its use is reported again."""
        self._hashes.clear()

    def notice(self, request: Request, what: str, name: bytes, how: str) -> None:
        """Reports the use of a topic or group, once per connection and kind of use.

        A topic that no cluster has is not reported: clients without a login may name anything.
        """
        key = hash((how, name))  # names come from the wire, and may be long
        if key not in self._hashes and len(self._hashes) < MAX_SEEN:
            context, client = self._context, self._client
            if what == "topic" and not context.snapshot.has_topic(text(name)):
                self.until = min(self.until, context.now + MADE_WITHIN_S)
                return
            self._hashes[key] = None
            context.emit(Saw(client.routes(request.client_id).identity, what, text(name), how, client.software))
