"""Keeps the lease: while ZooKeeper confirms the session, produce may be forwarded."""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Generic, TypeVar

from gateway.runtime import clock
from gateway.runtime.time_sliced_sweep import TimeSlicedSweep
from gateway.session.snapshot import Lease

_log = logging.getLogger(__name__)

RETRY_S = 0.05
_THREAD = ThreadPoolExecutor(1, "lease")
"""Its own thread: the loop's threads are few, and each name look-up without an answer blocks one for many seconds."""


C = TypeVar("C")


class AwaitingLease(Generic[C]):
    """Connections with an answer that may be sent only under the lease."""

    def __init__(self, loop: asyncio.AbstractEventLoop, lease_is_back: Callable[[C], None]) -> None:
        self._waiting: set[C] = set()
        self._rounds = TimeSlicedSweep(loop, lease_is_back)

    def add(self, connection: C) -> None:
        self._waiting.add(connection)

    def discard(self, connection: C) -> None:
        self._waiting.discard(connection)

    def resume(self) -> None:
        """The lease holds again. A connection that finds it lost once more, as after a stop of the process, waits for
        the next time."""
        waiting, self._waiting = self._waiting, set()
        self._rounds.visit_all(waiting)


async def keep(
    lease: Lease,
    confirm: Callable[[], int],
    current: Callable[[], int | None],
    lease_ms: int,
    on_confirmed: Callable[[], None],
) -> None:
    """Confirms four times per lease; never returns.

    Invariant: while the lease holds, no operation has gone on without this gateway. Operations publish their fence
    first and list the live gateways then. So a gateway that is registered, and follows the revision that was published
    when ZooKeeper confirmed its session, follows the fence of every operation that did not see it.
    The lease counts from *before* the question: the answer proves only that the session lived when it was sent.

    :param confirm: the newest revision, from ZooKeeper through the live session.
    :param current: the revision that every session follows; None while the gateway is not registered.
    :param on_confirmed: called while the lease holds, to resume connections that wait for it.
    """
    held = False
    while True:
        asked_at = clock.now()
        why = "this gateway is not registered"
        try:
            registered = current() is not None
            newest = await asyncio.get_running_loop().run_in_executor(_THREAD, confirm)
            follows = current()
            if registered and follows is not None:
                why = f"revision {newest} is published, {follows} is followed" if follows < newest else ""
                if not why:
                    lease.renew(asked_at, lease_ms / 1000)
        except Exception as error:
            why = str(error)
        holds = lease.holds(clock.now())
        if holds != held:
            held = holds
            _log.info("lease held for %d ms", lease_ms) if held else _log.warning(
                "lease lost, writes are refused: %s", why
            )
        if holds:
            on_confirmed()
        wait_s = RETRY_S if why else lease_ms / 4000
        await asyncio.sleep(max(0.0, wait_s - (clock.now() - asked_at)))
