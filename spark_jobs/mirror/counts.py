"""Partition counts of mirrored topics in source and target, read beside the driver's loop."""

import logging
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import Mirror
from ha_core.store.errors import StoreError

log = logging.getLogger(__name__)
EVERY_S = 10.0
"""A newly mirrored topic is read at once."""
_AT_ONCE = 8
"""Clusters in parallel. An unreachable one does not delay the others."""

Topic = tuple[str, str]
"""(cluster, topic)"""


class PartitionCounts:
    """Counts never fall: partitions do not vanish, and a deleted topic is reported by its copier."""

    def __init__(self, opens: Callable[[str], Admin], every_s: float = EVERY_S) -> None:
        """:param opens: connects to a cluster; raises KafkaAdminError."""
        self._opens, self._every_s = opens, every_s
        self._wanted: frozenset[Topic] = frozenset()
        self._found: dict[Topic, int] = {}
        self._wake, self._ending = threading.Event(), False
        self._troubles: dict[str, str] = {}
        self._thread = threading.Thread(target=self._run, name="mirror-counts", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending = True
        self._wake.set()
        self._thread.join()

    def of(self, mirrors: Iterable[Mirror]) -> dict[Topic, int]:
        """The counts known by now; topics whose cluster has not answered yet are missing."""
        wanted = frozenset((cluster, mirror.topic) for mirror in mirrors for cluster in (mirror.source, mirror.target))
        new = wanted - self._wanted
        self._wanted = wanted
        if new:
            self._wake.set()
        return {topic: count for topic, count in list(self._found.items()) if topic in wanted}

    def _run(self) -> None:
        with ThreadPoolExecutor(_AT_ONCE, "mirror-counts") as pool:
            while True:
                self._wake.wait(self._every_s)
                self._wake.clear()
                if self._ending:
                    return
                by_cluster: dict[str, list[str]] = {}
                for cluster, topic in sorted(self._wanted):
                    by_cluster.setdefault(cluster, []).append(topic)
                list(pool.map(self._look, by_cluster, by_cluster.values()))

    def _look(self, cluster: str, topics: list[str]) -> None:
        try:
            with self._opens(cluster) as admin:
                counts = admin.partition_counts(topics)
        except Exception as error:
            # Includes bugs: without this thread no new mirror would ever be copied, and silently so.
            if not isinstance(error, KafkaAdminError | StoreError):
                log.exception("looking at the partitions in %s has failed", cluster)
            if self._troubles.get(cluster) != str(error):
                log.warning("partition counts are unknown: %s", error)
            self._troubles[cluster] = str(error)
            return
        self._troubles.pop(cluster, None)
        for topic in topics:
            self._found[cluster, topic] = max(counts.get(topic, 0), self._found.get((cluster, topic), 0))
