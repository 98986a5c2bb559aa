"""The end of all connections of a gateway that stops, without an answer that is missing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection

from gateway.driver.connection import Connection
from gateway.driver.farewell import PATIENCE_S, Farewells
from gateway.session.commands import Cause

READS_S = 2.0
"""How long what reads is waited for, and what waits for other clients."""
WRITES_S = 10.0
"""How long what may have changed a log or a group: unanswered, it is sent again, and may be there twice."""
_STEP_S = 0.02


async def part(connections: Collection[Connection], farewells: Farewells) -> None:
    """Takes nothing more from clients, answers what is in flight, and ends each connection behind its last answer.

    :param connections: shrinks as they end.
    """
    for connection in tuple(connections):
        connection.leave(Cause.SHUTDOWN, "")
    since = time.monotonic()
    while _unanswered(connections, time.monotonic() - since):  # noqa: ASYNC110
        await asyncio.sleep(_STEP_S)
    for connection in tuple(connections):
        connection.end(Cause.SHUTDOWN)
    until = time.monotonic() + PATIENCE_S
    while farewells and time.monotonic() < until:  # noqa: ASYNC110
        await asyncio.sleep(_STEP_S)
    farewells.close()


def _unanswered(connections: Collection[Connection], waited_s: float) -> bool:
    if waited_s < READS_S:
        return bool(connections)
    return waited_s < WRITES_S and any(connection.session.writes for connection in connections)
