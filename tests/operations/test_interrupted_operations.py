"""What runs is found by the locks that it holds, however much has ever run."""

from __future__ import annotations

import pytest

from ha_core.model import MoveSet, Scope, SwitchOperation
from ha_core.model.operation import Driver
from ha_core.operations import engine
from ha_core.operations.creating import begin
from ha_core.operations.engine import interrupted_twin
from ha_core.operations.environment import Environment
from ha_core.operations.errors import RefusedError
from ha_core.operations.registry import running_operations
from ha_core.operations.requests import make_request
from ha_core.operations.switch.proposal import Proposal
from ha_core.plan.verdict import error
from stack.memory_store import MemoryStore


def test_an_interrupted_equal_operation_is_found_without_reading_ended_operations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # Given an operation that has ended, one that has ended and still has its locks, and an interrupted one
    request = make_request(["user:ann"], "east", "west", reason="drill")
    with Environment(MemoryStore(), by="test") as environment:
        store = environment.store
        for n, (state, locked) in enumerate((("succeeded", False), ("undone", True), ("running", True))):
            name = f"switch-20261101-10000{n}-aa"
            operation = SwitchOperation(
                id=name,
                state=state,
                by="t",
                reason="r",
                started=f"2026-11-01T10:00:0{n}Z",
                request=request,
                moves=MoveSet(),
            )
            epoch = store.create_operation(operation, [f"user:{n}"])
            if not locked:
                store.release_locks(name, epoch)
        monkeypatch.setattr(store, "operations", lambda *_: pytest.fail("all operations were read"))
        # When running operations are listed, and the same move is asked for
        found, twin = running_operations(environment), interrupted_twin(environment, request)
    # Then the interrupted one is found, and no ended one was read
    assert [operation.id for operation in found] == ["switch-20261101-100002-aa"]
    assert twin is not None
    assert twin.id == "switch-20261101-100002-aa"
    assert request.scope == Scope(users=("ann",))


@pytest.mark.parametrize(
    ("driver", "mode", "found"), [("command", "planned", True), ("run", "planned", False), ("command", "forced", False)]
)
def test_only_an_abandoned_command_with_an_equal_request_counts_as_interrupted(
    driver: Driver, mode: str, found: bool
) -> None:
    # Given an operation on which nobody has worked for hours: of a command that has died, of a run that waits for an
    # approval, or another one
    request = make_request(["user:ann"], "east", "west", reason="drill")
    begun = request.model_copy(update={"mode": mode, "reason": "another"})
    with Environment(MemoryStore(), by="test", driver=driver) as environment:
        environment.now = lambda: "2026-11-01T10:00:00Z"
        begin(environment, Proposal(request=begun, revision=0, moves=MoveSet()), "switch-1")
        environment.now = lambda: "2026-11-01T16:00:00Z"

        # When the same is asked for
        twin = interrupted_twin(environment, request)

    # Then only the first one is taken for what was interrupted
    assert (twin is not None) == found


def test_a_proposal_that_was_refused_begins_nothing_even_if_it_is_not_judged_again() -> None:
    request = make_request(["user:ann"], "east", "west", reason="drill")
    against = error("unknown-user", "user ann", "Nobody knows user ann.", "Correct the name.")
    with Environment(MemoryStore(), by="test") as environment:
        proposal = Proposal(request=request, revision=0, moves=MoveSet(), verdicts=(against,))

        with pytest.raises(RefusedError, match="Nobody knows user ann"):
            engine.start(environment, proposal, "switch-1", recheck=False)

        assert environment.operation("switch-1") is None


def test_an_operation_held_by_a_live_command_never_counts_as_interrupted() -> None:
    # Given an operation that has written nothing for six hours
    request = make_request(["user:ann"], "east", "west", reason="drill")
    with Environment(MemoryStore(), by="test") as environment:
        environment.now = lambda: "2026-11-01T10:00:00Z"
        begin(environment, Proposal(request=request, revision=0, moves=MoveSet()), "switch-1")
        environment.now = lambda: "2026-11-01T16:00:00Z"
        # When it is held
        with environment.store.hold("switch-1", 0):
            assert interrupted_twin(environment, request) is None
        # Then it counts as alive; and as interrupted, when it is not
        assert interrupted_twin(environment, request) is not None
