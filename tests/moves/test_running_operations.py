"""What runs is found by the locks that it holds, however much has ever run."""

from __future__ import annotations

import pytest

from ha_core.model import Operation, Scope
from ha_core.moves.context import Environment
from ha_core.moves.interrupted import interrupted_twin
from ha_core.moves.registry import running_operations
from ha_core.moves.switch.prepare import make_request
from ha_core.store import MemoryStore


def test_an_interrupted_twin_is_found_without_reading_the_operations_that_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given: an operation that has ended, one whose end only lacks giving back its locks, and an interrupted one.
    request = make_request(["user:ann"], "east", "west", reason="drill")
    with Environment(MemoryStore(), by="test") as environment:
        store = environment.store
        for n, (state, locked) in enumerate((("succeeded", False), ("undone", True), ("running", True))):
            name = f"switch-20261101-10000{n}-aa"
            operation = Operation(
                id=name,
                kind="switch",
                state=state,
                by="t",
                reason="r",
                started=f"2026-11-01T10:00:0{n}Z",
                request=request,
            )
            epoch = store.create_operation(operation, [f"user:{n}"])
            if not locked:
                store.release_locks(name, epoch)
        monkeypatch.setattr(store, "operations", lambda *_: pytest.fail("all operations were read"))

        # When
        found, twin = running_operations(environment), interrupted_twin(environment, request)

    # Then
    assert [operation.id for operation in found] == ["switch-20261101-100002-aa"]
    assert twin is not None
    assert twin.id == "switch-20261101-100002-aa"
    assert request.scope == Scope(users=("ann",))
