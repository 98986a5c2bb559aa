"""Removes guards that ended mirrors have left in clusters without mirrors, which no pair checks.

The operation that ends a mirror removes its guard. If it has died, or the cluster did not answer, the guard stays: a
cluster that has just lost its last pair is checked once a minute until nothing is left there, and then, like clusters
that never had any, every ten minutes, because a process that stood still since before may set a guard late.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Collection
from concurrent.futures import Executor, Future
from datetime import UTC, datetime

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.operations.copies.syncing.rights import sweep
from ha_core.store.errors import StoreError
from ha_core.store.store import Store

log = logging.getLogger(__name__)
AGAIN_S, EVERY_S = 60.0, 600.0
"""Pause between two checks of a cluster: if something is left or it did not answer, and otherwise."""
_AT_ONCE = 2
"""Clusters in parallel: few, to leave room for the pairs, which have more to do."""
_LISTED_EVERY_S = 60.0
"""Newly registered clusters are not urgent."""


class Sweeping:
    """For one driver. One thread calls `look`; others check the clusters."""

    def __init__(self, store: Store, opens: Callable[[str], Admin]) -> None:
        self._store, self._opens = store, opens
        self._clusters: frozenset[str] = frozenset()
        self._mirrored: frozenset[str] = frozenset()
        self._listed_s = -math.inf
        self._due_s: dict[str, float] = {}
        self._busy: dict[str, Future[float]] = {}
        self._troubles: dict[str, str] = {}

    def look(self, pool: Executor, mirrored: Collection[str], now_s: float) -> None:
        """Starts checks that are due.

        :param mirrored: clusters with mirrors, which their pairs check anyway.
        """
        self._end(now_s)
        self._list(frozenset(mirrored), now_s)
        lone = self._clusters - self._mirrored - self._busy.keys()
        due = sorted((self._due_s.get(name, -math.inf), name) for name in lone)
        for since_s, name in due[: _AT_ONCE - len(self._busy)]:
            if since_s <= now_s:
                self._busy[name] = pool.submit(self._sweep, name)

    def _list(self, mirrored: frozenset[str], now_s: float) -> None:
        for name in self._mirrored - mirrored:
            self._due_s.pop(name, None)  # due at once, because its last mirror has just ended
        self._mirrored = mirrored
        if now_s - self._listed_s < _LISTED_EVERY_S:
            return
        self._listed_s = now_s
        try:
            known = self._store.clusters().values()
        except StoreError as error:
            log.warning("the clusters are unknown: %s", error)
            return
        self._clusters = frozenset(one.name for one in known if one.masked is None)

    def _end(self, now_s: float) -> None:
        for name, future in [*self._busy.items()]:
            if future.done():
                self._due_s[name] = now_s + future.result()
                del self._busy[name]

    def _sweep(self, name: str) -> float:
        """Returns the pause until the next check."""
        try:
            with self._opens(name) as admin:
                found = sweep(self._store, admin, _now())
        except (KafkaAdminError, StoreError) as error:
            if self._troubles.get(name) != str(error):
                log.warning("guards without a mirror in %s could not be checked: %s", name, error)
            self._troubles[name] = str(error)
            return AGAIN_S
        except Exception:
            log.exception("checking guards without a mirror in %s has failed", name)
            return AGAIN_S
        self._troubles.pop(name, None)
        for change in found.changes:
            log.info("%s in %s: %s: %s", change.about, name, change.what, change.text)
        return AGAIN_S if found.changes or found.findings else EVERY_S


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
