"""First uses of topics and groups on a connection, which are reported once, and again some hours later."""

from __future__ import annotations

from gateway.session.client import SessionClient
from gateway.session.commands import FindLeaders, Saw
from gateway.session.context import SessionContext
from gateway.session.request import Request, text
from ha_core.model.access import MAX_TOPIC_NAME
from ha_core.model.usage import SEEN_AGAIN

MAX_SEEN = 10_000
"""Topics and groups of one connection whose use is reported."""
SEEN_AGAIN_S = SEEN_AGAIN.total_seconds()
MAX_MISSING = 20
"""Topics of one connection that the gateway does not know yet."""
MADE_WITHIN_S = 60.0
"""The gateway looks up a topic that it does not know, once. After this time it does so again."""


class SeenUses:
    """:ivar until: when uses are reported again: a connection may stay open for months."""

    __slots__ = ("_client", "_context", "_hashes", "_missing", "until")

    def __init__(self, context: SessionContext, client: SessionClient) -> None:
        self._context, self._client = context, client
        self._hashes: dict[int, None] = {}
        """Hashes of reported uses. (Most connections have none or one; an empty set takes three times as much
        memory.)"""
        self._missing: dict[tuple[bytes, str], str | None] = {}
        """Topic that the gateway does not know, and kind of use → client id."""
        self.until = 0.0

    def look_again(self) -> None:
        """Reports all further uses again."""
        self.until = self._context.now + SEEN_AGAIN_S
        self._hashes.clear()
        self._missing.clear()

    def forget(self) -> None:
        """A topic was deleted. A topic created under its name is a new one, and its use is reported again."""
        self._hashes.clear()

    def notice(self, request: Request, what: str, name: bytes, how: str) -> None:
        """Reports the use of a topic or group, once per connection and kind of use.

        A topic that no cluster has is not reported: clients without a login may name anything. One that was created a
        moment ago is reported as soon as the gateway knows it: a switch that is planned then takes it along, even if
        the client sends nothing more.
        """
        key = hash((how, name))  # names come from the wire, and may be long
        if key not in self._hashes and len(self._hashes) < MAX_SEEN:
            if what == "topic" and not self._context.snapshot.has_topic(text(name)):
                self._miss(request.client_id, name, how)
                return
            self._hashes[key] = None
            self._report(request.client_id, what, name, how)

    def find_missing(self) -> None:
        """The gateway has looked at a cluster: topics that were missing may be known now."""
        for (name, how), client_id in list(self._missing.items()):
            if self._context.snapshot.has_topic(text(name)):
                del self._missing[name, how]
                self._hashes[hash((how, name))] = None
                self._report(client_id, "topic", name, how)

    def _miss(self, client_id: str | None, name: bytes, how: str) -> None:
        context, missing = self._context, self._missing
        self.until = min(self.until, context.now + MADE_WITHIN_S)
        if (name, how) in missing or len(missing) >= MAX_MISSING or len(name) > MAX_TOPIC_NAME:
            return
        missing[name, how] = client_id
        if context.here is not None:
            context.emit(FindLeaders(context.here.cluster, frozenset({text(name)})))

    def _report(self, client_id: str | None, what: str, name: bytes, how: str) -> None:
        client = self._client
        self._context.emit(Saw(client.routes(client_id).identity, what, text(name), how, client.software))
