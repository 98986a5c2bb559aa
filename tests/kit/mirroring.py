"""A copier of mirrors in the test's process: it follows the store's mirrors like the job's tasks."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from ha_core.kafka.admin import Admin
from ha_core.kafka.copy_log import ensure_copy_log
from ha_core.kafka.copying import ELSEWHERE, TAKEN_OVER, Copying
from ha_core.kafka.takeover import CopyPartition
from ha_core.kafka.verifying import copies_of
from ha_core.mirror.notes import CopyId
from ha_core.model import Mirror
from ha_core.store.store import Store
from tests.kit.waiting import until

_LOOK_S = 0.1


class Copiers:
    """Copies mirrors that are not held, with one loop per pair of clusters, and its own admins."""

    def __init__(self, store: Store, admins: Mapping[str, Admin], topics: Mapping[str, int]) -> None:
        """:param topics: topics to copy, with their numbers of partitions."""
        self._store, self._admins, self._topics = store, admins, topics
        self._loops: dict[tuple[str, str], tuple[Copying, threading.Thread]] = {}
        self._given: dict[tuple[str, str], dict[CopyId, CopyPartition]] = {}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Copiers:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        for loop, thread in self._loops.values():
            loop.stop()
            thread.join()

    def caught_up(self, topic: str, target: str) -> bool:
        """Whether a mirror's copies have no lag."""
        for (_, there), (loop, _) in list(self._loops.items()):
            standing = {id_: status for id_, status in loop.statuses().items() if id_.topic == topic}
            if there == target and len(standing) == self._topics[topic]:
                return all(status.state == "copying" and status.to_copy == 0 for status in standing.values())
        return False

    def _ours(self, copies: Collection[CopyId]) -> set[CopyId]:
        links = {mirror.link for mirror in self._store.mirrors() if mirror.held is None}
        return {id_ for id_ in copies if id_.link in links}

    def _run(self) -> None:
        while not self._ending.wait(_LOOK_S):
            wanted: dict[tuple[str, str], dict[CopyId, CopyPartition]] = {pair: {} for pair in self._given}
            for mirror in self._store.mirrors():
                if mirror.topic in self._topics and mirror.held is None:
                    of_pair = wanted.setdefault((mirror.source, mirror.target), {})
                    of_pair |= {copy.id: copy for copy in copies_of(mirror, self._topics[mirror.topic])}
                    self._prepare(mirror)
            for pair, copies in wanted.items():
                self._follow(pair, copies)

    def _prepare(self, mirror: Mirror) -> None:
        if (mirror.source, mirror.target) not in self._loops:
            ensure_copy_log(self._admins[mirror.target], mirror.log, mirror.log_partitions)

    def _follow(self, pair: tuple[str, str], wanted: dict[CopyId, CopyPartition]) -> None:
        if pair not in self._loops:
            source, target = (self._admins[name] for name in pair)
            loop = Copying(source, target, still_ours=self._ours)
            thread = threading.Thread(target=loop.run)
            self._loops[pair] = loop, thread
            thread.start()
        loop, _ = self._loops[pair]
        before = self._given.get(pair, {})
        loop.drop([id_ for id_ in before if id_ not in wanted])
        # A hold may end before it was seen here, but not before the loop was told to drop the partition.
        left = {id_ for id_, status in loop.statuses().items() if status.reason in {ELSEWHERE, TAKEN_OVER}}
        loop.add([copy for id_, copy in wanted.items() if id_ not in before or id_ in left])
        self._given[pair] = wanted


@contextmanager
def await_copies(copiers: Copiers, topic: str, target: str, seconds: float = 60) -> Iterator[None]:
    until(lambda: copiers.caught_up(topic, target), lambda: f"{topic} in {target} did not catch up", timeout_s=seconds)
    yield
