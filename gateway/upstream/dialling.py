"""Dials the brokers of one cluster, each for itself: one that swallows every packet holds up nobody else.

A broker that could not be dialled is left alone for a while, by those who waited for their turn, too.
"""

from __future__ import annotations

import asyncio
import errno
from dataclasses import dataclass

from gateway.descriptors import EXHAUSTED
from gateway.topology import Address
from gateway.upstream.dial import BrokerSocket, DialError, dial
from ha_core.wire.sasl import SecurityProfile

DIAL_MS = 10_000
"""As long as Kafka's own clients try (`socket.connection.setup.timeout.ms`): two lost SYNs are three seconds."""
MIN_PAUSE_S = 0.25
MAX_PAUSE_S = 2.0
_MAX_AT_ONCE = 64
_OWN_LIMITS = EXHAUSTED | {errno.EADDRNOTAVAIL}
"""Nothing is wrong with the broker."""


@dataclass
class _Pause:
    """An address that could not be dialled: nobody tries again before `until` (loop time)."""

    until: float
    length_s: float
    why: str


class Dialling:
    """Used on one event loop only."""

    def __init__(self, profile: SecurityProfile, client_id: str, dial_ms: int = DIAL_MS) -> None:
        self._profile, self._client_id, self._dial_ms = profile, client_id, dial_ms
        self._pauses: dict[Address, _Pause] = {}
        self._turns: dict[Address, asyncio.Semaphore] = {}
        self.begun = 0
        self.failed = 0

    def rests(self, address: Address) -> bool:
        """Whether it is left alone at the moment."""
        pause = self._pauses.get(address)
        return pause is not None and asyncio.get_running_loop().time() < pause.until

    def forgive(self, address: Address | None = None) -> None:
        """The next one may try at once; None: all of them."""
        if address is None:
            self._pauses.clear()
        else:
            self._pauses.pop(address, None)

    def keep(self, addresses: set[Address]) -> None:
        """Forgets all others."""
        for known in (self._pauses, self._turns):
            for address in known.keys() - addresses:
                del known[address]

    async def for_client(self, address: Address) -> BrokerSocket:
        """A socket for a client's own connection: so many at once to a broker, the others wait for their turn.

        :raises DialError: it could not be dialled, now or a moment ago.
        """
        self._demand_rested(address)
        async with self._turns.setdefault(address, asyncio.Semaphore(_MAX_AT_ONCE)):
            return await self.dial(address)

    async def dial(self, address: Address) -> BrokerSocket:
        """A socket for the gateway's own questions, which wait for nobody's turn.

        :raises DialError: it could not be dialled, now or a moment ago.
        """
        loop = asyncio.get_running_loop()
        self._demand_rested(address)
        self.begun += 1
        try:
            sock = await dial(address, self._profile, self._client_id, self._dial_ms)
        except DialError as error:
            self.failed += 1
            cause = error.__cause__
            if not (isinstance(cause, OSError) and cause.errno in _OWN_LIMITS):
                pause = self._pauses.get(address)
                length_s = min(MAX_PAUSE_S, pause.length_s * 2 if pause else MIN_PAUSE_S)
                self._pauses[address] = _Pause(loop.time() + length_s, length_s, str(error))
            raise
        self._pauses.pop(address, None)
        return sock

    def _demand_rested(self, address: Address) -> None:
        if self.rests(address):
            raise DialError(f"{self._pauses[address].why} (not tried again yet)")
