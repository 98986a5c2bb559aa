"""The mirrors and their patterns, and the documents by which the mirror job's driver and tasks talk: those outside of
revisions."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from functools import partial
from typing import Generic, NamedTuple, TypeVar

from ha_core.model import (
    Document,
    FlowDeclaration,
    FlowWorker,
    GroupCheckpoints,
    LostTail,
    Mirror,
    MirrorCopies,
    MirrorPattern,
    MirrorReport,
    MirrorSync,
    MirrorTask,
    PatternLook,
    UnreadableDocumentError,
)
from ha_core.model.checkpoints import checkpoint_key
from ha_core.model.portions import portions
from ha_core.store import documents, paths
from ha_core.store.documents import demanded, nodes_of, readable
from ha_core.store.errors import ConflictError
from ha_core.store.known import BATCH_BYTES, BATCH_NODES
from ha_core.store.tree import (
    Create,
    OnTree,
    Op,
    PreconditionError,
    Put,
    Remove,
    Tree,
    existing,
    once,
    placed,
    remove,
)

log = logging.getLogger(__name__)

Versioned = tuple[MirrorTask, int | None]
"""A document, and the node version that it replaces; None: there is no node yet."""

D = TypeVar("D", bound=Document)


class DocumentsFound(NamedTuple, Generic[D]):
    readable: list[D]
    """By key."""
    unreadable: Mapping[str, str]
    """key → why this version cannot read it."""


class Mirroring(OnTree):
    def mirrors(self) -> list[Mirror]:
        """All mirrors by key; those that this version cannot read are left out."""
        return self.find_mirrors().readable

    def find_mirrors(self) -> DocumentsFound[Mirror]:
        return self._find(Mirror)

    def find_mirror_patterns(self) -> DocumentsFound[MirrorPattern]:
        return self._find(MirrorPattern)

    def mirror_patterns(self) -> list[MirrorPattern]:
        """All patterns by key, for a decision that must not miss one.

        :raises UnreadableDocumentError: this version cannot read one.
        """
        return demanded(self._tree, MirrorPattern, "topics that it chooses get no mirror by it any more")

    def _find(self, kind: type[D]) -> DocumentsFound[D]:
        found, unreadable = list[D](), dict[str, str]()
        for path, node in existing(self._tree, nodes_of(self._tree, kind.FOLDER)):
            key = paths.decode(path.rpartition("/")[2])
            try:
                document = documents.from_bytes(kind, node.data, path)
                if (named := paths.name_of(document)) != key:
                    raise UnreadableDocumentError(f"{path}: the document inside is of {named!r}")  # noqa: TRY301
                found.append(document)
            except UnreadableDocumentError as error:
                unreadable[key] = str(error)
        return DocumentsFound(found, unreadable)

    def pattern_looks(self) -> dict[str, PatternLook]:
        """Key of a pattern → the last look at its topics; patterns that no job has looked at are missing."""
        return {look.key: look for look in readable(self._tree, PatternLook)}

    def keep_pattern_look(self, look: PatternLook) -> None:
        """Replaces the result of an earlier look, of any process."""
        self._keep(look, f"the topics of the pattern {look.key}")

    def drop_pattern_look(self, key: str) -> None:
        once(
            self._tree, f"the topics of the pattern {key}", partial(remove, self._tree, paths.path_of(PatternLook, key))
        )

    def lost_tails(self, topics: Collection[str] | None = None, cluster: str | None = None) -> list[LostTail]:
        """The lost tails of forced switches, by key: of these topics (None: of all), in this cluster (None: in any).

        Others are not read, so an unreadable one blocks only work on its own topic or cluster.

        :raises UnreadableDocumentError: this version cannot read one. Without it, the only log with some records could
            be deleted as an unneeded copy, or be mirrored over.
        """

        def asked_for(path: str) -> bool:
            topic, lost = LostTail.named_by(paths.decode(path.rpartition("/")[2]))
            return (topics is None or topic in topics) and cluster in (None, lost)

        wanted = [path for path in nodes_of(self._tree, LostTail.FOLDER) if asked_for(path)]
        cost = "records that only its cluster has are neither counted nor kept from deletion"
        return demanded(self._tree, LostTail, cost, wanted)

    def mirror_reports(self) -> dict[int, MirrorReport]:
        """slot → its task's report; slots without a task are missing."""
        return {report.slot: report for report in readable(self._tree, MirrorReport)}

    def flow_workers(self) -> list[FlowWorker]:
        """The live workers of MirrorMaker 2's flows."""
        return list(readable(self._tree, FlowWorker))

    def flow_declarations(self) -> list[FlowDeclaration]:
        """All declarations of flows; those that this version cannot read are left out, and logged."""
        return list(readable(self._tree, FlowDeclaration))

    def follow_mirror_copies(self) -> FollowedCopies:
        """Follows the tasks' positions in the copies; cheap to poll."""
        return FollowedCopies(self._tree)

    def mirror_syncs(self) -> list[MirrorSync]:
        """Differences of mirrors other than records, by key."""
        return list(readable(self._tree, MirrorSync))

    def keep_mirror_sync(self, sync: MirrorSync) -> None:
        """Replaces the result of an earlier look, of any process."""
        self._keep(sync, f"the differences of mirrors of {sync.source} in {sync.target}")

    def _keep(self, document: Document, what: str) -> None:
        path, data = paths.path_of(type(document), paths.name_of(document)), documents.to_bytes(document)

        def write() -> None:
            self._tree.write([placed(path, data, self._tree.get(path))])

        once(self._tree, what, write)

    def checkpoints(self, source: str, target: str) -> dict[str, GroupCheckpoints]:
        """Checkpoints of the direct groups of a pair of clusters, by group; unreadable ones are left out."""
        prefix = f"{GroupCheckpoints.FOLDER}/{paths.encode(checkpoint_key(source, target))}"
        wanted = [path for path in nodes_of(self._tree, GroupCheckpoints.FOLDER) if path.startswith(prefix)]
        return {one.group: one for one in readable(self._tree, GroupCheckpoints, wanted)}

    def keep_checkpoints(self, changed: Collection[GroupCheckpoints], gone: Collection[GroupCheckpoints] = ()) -> None:
        """Replace these, and remove those that are gone, whichever process wrote them last."""
        wanted: dict[str, bytes | None] = dict.fromkeys(paths.path_of(GroupCheckpoints, one.key) for one in gone)
        wanted |= {paths.path_of(GroupCheckpoints, one.key): documents.to_bytes(one) for one in changed}
        for batch in portions(wanted.items(), BATCH_BYTES, lambda node: len(node[1] or b""), BATCH_NODES):
            once(self._tree, "checkpoints of groups", partial(self._replace_nodes, dict(batch)))

    def forget_ended_checkpoints(self, pairs: Collection[tuple[str, str]]) -> None:
        """Remove the checkpoints of all pairs of clusters but these, which have mirrors."""
        kept = {paths.encode(checkpoint_key(*pair)) for pair in pairs}
        folder = f"{GroupCheckpoints.FOLDER}/"
        ended = {
            path: None
            for path in nodes_of(self._tree, GroupCheckpoints.FOLDER)
            if not any(path.removeprefix(folder).startswith(prefix) for prefix in kept)
        }
        for batch in portions(ended.items(), BATCH_BYTES, lambda node: len(node[0]), BATCH_NODES):
            once(self._tree, "checkpoints of ended mirrors", partial(self._replace_nodes, dict(batch)))

    def _replace_nodes(self, wanted: Mapping[str, bytes | None]) -> None:
        """:param wanted: path → data; None: no node."""
        order = sorted(wanted)
        ops: list[Op] = []
        for path, node in zip(order, self._tree.get_many(order), strict=True):
            data = wanted[path]
            if data is not None and (node is None or node.data != data):
                ops.append(placed(path, data, node))
            elif data is None and node is not None:
                ops.append(Remove(path, node.version))
        if ops:
            self._tree.write(ops)

    def mirror_slots(self) -> dict[int, int]:
        """slot → version of its document, whatever its content."""
        nodes = existing(self._tree, nodes_of(self._tree, MirrorTask.FOLDER))
        named = ((paths.decode(path.rpartition("/")[2]), node.version) for path, node in nodes)
        # A node with another name is no slot, and must not prevent every driver from starting.
        return {int(name): version for name, version in named if name.isdecimal()}

    def follow_mirror_task(self, slot: int) -> FollowedTask:
        """Follows the task of a slot; cheap to poll."""
        return FollowedTask(self._tree, slot)

    def write_mirror_tasks(self, tasks: Mapping[int, Versioned]) -> dict[int, int]:
        """Replaces the tasks of slots, all or none; slot → new version.

        :raises ConflictError: another driver has written one of them, and leads then.
        """
        expected = {paths.path_of(MirrorTask, task.name): version for task, version in tasks.values()}
        data = {paths.path_of(MirrorTask, task.name): documents.to_bytes(task) for task, _ in tasks.values()}
        ops = [
            Create(path, data[path]) if version is None else Put(path, data[path], version)
            for path, version in expected.items()
        ]
        versions = {slot: 0 if version is None else version + 1 for slot, (_, version) in tasks.items()}

        def write() -> dict[int, int]:
            try:
                self._tree.write(ops)
            except PreconditionError as error:
                path = ops[error.index].path
                node = self._tree.get(path)
                raise ConflictError(path, expected[path], None if node is None else node.version) from error
            return versions

        def written() -> dict[int, int] | None:
            nodes = dict(existing(self._tree, list(data)))
            found = {path: (node.data, node.version) for path, node in nodes.items()}
            wanted = zip(data.items(), versions.values(), strict=True)
            return versions if found == {path: (text, version) for (path, text), version in wanted} else None

        return once(self._tree, "writing the tasks of copiers", write, written) if ops else {}


class FollowedTask:
    """The document of a slot, parsed only when it has changed."""

    def __init__(self, tree: Tree, slot: int) -> None:
        self._tree, self._path = tree, paths.path_of(MirrorTask, str(slot))
        self._data: bytes | None = None
        self._task: MirrorTask | None = None

    def read(self) -> MirrorTask | None:
        """The current document; None: there is none.

        :raises UnreadableDocumentError: this version cannot read it.
        """
        node = self._tree.get(self._path)
        data = None if node is None else node.data
        if data != self._data:
            self._task = None if data is None else documents.from_bytes(MirrorTask, data, self._path)
            self._data = data
        return self._task


class FollowedCopies:
    """The documents of all slots; changed ones are parsed."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._known: dict[str, tuple[bytes, MirrorCopies | None]] = {}

    def read(self) -> list[MirrorCopies]:
        """The current documents; those that this version cannot read are left out."""
        before, self._known = self._known, {}
        for path, node in existing(self._tree, nodes_of(self._tree, MirrorCopies.FOLDER)):
            data, document = before.get(path, (None, None))
            if data != node.data:
                try:
                    document = documents.from_bytes(MirrorCopies, node.data, path)
                except UnreadableDocumentError as error:
                    log.warning("left out: %s", error)
                    document = None
            self._known[path] = node.data, document
        return [document for _, document in self._known.values() if document is not None]
