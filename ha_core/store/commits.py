"""Revisions: their content, the atomic write that makes one, and the note by which it is followed and recognised.

The write includes the revision, the documents, the note and the check that no other executor has taken over.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ha_core.model import Document, Operation
from ha_core.model.document import DOCUMENT_KINDS, Part
from ha_core.store import documents, paths
from ha_core.store.documents import value_of
from ha_core.store.errors import ConflictError, FencedOffError, StoreError, StoreUnavailableError, UnknownOperationError
from ha_core.store.paths import name_of
from ha_core.store.tree import (
    Check,
    Create,
    Node,
    OnTree,
    Op,
    PreconditionError,
    Put,
    Remove,
    ReplyLostError,
    Tree,
    check_size,
    once,
)

Key = tuple[type[Document], str]
"""Kind and name of a document."""


def key_of(document: Document) -> Key:
    return DOCUMENT_KINDS[document.FOLDER], name_of(document)


@dataclass(frozen=True)
class StateChange:
    """Documents to put and delete together, and the versions that the decision was based on.

    :ivar puts: documents of the state, each at most once.
    :ivar deletes: (kind, name); operations cannot be deleted, their history stays.
    :ivar expected: the version read of every put and delete, None for "must not exist". Further entries are guards:
        documents that the decision was based on, and that must not have changed either.
    :ivar change_id: unique; identifies a change whose reply was lost, also to a later process.
    :ivar operation: the operation on whose behalf the change is made, with the `epoch` that its executor holds:
        an executor that was taken over is refused. Both or neither.
    :ivar step: the operation's step, for the change note.
    """

    change_id: str
    puts: tuple[Document, ...] = ()
    deletes: tuple[Key, ...] = ()
    expected: Mapping[Key, int | None] = field(default_factory=dict)
    operation: str | None = None
    epoch: int | None = None
    step: str = ""

    def __post_init__(self) -> None:
        if not self.change_id:
            raise ValueError("a change needs a change_id: without it a lost reply cannot be recognised")
        if (self.operation is None) != (self.epoch is None):
            raise ValueError(f"change {self.change_id}: operation and epoch go together, or it would not be fenced")
        written = self.written
        for kind, name in written:
            if not (kind.REVISED or kind.REPLICATED):
                raise ValueError(f"change {self.change_id}: {kind.__name__} {name} is not part of the state")
            if (kind, name) not in self.expected:
                raise ValueError(f"change {self.change_id}: no expected version of {kind.__name__} {name}")
        if len(set(written)) != len(written):
            raise ValueError(f"change {self.change_id}: a document is written twice")
        for kind, name in self.deletes:
            if kind is Operation:
                raise ValueError(f"change {self.change_id}: operation {name} cannot be deleted, its history stays")
            if self.expected[kind, name] is None:
                raise ValueError(f"change {self.change_id}: {kind.__name__} {name} must exist to be deleted")

    @property
    def written(self) -> tuple[Key, ...]:
        """Keys of all puts, then of all deletes."""
        return (*map(key_of, self.puts), *self.deletes)


KEPT = 1000
"""Notes kept. A watcher that lags by more reloads everything."""
PRUNED_EVERY = 100
"""Revisions between prunings, so that most commits do not list the notes."""


class Note(Part):
    """`/changes/change-{revision}`."""

    revision: int
    id: str
    operation: str | None
    step: str
    paths: tuple[str, ...]

    @classmethod
    def of(cls, node: Node | None) -> Note | None:
        """The note in a node; None if it is pruned or damaged: either way the changed paths are unknown."""
        try:
            return None if node is None else cls.model_validate_json(node.data)
        except ValueError:
            return None


def revision_to_bytes(revision: int) -> bytes:
    return b'{"revision":%d}' % revision


def revision_of(node: Node | None) -> int:
    """The revision in `/changes`."""
    if node is None:
        raise StoreUnavailableError(
            f"{paths.CHANGES} is missing: the root was deleted or is another one; "
            "restore it, or connect again to create an empty state"
        )
    return value_of(int, node, paths.CHANGES, "revision", "the newest revision")


def find_change(tree: Tree, change_id: str, after: int = 0) -> int | None:
    """The revision of the change with this id, among the kept notes later than revision `after`."""
    newest = revision_of(tree.get(paths.CHANGES))
    revisions = range(newest, max(after, newest - KEPT - PRUNED_EVERY, 0), -1)
    for revision, node in zip(revisions, tree.get_many([paths.note(r) for r in revisions]), strict=True):
        note = Note.of(node)
        if note is not None and note.id == change_id:
            return revision
    return None


def prune_notes(tree: Tree, newest: int) -> None:
    """Delete all but the newest `KEPT` notes. Best effort: a failure must not fail the commit that has been made."""
    try:
        oldest_kept = paths.note(newest - KEPT + 1)
        old = sorted(path for name in tree.children(paths.CHANGES) if (path := f"{paths.CHANGES}/{name}") < oldest_kept)
        for start in range(0, len(old), KEPT):
            tree.write([Remove(path, 0) for path in old[start : start + KEPT]])
    except (PreconditionError, ReplyLostError, StoreUnavailableError):
        return


class Commits(OnTree):
    def commit(self, change: StateChange) -> int:
        """Make the change as one revision, all or nothing; returns the revision.

        A change that was made already (recognised by change_id among the kept notes) returns its revision again.

        :raises ConflictError: a document is not at its expected version.
        :raises FencedOffError: another executor has taken the operation over.
        :raises TooLargeError: more than ZooKeeper accepts in one request.
        """
        tree = self._tree
        start = revision_of(tree.get(paths.CHANGES))
        document_ops = _document_ops(change)
        revision = once(
            tree,
            f"change {change.change_id}",
            lambda: _commit(tree, change, document_ops),
            lambda: find_change(tree, change.change_id, after=start),
        )
        if revision % PRUNED_EVERY == 0:
            prune_notes(tree, revision)
        return revision


def _commit(tree: Tree, change: StateChange, document_ops: Sequence[Op]) -> int:
    """:raises PreconditionError: another change came in between: call again, and all versions are checked."""
    node = tree.get(paths.CHANGES)
    revision = revision_of(node) + 1
    assert node is not None
    written = tuple(paths.path_of(kind, name) for kind, name in change.written)
    note = Note(revision=revision, id=change.change_id, operation=change.operation, step=change.step, paths=written)
    ops: list[Op] = [Put(paths.CHANGES, revision_to_bytes(revision), node.version)]
    if change.operation is not None and change.epoch is not None:
        ops.append(Check(paths.epoch(change.operation), change.epoch))
    first_document = len(ops)
    ops += document_ops
    ops.append(Create(paths.note(revision), note.model_dump_json().encode()))
    check_size(ops)
    try:
        tree.write(ops)
    except PreconditionError as refused:
        if refused.index == 0:
            raise
        if refused.index < first_document:
            raise fenced_off(tree, change.operation or "", change.epoch or 0) from None
        if refused.index == len(ops) - 1:
            raise StoreError(
                f"{paths.note(revision)} exists already: the revision went backwards; restore the state from a backup"
            ) from None
        made = find_change(tree, change.change_id)
        if made is not None:
            return made
        raise _conflict(tree, change, ops[refused.index].path) from None
    return revision


def _document_ops(change: StateChange) -> list[Op]:
    ops: list[Op] = []
    for document, (kind, name) in zip(change.puts, change.written, strict=False):
        path, data, version = paths.path_of(kind, name), documents.to_bytes(document), change.expected[kind, name]
        ops.append(Create(path, data) if version is None else Put(path, data, version))
    for kind, name in change.deletes:
        version = change.expected[kind, name]
        assert version is not None
        ops.append(Remove(paths.path_of(kind, name), version))
    for kind, name in change.expected.keys() - set(change.written):
        version, path = change.expected[kind, name], paths.path_of(kind, name)
        # ZooKeeper cannot check for absence; creating and removing the node proves it.
        ops += [Create(path), Remove(path, 0)] if version is None else [Check(path, version)]
    return ops


def _conflict(tree: Tree, change: StateChange, path: str) -> ConflictError:
    expected = {paths.path_of(kind, name): version for (kind, name), version in change.expected.items()}
    node = tree.get(path)
    return ConflictError(path, expected.get(path), None if node is None else node.version)


def fenced_off(tree: Tree, operation_id: str, epoch: int) -> StoreError:
    """Why a check of the operation's epoch failed."""
    node = tree.get(paths.epoch(operation_id))
    return UnknownOperationError(operation_id) if node is None else FencedOffError(operation_id, epoch, node.version)
