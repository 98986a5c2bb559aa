"""Follows the positions of copies that the copiers report, while any binding reads from copies.

It polls, in a thread: positions are part of no revision, and change every second. Late positions, or none while
ZooKeeper is away, make readers wait, and skip no record.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable

from gateway.model.copies import Copies, merged_reports
from ha_core.model import MirrorCopies, View
from ha_core.store.errors import StoreError

_log = logging.getLogger(__name__)

EVERY_S = 0.5
TRUSTED_S = 10.0
"""Discard positions older than this; otherwise readers at the end of a stale copy hang."""


class FollowingCopies:
    def __init__(
        self,
        ask: Callable[[], Iterable[MirrorCopies]],
        copies: Copies,
        view: Callable[[], View],
        now: Callable[[], float],
    ) -> None:
        """:param ask: reads the positions from ZooKeeper; called in a thread."""
        self._ask, self._copies, self._view, self._now = ask, copies, view, now
        self._judged: View | None = None
        self._wanted = False
        self._heard_at = now()

    async def keep(self) -> None:
        """Polls; never returns."""
        while True:
            await self.look()
            await asyncio.sleep(EVERY_S)

    async def look(self) -> None:
        """Polls once."""
        view = self._view()
        if view is not self._judged:
            self._judged, self._wanted = view, await asyncio.to_thread(_reads_copies, view)
        if not self._wanted:
            self._copies.learn({})
            return
        try:
            copies = await asyncio.to_thread(lambda: merged_reports(self._ask(), self._copies.reports))
        except StoreError as error:
            if self._copies.reports and self._now() - self._heard_at > TRUSTED_S:
                _log.warning("copies are not read any more, since their positions are not known: %s", error)
                self._copies.learn({})
        else:
            self._heard_at = self._now()
            self._copies.learn(copies)


def _reads_copies(view: View) -> bool:
    return bool(view.mirrors) and any(bindings.read is not None for bindings in view.bindings.values())
