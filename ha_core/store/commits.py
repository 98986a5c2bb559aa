"""Committing a change: one atomic write of the revision, the documents, the note and the fencing check."""

from __future__ import annotations

import random
import time

from ha_core.model import Document
from ha_core.store import documents, notes, paths
from ha_core.store.change import Change
from ha_core.store.errors import ConflictError, FencedOffError, StoreError, StoreUnavailableError, UnknownOperationError
from ha_core.store.notes import Note
from ha_core.store.once import once
from ha_core.store.tree import Check, Create, Op, Put, RefusedError, Remove, Tree, check_size

MAX_ATTEMPTS = 100
"""Against other committers: each loss means that somebody else's change was made."""
_REVISION, _EPOCH = 0, 1
"""Places of these operations in the write."""


def commit(tree: Tree, change: Change) -> int:
    """See `Store.commit`."""
    start = notes.revision_of(tree.get(paths.CHANGES))
    revision = once(
        tree,
        f"change {change.change_id}",
        lambda: _commit(tree, change),
        lambda: notes.find(tree, change.change_id, after=start),
    )
    if revision % notes.PRUNED_EVERY == 0:
        notes.prune(tree, revision)
    return revision


def _commit(tree: Tree, change: Change) -> int:
    document_ops = _document_ops(change)
    written = tuple(paths.path_of(kind, name) for kind, name in change.written)
    for attempt in range(MAX_ATTEMPTS):
        node = tree.get(paths.CHANGES)
        revision = notes.revision_of(node) + 1
        assert node is not None
        note = Note(revision, change.change_id, change.operation, change.step, written)
        ops: list[Op] = [Put(paths.CHANGES, notes.revision_to_bytes(revision), node.version)]
        if change.operation is not None and change.epoch is not None:
            ops.append(Check(paths.epoch(change.operation), change.epoch))
        first_document = len(ops)
        ops += document_ops
        ops.append(Create(paths.note(revision), note.to_bytes()))
        check_size(ops)
        try:
            tree.write(ops)
        except RefusedError as refused:
            if refused.index == _REVISION:
                # Somebody else's change came in between. The next attempt checks our documents' versions again.
                time.sleep(random.uniform(0, 0.001 * min(attempt, 20)))
                continue
            if refused.index < first_document:
                raise fenced_off(tree, change.operation or "", change.epoch or 0) from None
            if refused.index == len(ops) - 1:
                raise StoreError(
                    f"{paths.note(revision)} exists already: the revision went backwards; "
                    "restore the state from a backup"
                ) from None
            made = notes.find(tree, change.change_id)
            if made is not None:
                return made
            raise _conflict(tree, change, ops[refused.index].path) from None
        return revision
    raise StoreUnavailableError(
        f"change {change.change_id}: {MAX_ATTEMPTS} other changes came first; repeat it when fewer are made at once"
    )


def _document_ops(change: Change) -> list[Op]:
    ops: list[Op] = []
    for document, (kind, name) in zip(change.puts, change.written, strict=False):
        ops.append(_put(document, paths.path_of(kind, name), change.expected[kind, name]))
    for kind, name in change.deletes:
        version = change.expected[kind, name]
        assert version is not None
        ops.append(Remove(paths.path_of(kind, name), version))
    for kind, name in change.expected.keys() - set(change.written):
        version, path = change.expected[kind, name], paths.path_of(kind, name)
        # ZooKeeper cannot check for absence: a node that can be made and removed again was absent.
        ops += [Create(path), Remove(path, 0)] if version is None else [Check(path, version)]
    return ops


def _put(document: Document, path: str, version: int | None) -> Op:
    data = documents.to_bytes(document)
    return Create(path, data) if version is None else Put(path, data, version)


def _conflict(tree: Tree, change: Change, path: str) -> ConflictError:
    expected = {paths.path_of(kind, name): version for (kind, name), version in change.expected.items()}
    node = tree.get(path)
    return ConflictError(path, expected.get(path), None if node is None else node.version)


def fenced_off(tree: Tree, operation_id: str, epoch: int) -> StoreError:
    """Why a check of the operation's epoch failed."""
    node = tree.get(paths.epoch(operation_id))
    return UnknownOperationError(operation_id) if node is None else FencedOffError(operation_id, epoch, node.version)
