"""Operations that are one revision: masking, bindings, what becomes of old extents. Locks and history as of a switch.

The operation's document becomes `cut` in the very revision that makes the change, so whoever finds it interrupted
knows whether the change was made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from ha_core.model import Document, Operation
from ha_core.operations.context import Environment
from ha_core.operations.gateways import name_them, serves, wait_for_all
from ha_core.operations.journal import Journal, new_operation_id
from ha_core.operations.report import Report, step_times
from ha_core.store.change import Change

SERVED_TIMEOUT_S = 30.0
MAX_NAMED = 20
"""Of what an operation is about, in its own document."""
Expected = Mapping[tuple[type[Document], str], int | None]


def run_single(  # one change, spelled out
    environment: Environment,
    kind: Literal["mask", "unmask", "bindings", "return", "age", "give-up", "add-cluster", "remove-cluster"],
    reason: str,
    lock_keys: Sequence[str],
    puts: Sequence[Document],
    deletes: Sequence[tuple[type[Document], str]],
    expected: Expected,
    detail: dict[str, Any],
) -> Report:
    """Lock, commit one revision, wait until every gateway serves it, release.

    :raises LockedError, ConflictError, StoreUnavailableError: nothing was changed.
    """
    store = environment.store
    now = environment.now()
    operation = Operation(
        id=new_operation_id(kind, now),
        kind=kind,
        state="running",
        by=environment.by,
        reason=reason,
        started=now,
        evidence={"about": list(lock_keys[:MAX_NAMED])},
    )
    epoch = store.create_operation(operation, lock_keys)
    journal = Journal(environment, operation, epoch)
    try:
        with store.hold(operation.id, epoch):
            with journal.step(kind) as seen:
                seen.update(detail)
                revision = _commit(journal, puts, deletes, expected)
                seen["revision"] = revision
            return settle(journal)
    except BaseException:
        if journal.operation.state != "cut":
            journal.finish("undone", "nothing was changed")
        raise


def settle(journal: Journal) -> Report:
    """From the committed change to the end: wait for the gateways, write the result, release the locks."""
    environment, operation = journal.environment, journal.operation
    with journal.step("serve") as seen:
        behind = wait_for_all(environment, serves(operation.revision), SERVED_TIMEOUT_S)
        seen["behind"] = [gateway.id for gateway in behind]
    text = (
        ""
        if not behind
        else (
            f"Revision {operation.revision} is in force, but not every gateway serves it yet: {name_them(behind)}. "
            "Look at these gateways; they apply it, or stop serving when their lease ends."
        )
    )
    journal.finish("failed" if behind else "succeeded", text or "served by every gateway")
    return Report(
        operation.id,
        "failed" if behind else "succeeded",
        operation.revision,
        step_times(environment.store.history(operation.id)),
        error=text,
    )


def _commit(
    journal: Journal, puts: Sequence[Document], deletes: Sequence[tuple[type[Document], str]], expected: Expected
) -> int:
    store, operation = journal.environment.store, journal.operation
    found = store.read(Operation, operation.id)
    assert found is not None, f"operation {operation.id} was created a moment ago"
    cut = operation.model_copy(update={"state": "cut"})
    revision = store.commit(
        Change(
            puts=(*puts, cut),
            deletes=tuple(deletes),
            expected={**expected, (Operation, operation.id): found[1]},
            change_id=f"{operation.id}:{operation.kind}",
            operation=operation.id,
            epoch=journal.epoch,
            step=operation.kind,
        )
    )
    journal.operation = cut
    journal.update(revision=revision)
    return revision
