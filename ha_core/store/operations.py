"""Operations and their append-only history; every write checks the epoch."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence

from ha_core.model import HistoryEntry, Operation, UnreadableDocumentError
from ha_core.store import documents, paths
from ha_core.store.commits import fenced_off
from ha_core.store.errors import StoreUnavailableError, UnknownOperationError
from ha_core.store.locks import locks
from ha_core.store.once import once
from ha_core.store.tree import Check, Create, Op, Put, RefusedError, Tree, check_size

log = logging.getLogger(__name__)

MAX_ATTEMPTS = 20


def update_operation(tree: Tree, operation: Operation, epoch: int) -> None:
    """See `Store.update_operation`."""
    path, data = paths.path_of(Operation, operation.id), documents.to_bytes(operation)

    def write() -> bool:
        for _ in range(MAX_ATTEMPTS):
            node = tree.get(path)
            if node is None:
                raise UnknownOperationError(operation.id)
            ops: list[Op] = [Check(paths.epoch(operation.id), epoch), Put(path, data, node.version)]
            check_size(ops)
            try:
                tree.write(ops)
            except RefusedError as refused:
                if refused.index == 0:
                    raise fenced_off(tree, operation.id, epoch) from None
                continue
            return True
        raise StoreUnavailableError(f"operation {operation.id} is updated by others all the time; repeat it")

    def recognise() -> bool | None:
        node = tree.get(path)
        return True if node is not None and node.data == data else None

    once(tree, f"updating operation {operation.id}", write, recognise)


def append_history(tree: Tree, operation_id: str, epoch: int, entry: HistoryEntry) -> None:
    """See `Store.append_history`."""
    data = entry.to_bytes()
    tried: set[str] = set()

    def write() -> bool:
        for _ in range(MAX_ATTEMPTS):
            path = paths.history_entry(operation_id, len(tree.children(paths.history(operation_id))))
            ops: list[Op] = [Check(paths.epoch(operation_id), epoch), Create(path, data)]
            check_size(ops)
            tried.add(path)
            try:
                tree.write(ops)
            except RefusedError as refused:
                if refused.index == 0:
                    raise fenced_off(tree, operation_id, epoch) from None
                tried.discard(path)
                continue
            return True
        raise StoreUnavailableError(f"the history of {operation_id} is written by others all the time; repeat it")

    def recognise() -> bool | None:
        return True if any(node is not None and node.data == data for node in tree.get_many(sorted(tried))) else None

    once(tree, f"history of operation {operation_id}", write, recognise)


def operations(tree: Tree, limit: int, before: str | None = None) -> list[Operation]:
    """See `Store.operations`."""
    names = sorted(map(paths.decode, tree.children(paths.OPERATIONS)), key=_age, reverse=True)
    if before is not None:
        names = [name for name in names if _age(name) < _age(before)]
    found: list[Operation] = []
    while names and len(found) < limit:
        missing = limit - len(found)
        found += _read(tree, names[:missing])
        names = names[missing:]
    return found


def running(tree: Tree) -> list[Operation]:
    """See `Store.running`."""
    names = {lock.operation for lock in locks(tree)}
    return _read(tree, sorted(names, key=_age, reverse=True))


def history(tree: Tree, operation_id: str, newest: int | None = None) -> list[HistoryEntry]:
    """See `Store.history`."""
    parent = paths.history(operation_id)
    found = sorted(f"{parent}/{name}" for name in tree.children(parent))
    if newest is not None:
        found = found[max(0, len(found) - newest) :]
    entries: list[HistoryEntry] = []
    for path, node in zip(found, tree.get_many(found), strict=True):
        if node is None:
            continue
        try:
            entries.append(HistoryEntry.from_bytes(node.data, path))
        except UnreadableDocumentError as error:
            log.warning("left out: %s", error)
    return entries


_TIME = re.compile(r"-(\d{8}-\d{6})(?!\d)")


def _age(name: str) -> tuple[str, str]:
    """Sorts by the time that an operation's id carries: no document has to be read to know which are the newest."""
    at = _TIME.search(name)
    return (at.group(1) if at else "", name)


def _read(tree: Tree, names: Sequence[str]) -> list[Operation]:
    wanted = [paths.path_of(Operation, name) for name in names]
    readable: list[Operation] = []
    for path, node in zip(wanted, tree.get_many(wanted), strict=True):
        if node is None:
            continue
        try:
            readable.append(documents.from_bytes(Operation, node.data, path))
        except UnreadableDocumentError as error:
            log.warning("left out: %s", error)
    return readable
