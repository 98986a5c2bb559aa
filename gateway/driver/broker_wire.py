"""A connection to a broker on behalf of one client, dialled or being dialled."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from gateway.driver.wire import Wire
from gateway.session.commands import BrokerLane


class BrokerWire:
    """What is not with the broker yet was accepted under a lease, and is sent under the same one only.

    A request of which a part was never sent is never executed.
    """

    __slots__ = ("dialling", "early", "generation", "lane", "outdated", "renewal", "shut", "wire")

    def __init__(self, lane: BrokerLane) -> None:
        self.lane = lane
        self.wire: Wire | None = None
        self.dialling: asyncio.Task[None] | None = None
        self.early: list[bytes] = []
        """Requests for a connection that is not open yet."""
        self.generation: int | None = None
        """Of the lease under which the first bytes that are still here were accepted; None: under none."""
        self.shut = False
        """Nothing more is to be sent than what is still pending."""
        self.renewal: asyncio.TimerHandle | None = None
        self.outdated = False
        """Its login ends soon: it is left as soon as nothing is under way on it."""

    def send(self, data: bytes | bytearray | memoryview, lease: Callable[[], int | None]) -> None:
        """:param lease: its generation while it holds: asked for only where something is kept.
        :raises OSError: the connection broke.
        """
        wire = self.wire
        if wire is None:
            if not self.early:
                self.generation = lease()
            self.early.append(bytes(data))
            return
        kept = bool(wire.pending)
        wire.send(data)
        if wire.pending and not kept:
            self.generation = lease()

    def close(self) -> None:
        if self.dialling is not None:
            self.dialling.cancel()
        if self.renewal is not None:
            self.renewal.cancel()
        if self.wire is not None:
            self.wire.close()
            self.wire = None

    def begin(self, wire: Wire) -> None:
        """The connection is there. OSError if it broke."""
        self.wire = wire
        early, self.early = self.early, []
        for data in early:
            wire.send(data)
        self.finish()

    def finish(self) -> None:
        """Ends its own direction when all that was to be sent is. OSError if the connection broke."""
        if self.shut and self.wire is not None:
            self.wire.finish()
