"""Exchanges use of quotas with the other gateways once a second, so that they share quotas (`gateway/quotas/sharing`).

Nothing is written or read where there are no quotas, or only one gateway. An idle scope is reported until the other
gateways have forgotten it.

A gateway that has received nothing for `LOST_S`, because it was stopped or ZooKeeper was away, has lost its lease and
forwarded nothing: its clients would find ten seconds' worth unused, while those of other gateways have used all of it.
"""

import asyncio
import logging
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain, islice

from gateway.quotas.charges import Charge, Meters
from gateway.quotas.sharing import QuotaShares, ScopeUse, UsageReport
from gateway.runtime import clock
from ha_core.model import QuotaUse
from ha_core.store.errors import StoreError
from ha_core.store.gateways import Registration
from ha_core.store.store import Store

_log = logging.getLogger(__name__)

EVERY_S = 1.0
LOST_S = 5.0
PATIENCE_S = 3.0
"""How long the start waits for the number of live gateways."""
QUIET_TOLD = 30
"""Resend an unchanged rate this many times. Peers decay rates by 25 % per report (`sharing.NEWEST`); this lets an idle
one reach zero, and its share with it."""
MAX_TOLD = 500
"""Most scopes in a report: for each user those nearest to their quota. Other scopes are shared equally by gateways."""
MAX_TOLD_BYTES = 500_000
"""Most bytes of their names, which clients make up: ZooKeeper takes a megabyte at once."""
_ENTRY_BYTES = 60
_Uses = Mapping[str, tuple[float, float]]


class Sharing:
    def __init__(
        self,
        own_id: str,
        store: Store,
        meters: Meters,
        shares: QuotaShares,
        gateways: Callable[[], int],
        limited: Callable[[], bool],
    ) -> None:
        """:param gateways: how many live; 0: not known yet.
        :param limited: whether there are quotas.
        """
        self._own_id, self._store, self._meters, self._shares = own_id, store, meters, shares
        self._gateways, self._limited = gateways, limited
        self._since = secrets.token_hex(8)
        self._registration: Registration[QuotaUse] | None = None
        self._reported: _Uses = {}
        self._quiet = 0
        """How often the current report has been sent."""
        self._complained = False
        self._heard_at = clock.now()
        shares.begin_anew()

    async def begin(self) -> None:
        """The first round, as soon as the number of live gateways is known."""
        until = clock.now() + PATIENCE_S
        while not self._gateways() and clock.now() < until:  # noqa: ASYNC110 - at the start only
            await asyncio.sleep(0.02)
        await self.look()

    async def keep(self) -> None:
        """Exchanges in rounds; never returns."""
        while True:
            await asyncio.sleep(EVERY_S)
            await self.look()

    async def look(self) -> None:
        """One round."""
        gateways = self._gateways()
        if not gateways:
            return
        if gateways == 1 or not self._limited():
            self._shares.alone(gateways)
        else:
            self._begin_anew_if_lost()
            try:
                await self._report()
                heard = await asyncio.to_thread(self._store.quota_uses)
            except StoreError as error:
                if not self._complained:
                    _log.warning("other gateways' use of quotas is not known; the last shares stay: %s", error)
                self._complained = True
                return
            self._complained = False
            self._shares.learn([_telling(use) for use in heard], gateways)
        self._heard_at = clock.now()
        self._meters.share()

    def _begin_anew_if_lost(self) -> None:
        now = clock.now()
        if now - self._heard_at >= LOST_S:
            self._heard_at = now  # While ZooKeeper is away this recurs: presumed use is forgotten, too.
            self._shares.begin_anew()
            self._meters.presume(now)

    async def _report(self) -> None:
        now = clock.now()
        nearest = sorted(self._meters.kept(), key=lambda charge: charge.meter.rate(now), reverse=True)
        chosen = islice(_in_turn(nearest), MAX_TOLD)
        uses = dict(_within(MAX_TOLD_BYTES, ((charge.scope.key, _used(charge)) for charge in chosen)))
        use = QuotaUse(id=self._own_id, since=self._since, at_s=now, uses=uses)
        self._quiet = self._quiet + 1 if uses == self._reported else 0
        if self._registration is None:
            self._registration = await asyncio.to_thread(self._store.register, use)
        elif self._quiet <= QUIET_TOLD:
            self._registration.update(use)
        self._reported = uses


def _in_turn(charges: Iterable[Charge]) -> Iterator[Charge]:
    """The first of each user, then the second of each: made-up client ids displace only scopes of their user."""
    turns: list[list[Charge]] = []
    taken: Counter[str | None] = Counter()
    for charge in charges:
        turn = taken[charge.scope.user]
        taken[charge.scope.user] += 1
        if turn == len(turns):
            turns.append([])
        turns[turn].append(charge)
    return chain.from_iterable(turns)


def _within(
    max_bytes: int, uses: Iterable[tuple[str, tuple[float, float]]]
) -> Iterator[tuple[str, tuple[float, float]]]:
    for key, use in uses:
        # A key is JSON within JSON: its quotes and backslashes are escaped.
        max_bytes -= 2 * len(key) + _ENTRY_BYTES
        if max_bytes < 0:
            return
        yield key, use


def _used(charge: Charge) -> tuple[float, float]:
    return round(charge.meter.used_s, 4), round(charge.meter.waited, 4)


def _telling(use: QuotaUse) -> UsageReport:
    return UsageReport(use.id, use.since, use.at_s, {key: ScopeUse(*amounts) for key, amounts in use.uses.items()})
