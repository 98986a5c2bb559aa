"""Operations of an exported file, as the history has them: after a trim the file is all that is left of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ha_core.model import HistoryEntry, Operation
from ha_core.model.document import UnreadableDocumentError
from ha_core.model.seal import Seal, SealedOperation, canonical
from ha_core.operations.audit.checking import events_of, lines_of
from ha_core.operations.audit.searching import OperationFilter
from ha_core.operations.engine.errors import unchanged
from ha_core.plan.audit.events import PlatformChangeEvent


@dataclass(frozen=True, slots=True)
class ArchivedOperation:
    operation: Operation
    history: tuple[HistoryEntry, ...]
    seal: Seal | None
    """None: it ended under a version that sealed nothing."""


@dataclass(frozen=True, slots=True)
class ArchivedOperations:
    operations: tuple[Operation, ...]
    """Newest first."""
    unreadable: tuple[str, ...]
    """Ids of those that this version cannot read."""
    changes: tuple[dict[str, Any], ...]
    """Changes of the platform, newest first."""


def archived(path: Path, operation_id: str) -> ArchivedOperation:
    """One operation of an export.

    :raises RefusedError: the file is no export, or has no such operation, or this version cannot read it.
    """
    for event in events_of(path):
        if event.sealed.id == operation_id:
            found = _read(event.sealed)
            if found is None:
                raise unchanged(f"{path} has operation {operation_id}, but this version cannot read it.")
            return found
    raise unchanged(f"{path} has no operation {operation_id}. `switchyard history show --file {path}` lists all.")


def search_archive(path: Path, wanted: OperationFilter, limit: int) -> ArchivedOperations:
    """The newest operations of an export that match, and the newest changes of the platform of that time and author.

    :raises RefusedError: the file is no export.
    """
    found: list[Operation] = []
    unreadable: list[str] = []
    changes: list[dict[str, Any]] = []
    for line in lines_of(path):
        if isinstance(line, PlatformChangeEvent):
            if wanted.matches_change(line.change):
                changes.append(line.change)
            continue
        read = _read(line.sealed)
        if read is None:
            unreadable.append(line.sealed.id)
        elif wanted.matches(read.operation):
            found.append(read.operation)
    newest = sorted(found, key=lambda one: (one.started, one.id), reverse=True)
    last = sorted(changes, key=lambda one: str(one.get("changed", "")), reverse=True)
    return ArchivedOperations(tuple(newest[:limit]), tuple(unreadable), tuple(last[:limit]))


def _read(sealed: SealedOperation) -> ArchivedOperation | None:
    if sealed.operation is None:
        return None
    try:
        operation = Operation.from_bytes(canonical(sealed.operation), sealed.id)
        entries = tuple(HistoryEntry.from_bytes(canonical(entry), sealed.id) for entry in sealed.history)
    except UnreadableDocumentError:
        return None
    return ArchivedOperation(operation, entries, sealed.seal)
