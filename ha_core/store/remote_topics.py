"""Stores the remote topics of flows, to which gateways let no client write. Each change has a revision, so a worker can
wait until every gateway follows it before it copies the first record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple
from uuid import uuid4

from ha_core.model import FlowId, RemoteTopicPortion
from ha_core.model.portions import portions
from ha_core.model.remote_topics import MAX_IN_PORTION, MAX_REMOTE_TOPICS
from ha_core.store import documents, paths
from ha_core.store.commits import Commits, StateChange, key_of, revision_of
from ha_core.store.documents import demanded, nodes_of
from ha_core.store.errors import ConflictError, TooManyRemoteTopicsError
from ha_core.store.tree import existing

BATCH_BYTES = 500_000
MAX_CONFLICTS = 20
"""Maximum number of attempts while other workers of the flow write at the same time."""
_COST = "clients can write to the flow's remote topics through gateways until its worker writes them again"


class FlowTopics(NamedTuple):
    """Topics that a flow writes, and facts about the flow for gateways. Fields are as in `RemoteTopicPortion`."""

    flow: FlowId
    topics: Mapping[str, str]
    readers_of_source: bool = True


class WrittenRemoteTopics(Commits):
    def write_remote_topics(self, written: FlowTopics) -> int:
        """Add these topics to those of the flow. Topics that the flow's other workers have added stay. Safe to repeat.

        :return: a revision. A gateway that follows it (`GatewayRecord.revision`) lets no client write to the topics.
        :raises TooManyRemoteTopicsError: the flow would have more than `MAX_REMOTE_TOPICS`. Nothing was written.
        :raises UnreadableDocumentError: this version cannot read a portion of the flow.
        :raises ConflictError: other workers write again and again.
        """
        return self._change(written.flow, lambda stored: with_topics(stored, written))

    def remove_remote_topics(self, flow: FlowId, topics: Collection[str] | None = None) -> int:
        """End the flow's claim on these topics, so that clients may write to them. Safe to repeat.

        :param topics: None: all topics of the flow.
        :return: a revision. A gateway that follows it lets clients write to the topics.
        :raises UnreadableDocumentError: this version cannot read a portion of the flow.
        :raises ConflictError: other workers write again and again.
        """
        return self._change(flow, lambda stored: without_topics(stored, topics))

    def remote_topics(self, flow: FlowId) -> dict[str, str]:
        """Remote topic → topic of the source, for the whole flow.

        :raises UnreadableDocumentError: this version cannot read a portion of the flow.
        """
        stored = demanded(self._tree, RemoteTopicPortion, _COST, self._portions_of(flow))
        return {remote: topic for document in stored for remote, topic in document.topics.items()}

    def _portions_of(self, flow: FlowId) -> list[str]:
        def its(path: str) -> bool:
            return RemoteTopicPortion.is_of(flow, paths.decode(path.rpartition("/")[2]))

        return list(filter(its, nodes_of(self._tree, RemoteTopicPortion.FOLDER)))

    def _change(self, flow: FlowId, changed: Callable[[Sequence[RemoteTopicPortion]], list[RemoteTopicPortion]]) -> int:
        for conflicts in range(1, MAX_CONFLICTS + 1):
            wanted = self._portions_of(flow)
            # Versions are read first: if a document changes before it is read, the commit fails.
            versions = {path: node.version for path, node in existing(self._tree, wanted)}
            stored = demanded(self._tree, RemoteTopicPortion, _COST, wanted)
            try:
                return self._commit_each(changed(stored), versions)
            except ConflictError:
                if conflicts == MAX_CONFLICTS:
                    raise
        raise AssertionError("unreachable")

    def _commit_each(self, changed: Iterable[RemoteTopicPortion], versions: Mapping[str, int]) -> int:
        """Commit the documents, in several revisions if they do not fit into one. Each topic is in one document, so the
        state between two revisions equals that after a smaller write."""
        self._tree.sync()
        revision = revision_of(self._tree.get(paths.CHANGES))
        for batch in portions(changed, BATCH_BYTES, lambda document: len(documents.to_bytes(document))):
            keys = list(map(key_of, batch))
            change = StateChange(
                change_id=f"remote-topics-{uuid4().hex}",
                puts=tuple(document for document in batch if document.topics),
                deletes=tuple(key for key, document in zip(keys, batch, strict=True) if not document.topics),
                expected={key: versions.get(paths.path_of(*key)) for key in keys},
                step="remote topics",
            )
            revision = self.commit(change)
        return revision


def with_topics(stored: Iterable[RemoteTopicPortion], written: FlowTopics) -> list[RemoteTopicPortion]:
    """The documents that change when these topics and the flow's current facts are added.

    A topic stays in its document, and new topics first fill existing documents, so that few documents change.

    :param stored: all documents of the flow.
    :raises TooManyRemoteTopicsError: the flow would have more than `MAX_REMOTE_TOPICS`.
    """
    before = {document.portion: document for document in sorted(stored, key=lambda document: document.portion)}
    topics = {portion: dict(document.topics) for portion, document in before.items()}
    home = {remote: its for its in topics.values() for remote in its}
    new = iter(sorted((remote, topic) for remote, topic in written.topics.items() if remote not in home))
    for remote, its in home.items():
        its[remote] = written.topics.get(remote, its[remote])
    if (total := len(home.keys() | written.topics.keys())) > MAX_REMOTE_TOPICS:
        raise TooManyRemoteTopicsError(written.flow.name, total, MAX_REMOTE_TOPICS)
    portion, left = 0, next(new, None)
    while left is not None:
        its = topics.setdefault(portion, {})
        while left is not None and len(its) < MAX_IN_PORTION:
            its[left[0]] = left[1]
            left = next(new, None)
        portion += 1
    wanted = (
        before[portion].changed(topics=its, readers_of_source=written.readers_of_source)
        if portion in before
        else RemoteTopicPortion.of(written.flow, portion, its, written.readers_of_source)
        for portion, its in topics.items()
    )
    return [document for document in wanted if document != before.get(document.portion)]


def without_topics(stored: Iterable[RemoteTopicPortion], topics: Collection[str] | None) -> list[RemoteTopicPortion]:
    """The documents that change when these topics are removed (None: all topics). Empty ones are to be deleted."""
    gone = None if topics is None else frozenset(topics)
    changed = (
        document.changed(
            topics={} if gone is None else {name: its for name, its in document.topics.items() if name not in gone}
        )
        for document in stored
    )
    return [after for after, before in zip(changed, stored, strict=True) if after != before or not after.topics]
