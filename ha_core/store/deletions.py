"""Requests of clients to delete moved topics: written by gateways, carried out and answered by caretakers."""

from __future__ import annotations

from ha_core.model import DeletionRequest
from ha_core.store import documents, paths
from ha_core.store.documents import nodes_of, readable
from ha_core.store.tree import OnTree, Op, Remove, once, placed


class Deletions(OnTree):
    def request_deletion(self, request: DeletionRequest) -> None:
        """Write it down, or an answer to it. A second request for the same topic replaces the first."""
        path = paths.path_of(DeletionRequest, request.name)

        def write() -> None:
            self._tree.write([placed(path, documents.to_bytes(request), self._tree.get(path))])

        once(self._tree, f"the request to delete topic {request.name}", write)

    def settle_deletion(self, name: str) -> None:
        """Remove the request for a topic, whatever it says."""
        path = paths.path_of(DeletionRequest, name)

        def write() -> None:
            node = self._tree.get(path)
            ops: list[Op] = [] if node is None else [Remove(path, node.version)]
            if ops:
                self._tree.write(ops)

        once(self._tree, f"the request to delete topic {name}", write)

    def requested_deletions(self) -> list[DeletionRequest]:
        """All that are there; those that this version cannot read are left out."""
        if not nodes_of(self._tree, DeletionRequest.FOLDER):
            return []
        return list(readable(self._tree, DeletionRequest))
