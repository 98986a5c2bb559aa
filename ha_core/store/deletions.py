"""Deletions by clients. Gateways write two kinds of documents: requests to delete a moved topic, which caretakers
execute and answer, and the offsets below which records were deleted, which moves read."""

from collections.abc import Collection, Mapping
from functools import partial

from ha_core.model import DeletedRecords, DeletionRequest, Topic
from ha_core.store import documents, paths
from ha_core.store.documents import demanded, nodes_of, readable
from ha_core.store.errors import ConflictError
from ha_core.store.tree import Check, Node, OnTree, Op, PreconditionError, once, placed, remove

Deleted = dict[tuple[str, int], int]
"""(topic, partition) → client offset below which all records are deleted."""


class Deletions(OnTree):
    def request_deletion(self, request: DeletionRequest) -> None:
        """Store a request, or its answer. A second request for a topic replaces the first."""
        path = paths.path_of(DeletionRequest, request.name)

        def write() -> None:
            self._tree.write([placed(path, documents.to_bytes(request), self._tree.get(path))])

        once(self._tree, f"the request to delete topic {request.name}", write)

    def settle_deletion(self, name: str) -> None:
        """Remove the request for a topic, whatever its content."""
        path = paths.path_of(DeletionRequest, name)
        once(self._tree, f"the request to delete topic {name}", partial(remove, self._tree, path))

    def requested_deletions(self) -> list[DeletionRequest]:
        """All requests; those that this version cannot read are left out."""
        if not nodes_of(self._tree, DeletionRequest.FOLDER):
            return []
        return list(readable(self._tree, DeletionRequest))

    def keep_deleted(self, topic: Topic, below: Mapping[int, int]) -> None:
        """Store the client offsets below which records were deleted, if the topic's document has not changed: a move
        that has fenced the topic reads these offsets once, under its fence.

        :raises ConflictError: the document has changed.
        :raises UnreadableDocumentError: this version cannot read the stored offsets.
        """
        at, path = paths.path_of(Topic, topic.name), paths.path_of(DeletedRecords, topic.name)

        def write() -> None:
            stored, node = self._tree.get_many([at, path])
            if stored is None or documents.from_bytes(Topic, stored.data, at) != topic:
                raise ConflictError(at, None, None if stored is None else stored.version)
            records = _known(path, node, topic.name)
            deeper = {p: offset for p, offset in below.items() if offset > records.below.get(p, 0)}
            if not deeper:
                return
            try:
                self._tree.write([Check(at, stored.version), _written(path, records, deeper, node)])
            except PreconditionError as error:
                if error.index == 0:
                    raise ConflictError(at, stored.version, None) from error
                raise

        once(self._tree, f"which records of topic {topic.name} are deleted", write)

    def deleted_records(self, topics: Collection[str]) -> Deleted:
        """The stored offsets of these topics.

        :raises UnreadableDocumentError: this version cannot read one of the documents. Without it, a move would serve
            records whose deletion a client was answered.
        """
        wanted = [paths.path_of(DeletedRecords, name) for name in sorted(topics)]
        found = demanded(self._tree, DeletedRecords, "a move may serve records again that clients have deleted", wanted)
        return {(deleted.name, partition): offset for deleted in found for partition, offset in deleted.below.items()}

    def lower_deleted(self, topic: str, known: Mapping[int, int], below: Mapping[int, int]) -> None:
        """Lower the offsets of some partitions, if they still equal `known`: the log has records below its offset, so
        it is a new log that was made after the deletion."""
        path = paths.path_of(DeletedRecords, topic)

        def write() -> None:
            node = self._tree.get(path)
            stored = _known(path, node, topic)
            lower = {p: offset for p, offset in below.items() if stored.below.get(p) == known.get(p)}
            if lower:
                self._tree.write([_written(path, stored, lower, node)])

        once(self._tree, f"which records of topic {topic} are deleted", write)

    def forget_deleted(self, topics: Collection[str]) -> None:
        """Remove the offsets of topics that are deleted as a whole."""
        for name in sorted(topics):
            path = paths.path_of(DeletedRecords, name)
            once(self._tree, f"which records of topic {name} are deleted", partial(remove, self._tree, path))


def _known(path: str, node: Node | None, topic: str) -> DeletedRecords:
    return DeletedRecords(name=topic) if node is None else documents.from_bytes(DeletedRecords, node.data, path)


def _written(path: str, records: DeletedRecords, below: Mapping[int, int], node: Node | None) -> Op:
    return placed(path, documents.to_bytes(records.changed(below={**records.below, **below})), node)
