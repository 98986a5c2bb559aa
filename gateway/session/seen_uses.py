"""First uses of topics and groups on a connection, which are reported once, and again some hours later."""

from collections.abc import Collection, Mapping
from types import MappingProxyType

from gateway.session.client import SessionClient
from gateway.session.commands import CheckTopicExists, Saw
from gateway.session.context import SessionContext
from gateway.session.request import Request, text
from ha_core.model.topic import legal_name
from ha_core.model.usage import SEEN_AGAIN

MAX_SEEN = 10_000
"""Topics and groups of one connection whose use is reported."""
SEEN_AGAIN_S = SEEN_AGAIN.total_seconds()
MAX_MISSING = 20
"""Topics of one connection that the gateway does not know yet."""
MADE_WITHIN_S = 60.0
"""The gateway looks up a topic that it does not know, once. After this time, at the next request, it does so again."""
MISSING_FOR_S = 600.0
"""A topic that was not found for this long has to be named again: it may be made up, or its cluster was away."""
_NONE: Mapping[tuple[str, str], tuple[str | None, float]] = MappingProxyType({})
"""Shared by nearly all connections."""


class SeenUses:
    """:ivar until: when uses are reported again: a connection may stay open for months."""

    __slots__ = ("_client", "_context", "_hashes", "_missing", "until")

    def __init__(self, context: SessionContext, client: SessionClient) -> None:
        self._context, self._client = context, client
        self._hashes: dict[int, None] = {}
        """Hashes of reported uses. (Most connections have none or one; an empty set takes three times as much
        memory.)"""
        self._missing: Mapping[tuple[str, str], tuple[str | None, float]] = _NONE
        """Topic that the gateway does not know, and kind of use → client id, and when it was used first."""
        self.until = 0.0

    def look_again(self) -> None:
        """Reports all further uses again, and looks missing topics up again."""
        now = self._context.now
        self.until = now + SEEN_AGAIN_S
        self._hashes.clear()
        if self._missing:
            self._missing = {use: first for use, first in self._missing.items() if now - first[1] < MISSING_FOR_S}
            self._check_existence({name for name, _ in self._missing})

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
            if what == "topic":
                if not self._context.snapshot.has_topic(text(name)):
                    self._miss(request.client_id, text(name), how)
                    return
                self._found(text(name), how)
            self._report(key, request.client_id, what, text(name), how)

    def find_missing(self) -> None:
        """The gateway has a new view, or has looked at a cluster: topics that were missing may be known now."""
        for (name, how), (client_id, _) in self._missing.items():
            if self._context.snapshot.has_topic(name):
                self._found(name, how)
                self._report(hash((how, name.encode())), client_id, "topic", name, how)

    def _miss(self, client_id: str | None, name: str, how: str) -> None:
        if (name, how) not in self._missing and len(self._missing) < MAX_MISSING and legal_name(name):
            self._missing = {**self._missing, (name, how): (client_id, self._context.now)}
            self._check_existence({name})

    def _found(self, name: str, how: str) -> None:
        if (name, how) in self._missing:
            self._missing = {use: first for use, first in self._missing.items() if use != (name, how)}

    def _check_existence(self, topics: Collection[str]) -> None:
        context = self._context
        self.until = min(self.until, context.now + MADE_WITHIN_S)
        if context.here is not None and context.snapshot.topology.reachable(context.here.cluster):
            context.out += [CheckTopicExists(context.here.cluster, topic) for topic in topics]

    def _report(self, key: int, client_id: str | None, what: str, name: str, how: str) -> None:
        self._hashes[key] = None
        context, client = self._context, self._client
        identity = context.snapshot.view.identify(client.auth_state.user, client_id)
        context.emit(Saw(identity, what, name, how, client.software))
