"""Tracks drains: when no request of an operation's scope from before its fence or proposed cut is in flight."""

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from gateway.process.sockets.connection import ClientConnection
from gateway.runtime import clock
from gateway.runtime.time_sliced_sweep import TimeSlicedSweep
from gateway.session.snapshot import DrainScope

HURRY_EVERY_S = 0.25
LAST_WORDS_S = 1.0
"""How long an operation waits for a cluster that it takes for dead: a live one may answer earlier requests."""


class _Drain(NamedTuple):
    scope: DrainScope
    since: int
    """The revision from which on no request is forwarded by older rules."""
    begun_at: float
    waiting: set[ClientConnection]


class Drains:
    """Per operation, the connections that still have requests of its topics or groups in flight.

    After a fence no request is forwarded. After a proposed cut produce goes on by new rules, so only requests that were
    forwarded before this gateway followed the revision count. When a fence replaces a transaction fence of its
    operation, the drain starts again.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, on_drained: Callable[[], None]) -> None:
        self._on_drained = on_drained
        self._hurrying = TimeSlicedSweep[ClientConnection](loop, self._hurry)
        self._drains: dict[str, _Drain] = {}

    @property
    def drained(self) -> tuple[str, ...]:
        """Operations that no connection holds back any more."""
        return tuple(sorted(operation for operation, drain in self._drains.items() if not drain.waiting))

    async def keep(self) -> None:
        """Makes connections that hold up an operation check their requests, again and again; never returns."""
        while True:
            await asyncio.sleep(HURRY_EVERY_S)
            self._hurrying.visit_all(set[ClientConnection]().union(*(drain.waiting for drain in self._drains.values())))

    def follow(
        self, revision: int, scopes: Mapping[str, DrainScope], connections: Collection[ClientConnection]
    ) -> None:
        """From here on, no request is forwarded by rules older than the revision's.

        Every connection is assumed to hold back a new operation until `progressed` has checked it: the caller makes
        every connection follow the revision, and then calls that.
        """
        before, self._drains = self._drains, {}
        for operation, scope in scopes.items():
            drain = before.get(operation)
            if drain is None or drain.scope != scope:
                drain = _Drain(scope, revision, clock.now(), set(connections))
            self._drains[operation] = drain

    def progressed(self, connection: ClientConnection) -> None:
        """The connection follows a new revision, something of it was answered, or it ended."""
        for scope, since, _, waiting in self._drains.values():
            if connection not in waiting:
                continue
            if connection.ended or not connection.session.holds_back(
                scope.topics, scope.groups, since, scope.quiet, scope.taken_for_dead
            ):
                waiting.discard(connection)
                if not waiting:
                    self._on_drained()

    def _hurry(self, connection: ClientConnection) -> None:
        connection.hurry()
        overdue = clock.now() - LAST_WORDS_S
        for drain in tuple(self._drains.values()):
            dead = drain.scope.taken_for_dead
            if dead is not None and drain.begun_at <= overdue and connection in drain.waiting:
                connection.give_up(dead)
