"""Follows what the job that copies mirrors tells of the copies, as long as somebody reads from them.

It is asked for by the clock, beside the loop: what is told is in no revision, and grows by the second. What comes late,
or not at all while ZooKeeper is away, makes readers wait, and skips nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

from gateway.model.copies import Copies, told_of
from ha_core.model import MirrorCopies, View
from ha_core.store.errors import StoreError

_log = logging.getLogger(__name__)

EVERY_S = 0.5
TRUSTED_S = 10.0
"""Who can ask nobody for so long goes by nothing any more: readers at a copy's end would wait for ever."""


class FollowingCopies:
    def __init__(
        self,
        ask: Callable[[], Iterable[MirrorCopies]],
        copies: Copies,
        view: Callable[[], View],
        now: Callable[[], float],
    ) -> None:
        """:param ask: what is told now, from ZooKeeper; in a thread of its own."""
        self._ask, self._copies, self._view, self._now = ask, copies, view, now
        self._judged: View | None = None
        self._wanted = False
        self._heard_at = now()

    async def keep(self) -> None:
        """For ever."""
        while True:
            await self.look()
            await asyncio.sleep(EVERY_S)

    async def look(self) -> None:
        """One round."""
        view = self._view()
        if view is not self._judged:
            self._judged, self._wanted = view, await asyncio.to_thread(_anybody_reads, view)
        if not self._wanted:
            self._copies.learn({})
            return
        try:
            told = await asyncio.to_thread(lambda: told_of(self._ask(), self._copies.told))
        except StoreError as error:
            if self._copies.told and self._now() - self._heard_at > TRUSTED_S:
                _log.warning("nothing is read from copies any more, as nobody says what lies there: %s", error)
                self._copies.learn({})
        else:
            self._heard_at = self._now()
            self._copies.learn(told)


def _anybody_reads(view: View) -> bool:
    return bool(view.mirrors) and any(one.read is not None for one in view.bindings.values())
