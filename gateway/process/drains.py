"""Which operations are drained: nothing of what they fence, or have proposed a cut for, is in flight from before."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from gateway.process.sockets.connection import ClientConnection
from gateway.runtime import clock
from gateway.runtime.time_sliced_sweep import TimeSlicedSweep
from gateway.session.snapshot import DrainScope

HURRY_EVERY_S = 0.25
LAST_WORDS_S = 1.0
"""So long an operation waits for a cluster that it takes for dead: one that lives may answer what it was sent before.
"""


class _Drain(NamedTuple):
    scope: DrainScope
    since: int
    """The revision from which on nothing is forwarded by older rules."""
    begun_at: float
    waiting: set[ClientConnection]


class Drains:
    """Per operation, the connections that still have something of its topics or groups in flight.

    Behind a fence nothing new is forwarded. Where a cut is proposed produce goes on, by new rules; so only what was
    forwarded before this gateway followed the revision counts. A fence that takes the place of a transaction fence of
    the same operation is drained anew.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, on_drained: Callable[[], None]) -> None:
        self._on_drained = on_drained
        self._hurrying = TimeSlicedSweep[ClientConnection](loop, self._hurry)
        self._drains: dict[str, _Drain] = {}

    @property
    def drained(self) -> tuple[str, ...]:
        """Operations of which nothing is held back any more."""
        return tuple(sorted(operation for operation, drain in self._drains.items() if not drain.waiting))

    async def keep(self) -> None:
        """Has the connections that an operation waits for look after what holds them up, for ever."""
        while True:
            await asyncio.sleep(HURRY_EVERY_S)
            self._hurrying.begin(set[ClientConnection]().union(*(drain.waiting for drain in self._drains.values())))

    def follow(self, revision: int, found: Mapping[str, DrainScope], connections: Collection[ClientConnection]) -> None:
        """Nothing is forwarded by older rules than those of the revision from here on.

        Every connection is taken to hold a fresh operation back until `progressed` has looked at it: whoever calls this
        has every one of them follow the revision, and looked at then.
        """
        before, self._drains = self._drains, {}
        for operation, scope in found.items():
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
