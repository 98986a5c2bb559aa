"""Allocates numbers once: virtual node ids, client producer ids; and the cluster id that clients see."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from uuid import uuid4

from ha_core.model import VirtualNode
from ha_core.model.producer import FIRST_CLIENT_ID, TERM_STRIDE
from ha_core.store import paths
from ha_core.store.documents import nodes_of, value_of
from ha_core.store.errors import StoreError
from ha_core.store.tree import Create, Node, OnTree, Put, existing, once


def next_to_bytes(number: int) -> bytes:
    return b'{"next":%d}' % number


def new_cluster_id() -> bytes:
    """Like a Kafka cluster id: 22 characters, unique for each installation."""
    return json.dumps({"cluster_id": urlsafe_b64encode(uuid4().bytes).decode().rstrip("=")}).encode()


def _next(node: Node | None, path: str) -> tuple[int, int]:
    """The next free number and the node's version."""
    number = value_of(int, node, path, "next", "the next free number, above all in use")
    return number, 0 if node is None else node.version


class Allocation(OnTree):
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
            self._tree.write([Put(folder, next_to_bytes(number + 1), version), Create(path, document.to_bytes())])
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
            if first < FIRST_CLIENT_ID or first + count > TERM_STRIDE:
                raise StoreError(
                    f"{paths.PRODUCER_IDS}: a block of {count} from {first} leaves the range of client ids, "
                    f"{FIRST_CLIENT_ID} to {TERM_STRIDE - 1}: restore it from a backup"
                )
            self._tree.write([Put(paths.PRODUCER_IDS, next_to_bytes(first + count), version)])
            return first

        # A block whose reply was lost is left unused: recognising it would cost more than its numbers are worth.
        return once(self._tree, "allocating producer ids", write)
