"""The state in ZooKeeper, or in memory for tests."""

import json
import threading
from base64 import urlsafe_b64encode
from collections.abc import Callable, Collection
from typing import Any, TypeVar
from uuid import uuid4

from ha_core.model import Cluster, Document, GatewayRecord, View, VirtualNode
from ha_core.model.document import DOCUMENT_KINDS
from ha_core.model.producer import FIRST_CLIENT_ID, WRITER_EPOCH_STRIDE
from ha_core.store import documents, paths
from ha_core.store.brought_rights import BroughtRightsOfMirrors
from ha_core.store.checks import CheckNotes
from ha_core.store.commits import Commits, revision_of, revision_to_bytes
from ha_core.store.deletions import Deletions
from ha_core.store.documents import nodes_of, readable, value_of
from ha_core.store.drills import Drills
from ha_core.store.errors import StoreError
from ha_core.store.gateways import ExpectedGateways, Registration, record_at
from ha_core.store.known import KnownClusters
from ha_core.store.mirroring import Mirroring
from ha_core.store.operations import Approvals, Operations
from ha_core.store.parity import ParityResults
from ha_core.store.quota_nodes import FOLDERS as QUOTA_FOLDERS
from ha_core.store.quotas import QuotaNodes
from ha_core.store.remote_topics import WrittenRemoteTopics
from ha_core.store.seals import Seals
from ha_core.store.tree import Create, Node, OnTree, Put, State, Tree, existing, once
from ha_core.store.usage import Usages
from ha_core.store.watching import StateReplica, StateWatcher

D = TypeVar("D", bound=Document)
P = TypeVar("P", bound="StateWatcher | Registration[Any]")


def _next_to_bytes(number: int) -> bytes:
    return b'{"next":%d}' % number


def _new_cluster_id() -> bytes:
    """Like a Kafka cluster id: 22 characters, unique for each installation."""
    return json.dumps({"cluster_id": urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")}).encode()


def _next(node: Node | None, path: str) -> tuple[int, int]:
    """The next free number and the node's version."""
    number = value_of(int, node, path, "next", "the next free number, above all in use")
    return number, 0 if node is None else node.version


class Allocation(OnTree):
    """Allocates numbers once: virtual node ids, client producer ids; and the cluster id that clients see."""

    def cluster_id(self) -> str:
        """The cluster id that clients see: made with the tree, and never changed."""
        path = paths.CLUSTER_ID
        return value_of(str, self._tree.get(path), path, "cluster_id", "the cluster id")

    def allocate_node(self, key: str) -> int:
        """The virtual node id of `key`, from 1; a key always gets the same id."""
        path, folder = paths.path_of(VirtualNode, key), VirtualNode.FOLDER

        def write() -> int:
            node = self._tree.get(path)
            if node is not None:
                return VirtualNode.from_bytes(node.data, path).node_id
            number, version = _next(self._tree.get(folder), folder)
            document = VirtualNode(key=key, node_id=number)
            self._tree.write([Put(folder, _next_to_bytes(number + 1), version), Create(path, document.to_bytes())])
            return number

        return once(self._tree, f"allocating a node id for {key}", write)

    def nodes(self) -> dict[str, int]:
        """All virtual node ids by key."""
        nodes = existing(self._tree, nodes_of(self._tree, VirtualNode.FOLDER))
        documents = (VirtualNode.from_bytes(node.data, path) for path, node in nodes)
        return {document.key: document.node_id for document in documents}

    def allocate_producer_ids(self, count: int = 1000) -> int:
        """First id of a block of `count` client producer ids, which is given out once."""
        if count < 1:
            raise ValueError(f"a block of {count} producer ids: at least 1")

        def write() -> int:
            first, version = _next(self._tree.get(paths.PRODUCER_IDS), paths.PRODUCER_IDS)
            if first < FIRST_CLIENT_ID or first + count > WRITER_EPOCH_STRIDE:
                raise StoreError(
                    f"{paths.PRODUCER_IDS}: a block of {count} from {first} leaves the range of client ids, "
                    f"{FIRST_CLIENT_ID} to {WRITER_EPOCH_STRIDE - 1}: restore it from a backup"
                )
            self._tree.write([Put(paths.PRODUCER_IDS, _next_to_bytes(first + count), version)])
            return first

        # A block whose reply was lost is left unused: recognising it would cost more than its numbers are worth.
        return once(self._tree, "allocating producer ids", write)


class Store(
    WrittenRemoteTopics,
    Commits,
    Operations,
    Seals,
    Deletions,
    Allocation,
    Usages,
    KnownClusters,
    Mirroring,
    BroughtRightsOfMirrors,
    QuotaNodes,
    ExpectedGateways,
    Approvals,
    CheckNotes,
    Drills,
    ParityResults,
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
        VirtualNode.FOLDER: _next_to_bytes(1),
        paths.PRODUCER_IDS: _next_to_bytes(FIRST_CLIENT_ID),
        paths.CLUSTER_ID: _new_cluster_id(),
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
