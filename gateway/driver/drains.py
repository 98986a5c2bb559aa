"""Which operations are drained: nothing of what they fence, or have proposed a cut for, is in flight from before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping

from gateway import clock
from gateway.driver.connection import Connection
from gateway.driver.rounds import Rounds
from gateway.session.snapshot import Scope

HURRY_EVERY_S = 0.25


class Drains:
    """Per operation, the connections that still have something of its topics or groups in flight.

    Behind a fence nothing new is forwarded. Where a cut is proposed produce goes on, by new rules; so only what was
    forwarded before this gateway followed the revision counts. A fence that takes the place of a transaction fence of
    the same operation is drained anew.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, on_drained: Callable[[], None]) -> None:
        self._on_drained = on_drained
        self._hurrying = Rounds[Connection](loop, lambda connection: connection.hurry(clock.now()))
        self._scopes: Mapping[str, Scope] = {}
        self._since: dict[str, int] = {}
        self._waiting: dict[str, set[Connection]] = {}

    @property
    def drained(self) -> tuple[str, ...]:
        """Operations of which nothing is held back any more."""
        return tuple(sorted(operation for operation in self._scopes if not self._waiting[operation]))

    async def keep(self) -> None:
        """Has the connections that an operation waits for look after what holds them up, for ever."""
        while True:
            await asyncio.sleep(HURRY_EVERY_S)
            self._hurrying.begin(set[Connection]().union(*self._waiting.values()))

    def follow(self, revision: int, found: Mapping[str, Scope], connections: Collection[Connection]) -> None:
        """Nothing is forwarded by older rules than those of the revision from here on.

        Every connection is taken to hold a fresh operation back until `progressed` has looked at it: whoever calls this
        has every one of them follow the revision, and looked at then.
        """
        fresh = [op for op, scope in found.items() if self._scopes.get(op) != scope]
        self._scopes = found
        self._since = {op: since for op, since in self._since.items() if op in found}
        self._waiting = {op: waiting for op, waiting in self._waiting.items() if op in found}
        for op in fresh:
            self._since[op] = revision
            self._waiting[op] = set(connections)

    def progressed(self, connection: Connection) -> None:
        """The connection follows a new revision, something of it was answered, or it ended."""
        for operation, waiting in self._waiting.items():
            if connection not in waiting:
                continue
            scope, since = self._scopes[operation], self._since[operation]
            if connection.ended or not connection.session.holds_back(scope.topics, scope.groups, since, scope.quiet):
                waiting.discard(connection)
                if not waiting:
                    self._on_drained()
