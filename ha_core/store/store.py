"""The state in ZooKeeper, or in memory for tests."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from typing import Any, TypeVar

from ha_core.model import Cluster, Document, GatewayRecord, View, VirtualNode
from ha_core.model.document import DOCUMENT_KINDS
from ha_core.model.producer import FIRST_CLIENT_ID
from ha_core.store import allocation, documents, paths
from ha_core.store.allocation import Allocation
from ha_core.store.approvals import Approvals
from ha_core.store.commits import Commits, revision_of, revision_to_bytes
from ha_core.store.deletions import Deletions
from ha_core.store.documents import nodes_of, readable
from ha_core.store.gateways import ExpectedGateways, Registration, record_at
from ha_core.store.known import KnownClusters
from ha_core.store.mirroring import Mirroring
from ha_core.store.operations import Operations
from ha_core.store.quota_nodes import FOLDERS as QUOTA_FOLDERS
from ha_core.store.quotas import QuotaNodes
from ha_core.store.tree import Create, State, Tree, existing, once
from ha_core.store.usage import Usages
from ha_core.store.watching import StateReplica, StateWatcher

D = TypeVar("D", bound=Document)
P = TypeVar("P", bound="StateWatcher | Registration[Any]")


class Store(
    Commits,
    Operations,
    Deletions,
    Allocation,
    Usages,
    KnownClusters,
    Mirroring,
    QuotaNodes,
    ExpectedGateways,
    Approvals,
):
    """The state tree over one session. Synchronous and thread-safe.

    Every method may raise StoreUnavailableError; `ha_core.store.errors` has the others.
    """

    def __init__(self, tree: Tree) -> None:
        """Own the tree, which `close` closes, and create the nodes that an empty tree lacks."""
        super().__init__(tree)
        self._open: list[StateWatcher | Registration[Any]] = []
        self._guard = threading.Lock()
        _create_skeleton(tree)

    @property
    def tree(self) -> Tree:
        """The layer below, for nodes of the tree that are not documents of the state."""
        return self._tree

    def load(self, left_out: Collection[type[Document]] = ()) -> View:
        """The whole state at one revision.

        :param left_out: kinds whose unreadable documents are left out.
        :raises UnreadableDocumentError: a decision on this view must not miss a document; watchers do not raise.
        """
        strict = [kind for kind in DOCUMENT_KINDS.values() if kind not in left_out]
        replica = StateReplica(self._tree, strict)
        replica.load()
        return replica.view

    def clusters(self) -> dict[str, Cluster]:
        """The registered clusters by name; those that this version cannot read are left out."""
        return {cluster.name: cluster for cluster in readable(self._tree, Cluster)}

    def read(self, kind: type[D], name: str) -> tuple[D, int] | None:
        """One document and its version; None if there is none.

        :raises UnreadableDocumentError: this version cannot read it.
        """
        path = paths.path_of(kind, name)
        node = self._tree.get(path)
        return None if node is None else (documents.from_bytes(kind, node.data, path), node.version)

    def watch(
        self, on_view: Callable[[View, frozenset[str]], None], on_state: Callable[[State], object] = lambda state: None
    ) -> StateWatcher:
        """Deliver the state and then each newer one, with the paths (`/topics/orders`) that differ from the one before.

        Returns at once; both callbacks come from one thread, in order. Several revisions may arrive as one view.
        Gateways register before they watch: an operation does not wait for gateways that it does not see.
        """
        return self._opened(StateWatcher(self._tree, on_view, on_state))

    def gateways(self) -> list[GatewayRecord]:
        """All live gateways by id."""
        nodes = existing(self._tree, nodes_of(self._tree, GatewayRecord.FOLDER))
        return [record_at(path, node.data) for path, node in nodes]

    def register_gateway(self, record: GatewayRecord) -> Registration[GatewayRecord]:
        """Announce a gateway until it is closed or its session ends; announced again by itself after a session loss.

        Waits up to a session time-out for the node of a predecessor that was killed.

        :raises AlreadyRegisteredError: another live session has this gateway id.
        """
        return self.register(record)

    def register(self, record: D) -> Registration[D]:
        """Like `register_gateway`, for any document that lives as long as its session."""
        return self._opened(Registration(self._tree, record))

    def confirm(self) -> int:
        """The newest revision, from ZooKeeper's leader through the live session, or StoreUnavailableError at once.

        A gateway's lease counts from the moment *before* a successful confirm, and only if the gateway follows that
        revision already: after a session loss, operations went on without it.
        """
        self._tree.confirm()
        return revision_of(self._tree.get(paths.CHANGES))

    def close(self) -> None:
        """End watchers, registrations and the session."""
        with self._guard:
            opened, self._open = self._open, []
        for part in opened:
            part.close()
        self._tree.close()

    def _opened(self, part: P) -> P:
        with self._guard:
            self._open.append(part)
        return part


def _create_skeleton(tree: Tree) -> None:
    """Create the missing top nodes, in one write for an empty tree, so that half of them is never visible."""
    skeleton = {
        **dict.fromkeys(DOCUMENT_KINDS, b""),
        VirtualNode.FOLDER: allocation.next_to_bytes(1),
        paths.PRODUCER_IDS: allocation.next_to_bytes(FIRST_CLIENT_ID),
        paths.CLUSTER_ID: allocation.new_cluster_id(),
        paths.CHANGES: revision_to_bytes(0),
        paths.CLOCK: b"",
        **dict.fromkeys(QUOTA_FOLDERS, b""),
    }

    def write() -> None:
        present = tree.get_many(list(skeleton))
        missing = [Create(path, data) for (path, data), node in zip(skeleton.items(), present, strict=True) if not node]
        if missing:
            tree.write(missing)

    once(tree, "creating the top nodes of the tree", write)
