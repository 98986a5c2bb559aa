"""Keeps everything but records in sync beside the driver's loop: partitions, settings, ACLs, committed offsets.

A pass over a pair of clusters takes as long as they do; pairs run in parallel and do not wait for each other. The
driver only names the mirrors. Two concurrent passes, or a late one, do no harm (`syncing/pair`). `Sweeping` removes
leftovers of mirrors in clusters that have none any more.
"""

import logging
import math
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Self

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import Mirror, MirrorSync
from ha_core.operations.copies.syncing.groups import Memory
from ha_core.operations.copies.syncing.pair import Synced
from ha_core.operations.copies.syncing.passes import PARTS, Part, as_document, keep, sync
from ha_core.operations.copies.syncing.rights import sweep
from ha_core.store.errors import StoreError
from ha_core.store.store import Store

log = logging.getLogger(__name__)
EVERY_S = 5.0
TOPICS_EVERY_S = 60.0
"""Topics that have grown are synced sooner."""
HURRY_S = 2.0
REPEAT_S = 60.0
"""An unchanged result is written again after this time."""
RENEWED_PER_S = 300
"""Mean rate of writing documents of committing groups: ZooKeeper serves others too."""
_LOOK_S = 0.2
_AT_ONCE = 8
"""Pairs in parallel. One that hangs does not delay the others."""
SWEPT_AGAIN_S, SWEPT_EVERY_S = 60.0, 600.0
"""Pause between two checks of a cluster: if something is left or it did not answer, and otherwise."""
_SWEPT_AT_ONCE = 2
"""Clusters in parallel: few, to leave room for the pairs, which have more to do."""
_LISTED_EVERY_S = 60.0
"""Newly registered clusters are not urgent."""

Clusters = tuple[str, str]
"""(source, target)"""


@dataclass
class _Pair:
    """:ivar due_s: part → time of its next pass."""

    due_s: dict[Part, float] = field(default_factory=dict)
    busy: Future[None] | None = None
    grown: bool = False
    memory: Memory = field(default_factory=Memory)
    kept: dict[Part, tuple[MirrorSync, float]] = field(default_factory=dict)
    troubles: dict[Part, str] = field(default_factory=dict)


class Syncing:
    """Follows the leading driver's mirrors; does nothing without the lead."""

    def __init__(
        self,
        store: Store,
        opens: Callable[[str], Admin],
        every_s: float = EVERY_S,
        synced: Callable[[MirrorSync], None] = lambda _: None,
    ) -> None:
        """:param opens: connects to a cluster; raises KafkaAdminError.
        :param every_s: pause between passes over groups; topics are synced each minute, and when they have grown.
        :param synced: called by several threads after each pass over groups.
        """
        self._store, self._opens, self._every_s, self._synced = store, opens, every_s, synced
        self._wanted: dict[Clusters, bool] | None = None
        self._sweeping = Sweeping(store, opens)
        self._pairs: dict[Clusters, _Pair] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mirror-syncing", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()

    def follow(self, mirrors: Iterable[Mirror] | None, counts: Mapping[tuple[str, str], int]) -> None:
        """Sets the current mirrors. Returns at once.

        :param mirrors: None: this driver does not lead any more.
        :param counts: (cluster, topic) → number of its partitions, as far as known.
        """
        if mirrors is None:
            self._wanted = None
            return
        wanted: dict[Clusters, bool] = {}
        for mirror in mirrors:
            here, there = (counts.get((cluster, mirror.topic), 0) for cluster in (mirror.source, mirror.target))
            pair = mirror.source, mirror.target
            wanted[pair] = wanted.get(pair, False) or 0 < there < here
        self._wanted = wanted

    def _run(self) -> None:
        with ThreadPoolExecutor(_AT_ONCE, "mirror-syncing") as pool:
            while not self._ending.wait(_LOOK_S):
                self._look(pool, time.monotonic())
            pool.shutdown(wait=False, cancel_futures=True)

    def _look(self, pool: ThreadPoolExecutor, now_s: float) -> None:
        leads, wanted = self._wanted is not None, self._wanted or {}
        for gone in self._pairs.keys() - wanted.keys():
            if (busy := self._pairs[gone].busy) is None or busy.done():
                del self._pairs[gone]
        for clusters, grown in wanted.items():
            pair = self._pairs.setdefault(clusters, _Pair())
            if pair.busy is not None and not pair.busy.done():
                continue
            if grown and not pair.grown:
                pair.due_s["topics"] = min(pair.due_s.get("topics", now_s), now_s + HURRY_S)
            pair.grown = grown
            due = [part for part in PARTS if pair.due_s.get(part, 0.0) <= now_s]
            if due:
                pair.busy = pool.submit(self._pass, clusters, pair, due)
        if leads:
            self._sweeping.look(pool, {name for clusters in wanted for name in clusters}, now_s)

    def _pass(self, clusters: Clusters, pair: _Pair, due: list[Part]) -> None:
        every_s: Mapping[Part, float] = {"topics": TOPICS_EVERY_S, "groups": self._every_s}
        with ExitStack() as opened:
            admins: tuple[Admin, Admin] | None = None
            for part in due:
                pause_s = every_s[part]
                try:
                    if admins is None:
                        source, target = (opened.enter_context(self._opens(name)) for name in clusters)
                        admins = source, target
                    synced = sync(self._store, admins, part, _now(), pair.memory, copies=True)
                    self._record(pair, part, synced)
                    pause_s = max(pause_s, synced.renewed / RENEWED_PER_S)
                    pair.troubles.pop(part, None)
                except (KafkaAdminError, StoreError) as error:
                    if pair.troubles.get(part) != str(error):
                        log.warning("%s of mirrors of %s in %s are not in sync: %s", part, *clusters, error)
                    pair.troubles[part] = str(error)
                except Exception:
                    log.exception("%s of mirrors of %s in %s are not in sync", part, *clusters)
                finally:
                    pair.due_s[part] = time.monotonic() + pause_s

    def _record(self, pair: _Pair, part: Part, synced: Synced) -> None:
        for change in synced.changes:
            if part == "topics":
                log.info("%s in %s: %s: %s", change.about, synced.target, change.what, change.text)
        now = as_document(synced)
        if part == "groups":
            self._synced(now)
        before = pair.kept.get(part)
        now_s = time.monotonic()
        if before is not None and before[0].changed(at=now.at) == now and now_s - before[1] < REPEAT_S:
            return
        pair.kept[part] = keep(self._store, synced), now_s


class Sweeping:
    """Removes guards that ended mirrors have left in clusters without mirrors, which no pair checks.

    The operation that ends a mirror removes its guard. If it has died, or the cluster did not answer, the guard stays:
    a cluster that has just lost its last pair is checked once a minute until nothing is left there, and then, like
    clusters that never had any, every ten minutes, because a process that stood still since before may set a guard
    late. One thread of one driver calls `look`; others check the clusters.
    """

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
        for since_s, name in due[: _SWEPT_AT_ONCE - len(self._busy)]:
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
            clusters = self._store.clusters().values()
        except StoreError as error:
            log.warning("the clusters are unknown: %s", error)
            return
        self._clusters = frozenset(cluster.name for cluster in clusters if cluster.masked is None)

    def _end(self, now_s: float) -> None:
        for name, future in [*self._busy.items()]:
            if future.done():
                self._due_s[name] = now_s + future.result()
                del self._busy[name]

    def _sweep(self, name: str) -> float:
        """Returns the pause until the next check."""
        try:
            with self._opens(name) as admin:
                synced = sweep(self._store, admin, _now())
        except (KafkaAdminError, StoreError) as error:
            if self._troubles.get(name) != str(error):
                log.warning("guards without a mirror in %s could not be checked: %s", name, error)
            self._troubles[name] = str(error)
            return SWEPT_AGAIN_S
        except Exception:
            log.exception("checking guards without a mirror in %s has failed", name)
            return SWEPT_AGAIN_S
        self._troubles.pop(name, None)
        for change in synced.changes:
            log.info("%s in %s: %s: %s", change.about, name, change.what, change.text)
        return SWEPT_AGAIN_S if synced.changes or synced.findings else SWEPT_EVERY_S


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
