"""The store over any tree."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

from ha_core.model import (
    Cluster,
    Document,
    GatewayRecord,
    HistoryEntry,
    KnownGroup,
    KnownTopic,
    Lock,
    Operation,
    Usage,
    View,
)
from ha_core.model.producer import FIRST_CLIENT_ID
from ha_core.store import allocation, commits, documents, known, locks, notes, operations, paths, registration, usage
from ha_core.store.change import Change
from ha_core.store.errors import StoreUnavailableError
from ha_core.store.follow import TreeFollower
from ha_core.store.protocol import Holding, Sighting, State
from ha_core.store.reading import readable
from ha_core.store.registration import TreeRegistration
from ha_core.store.replica import Replica
from ha_core.store.tree import Create, RefusedError, ReplyLostError, Tree

D = TypeVar("D", bound=Document)
K = TypeVar("K", KnownTopic, KnownGroup)


class TreeStore:
    """`Store` (see there for every method) over one session of a tree."""

    def __init__(self, tree: Tree) -> None:
        """Take the tree, whose close the store's `close` includes, and create what an empty tree lacks."""
        self._tree = tree
        self._open: list[TreeFollower | TreeRegistration] = []
        self._guard = threading.Lock()
        _create_skeleton(tree)

    def load(self) -> View:
        replica = Replica(self._tree, strict=True)
        replica.load()
        return replica.view

    def clusters(self) -> dict[str, Cluster]:
        return {cluster.name: cluster for cluster in readable(self._tree, Cluster)}

    def read(self, kind: type[D], name: str) -> tuple[D, int] | None:
        path = paths.path_of(kind, name)
        node = self._tree.get(path)
        return None if node is None else (documents.from_bytes(kind, node.data, path), node.version)

    def commit(self, change: Change) -> int:
        return commits.commit(self._tree, change)

    def follow(
        self, on_view: Callable[[View, frozenset[str]], None], on_state: Callable[[State], None] | None = None
    ) -> TreeFollower:
        follower = TreeFollower(self._tree, on_view, on_state)
        with self._guard:
            self._open.append(follower)
        return follower

    def create_operation(self, operation: Operation, lock_keys: Sequence[str]) -> int:
        return locks.create_operation(self._tree, operation, lock_keys)

    def take_over(self, operation_id: str, wait_s: float = 0.0) -> int:
        return locks.take_over(self._tree, operation_id, wait_s)

    def hold(self, operation_id: str, epoch: int) -> AbstractContextManager[None]:
        return locks.hold(self._tree, operation_id, epoch)

    def require_epoch(self, operation_id: str, epoch: int) -> None:
        locks.require_epoch(self._tree, operation_id, epoch)

    def holding(self, operation_id: str) -> Holding | None:
        return locks.holding(self._tree, operation_id)

    def update_operation(self, operation: Operation, epoch: int) -> None:
        operations.update_operation(self._tree, operation, epoch)

    def append_history(self, operation_id: str, epoch: int, entry: HistoryEntry) -> None:
        operations.append_history(self._tree, operation_id, epoch, entry)

    def release_locks(self, operation_id: str, epoch: int) -> None:
        locks.release_locks(self._tree, operation_id, epoch)

    def operations(self, limit: int, before: str | None = None) -> list[Operation]:
        return operations.operations(self._tree, limit, before)

    def running(self) -> list[Operation]:
        return operations.running(self._tree)

    def history(self, operation_id: str, newest: int | None = None) -> list[HistoryEntry]:
        return operations.history(self._tree, operation_id, newest)

    def locks(self) -> list[Lock]:
        return locks.locks(self._tree)

    def lock_keys(self) -> frozenset[str]:
        return locks.lock_keys(self._tree)

    def gateways(self) -> list[GatewayRecord]:
        return registration.gateways(self._tree)

    def register_gateway(self, record: GatewayRecord) -> TreeRegistration:
        registered = TreeRegistration(self._tree, record, self._forget)
        with self._guard:
            self._open.append(registered)
        return registered

    def confirm(self) -> int:
        self._tree.confirm()
        return notes.revision_of(self._tree.get(paths.CHANGES))

    def allocate_node(self, key: str) -> int:
        return allocation.allocate_node(self._tree, key)

    def nodes(self) -> dict[str, int]:
        return allocation.nodes(self._tree)

    def cluster_id(self) -> str:
        return allocation.cluster_id(self._tree)

    def allocate_producer_ids(self, count: int = 1000) -> int:
        return allocation.allocate_producer_ids(self._tree, count)

    def record_usage(self, user: str, uses: Iterable[Sighting]) -> int:
        return usage.record_usage(self._tree, user, uses)

    def usage(self) -> dict[str, Usage]:
        return usage.usage(self._tree)

    def keep_known(self, kind: type[K], cluster: str, seen: Collection[K]) -> None:
        known.keep(self._tree, kind, cluster, seen)

    def known(self, kind: type[K], cluster: str, names: Collection[str] | None = None) -> dict[str, K]:
        return known.read(self._tree, kind, cluster, names)

    def known_ages_s(self, kind: type[K], cluster: str, names: Collection[str]) -> dict[str, float]:
        return known.ages_s(self._tree, kind, cluster, names)

    def close(self) -> None:
        with self._guard:
            opened, self._open = self._open, []
        for part in opened:
            part.close()
        self._tree.close()

    def _forget(self, part: TreeRegistration) -> None:
        with self._guard:
            if part in self._open:
                self._open.remove(part)


def _skeleton() -> tuple[tuple[str, bytes], ...]:
    return (
        *((folder, b"") for folder in paths.FOLDERS.values() if folder != paths.NODES),
        (paths.GATEWAYS, b""),
        (paths.NODES, allocation.next_to_bytes(allocation.FIRST_NODE_ID)),
        (paths.PRODUCER_IDS, allocation.next_to_bytes(FIRST_CLIENT_ID)),
        (paths.CLUSTER_ID, allocation.new_cluster_id()),
        (paths.CHANGES, notes.revision_to_bytes(0)),
        (paths.CLOCK, b""),
    )


_SKELETON_ATTEMPTS = 20


def _create_skeleton(tree: Tree) -> None:
    """Create the top nodes that are missing. All at once in an empty tree, so that nobody ever sees half of it."""
    skeleton = _skeleton()
    for _ in range(_SKELETON_ATTEMPTS):
        present = tree.get_many([path for path, _ in skeleton])
        missing = [Create(path, data) for (path, data), node in zip(skeleton, present, strict=True) if node is None]
        if not missing:
            return
        try:
            tree.write(missing)
        except (RefusedError, ReplyLostError):
            continue
    raise StoreUnavailableError("the top nodes of the tree could not be created: others create and delete them")
