"""Recorded facts of clusters: replaced one cluster at a time, outside the revisions that gateways follow."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from ha_core.model import KnownGroup, KnownTopic, UnreadableDocumentError
from ha_core.model.known import known_key
from ha_core.model.portions import portions
from ha_core.store import documents, paths
from ha_core.store.documents import nodes_of, readable
from ha_core.store.errors import StoreUnavailableError
from ha_core.store.tree import OnTree, Op, PreconditionError, Remove, existing, once, placed

BATCH_BYTES = 500_000
BATCH_NODES = 500
LOOK = timedelta(minutes=2)
"""Longest time of one reading of a cluster."""

K = TypeVar("K", KnownTopic, KnownGroup)


class KnownClusters(OnTree):
    def keep_known(self, kind: type[K], cluster: str, seen: Collection[K]) -> None:
        """Replace all recorded topics, or groups, of a cluster by those `seen` now. It makes no revision.

        Facts that another process has renewed since that reading began stay.
        """
        wanted = {paths.path_of(kind, one.key): documents.to_bytes(one) for one in seen}
        gone = dict.fromkeys(path for path in self._all_known(kind, cluster) if path not in wanted)
        self._put(kind, cluster, {**wanted, **gone}, max((one.at for one in seen), default=""))

    def renew_known(self, kind: type[K], cluster: str, seen: Collection[K]) -> None:
        """Replace the facts of some topics, or groups, by those `seen` now; the others stay."""
        self._put(kind, cluster, {paths.path_of(kind, one.key): documents.to_bytes(one) for one in seen})

    def forget_known(self, kind: type[K], cluster: str, names: Collection[str]) -> None:
        """Remove the facts of topics, or groups, that do not exist any more."""
        self._put(kind, cluster, dict.fromkeys(paths.path_of(kind, known_key(cluster, name)) for name in names))

    def known(self, kind: type[K], cluster: str, names: Collection[str] | None = None) -> dict[str, K]:
        """The recorded facts of topics or groups of `cluster` (None: all), by name; unreadable ones are left out."""
        if names is None:
            wanted = self._all_known(kind, cluster)
        else:
            wanted = [paths.path_of(kind, known_key(cluster, name)) for name in sorted(names)]
        return {document.name: document for document in readable(self._tree, kind, wanted)}

    def known_names(self, kind: type[K], cluster: str) -> set[str]:
        """Names of the recorded topics, or groups, of a cluster."""
        prefix = f"{kind.FOLDER}/{paths.encode(f'{cluster}:')}"
        return {paths.decode(path.removeprefix(prefix)) for path in self._all_known(kind, cluster)}

    def known_ages_s(self, kind: type[K], cluster: str, names: Collection[str]) -> dict[str, float]:
        """Seconds since the facts of each were written, by ZooKeeper's clock: the only one that all writers and readers
        share. Negative where that clock was set back since."""
        now_ms = self._now_ms()
        named = {paths.path_of(kind, known_key(cluster, name)): name for name in names}
        nodes = existing(self._tree, list(named))
        return {named[path]: (now_ms - node.written_ms) / 1000 for path, node in nodes}

    def _all_known(self, kind: type[K], cluster: str) -> list[str]:
        prefix = f"{kind.FOLDER}/{paths.encode(f'{cluster}:')}"
        return [path for path in nodes_of(self._tree, kind.FOLDER) if path.startswith(prefix)]

    def _now_ms(self) -> int:
        """The tree's time: that of a node written now, by this process or by another."""
        before = self._tree.get(paths.CLOCK)

        def write() -> int:
            with suppress(PreconditionError):
                self._tree.write([placed(paths.CLOCK, b"", before)])
            written = look()
            if written is None:
                raise StoreUnavailableError(f"{paths.CLOCK} is deleted again and again; repeat it")
            return written

        def look() -> int | None:
            node = self._tree.get(paths.CLOCK)
            return None if node is None or node == before else node.written_ms

        return once(self._tree, "reading ZooKeeper's clock", write, look)

    def _put(self, kind: type[K], cluster: str, wanted: Mapping[str, bytes | None], at: str = "") -> None:
        for batch in portions(wanted.items(), BATCH_BYTES, _size, BATCH_NODES):
            # Readings at the same time have seen the same cluster: the last one may win.
            once(self._tree, f"the recorded facts of {cluster}", partial(self._replace, kind, at, dict(batch)))

    def _replace(self, kind: type[K], at: str, batch: Mapping[str, bytes | None]) -> None:
        """:param batch: path → bytes, None to remove.
        :param at: when the reading began; facts of later readings stay. Empty: all are replaced.
        """
        order = sorted(batch)
        ops: list[Op] = []
        for path, node in zip(order, self._tree.get_many(order), strict=True):
            data = batch[path]
            if at and node is not None and node.data != data and _renewed(kind, path, node.data, at):
                continue
            if data is not None and (node is None or node.data != data):
                ops.append(placed(path, data, node))
            elif data is None and node is not None:
                ops.append(Remove(path, node.version))
        if ops:
            self._tree.write(ops)


def _renewed(kind: type[K], path: str, data: bytes, at: str) -> bool:
    """Whether the stored facts were read after `at`. Times far in the future are ignored: such a node
    would stay for as long."""
    try:
        stored = datetime.fromisoformat(documents.from_bytes(kind, data, path).at)
        return timedelta(0) < stored - datetime.fromisoformat(at) <= LOOK
    except (UnreadableDocumentError, ValueError, TypeError):
        return False


def _size(node: tuple[str, bytes | None]) -> int:
    return len(node[0]) + len(node[1] or b"")
