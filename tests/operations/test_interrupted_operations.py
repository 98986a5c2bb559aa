"""Running operations are found by their locks, however many operations there ever were."""

from typing import Any

import pytest

from ha_core.model import MoveRequest, MoveSet, Operation, Scope
from ha_core.model.operation import Driver, OperationState
from ha_core.operations.clusters.registered import running_operations
from ha_core.operations.engine.creating import create_operation
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError, StepFailedError, unchanged
from ha_core.operations.engine.journal import Journal
from ha_core.operations.engine.report import Report, report_of
from ha_core.operations.migration.planning import MigrationBatch, scoped
from ha_core.operations.overview.health import problems
from ha_core.operations.proposal.proposal import Proposal
from ha_core.operations.proposal.requests import make_request
from ha_core.operations.running import engine
from ha_core.operations.running.engine import interrupted_twins
from ha_core.plan.facts.verdict import error
from stack.memory_store import MemoryStore
from tests.kit.operations import a_switch


def interrupted(environment: Environment, proposal: Proposal | MigrationBatch, name: str = "switch-1") -> Operation:
    """An operation whose executor has done nothing for six hours."""
    environment.now = lambda: "2026-11-01T10:00:00Z"
    operation = create_operation(environment, proposal, name)
    environment.now = lambda: "2026-11-01T16:00:00Z"
    return operation


def a_proposal(request: MoveRequest, *topics: str) -> Proposal:
    return Proposal(request=request, revision=0, moves=MoveSet(topics=topics))


def test_an_interrupted_equal_operation_is_found_without_reading_ended_operations(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an operation that has ended, one that has ended and still has its locks, and an interrupted one
    request = make_request(["user:ann"], "east", "west", reason="drill")
    store = environment.store
    states: list[tuple[OperationState, bool]] = [("succeeded", False), ("undone", True), ("running", True)]
    for n, (state, locked) in enumerate(states):
        name = f"switch-20261101-10000{n}-aa"
        operation = a_switch(id=name, state=state, started=f"2026-11-01T10:00:0{n}Z", request=request, moves=MoveSet())
        epoch = store.create_operation(operation, [f"user:{n}"])
        if not locked:
            store.release_locks(name, epoch, "2026-11-01T11:00:00Z")
    monkeypatch.setattr(store, "operations", lambda *_: pytest.fail("all operations were read"))
    # When running operations are listed, and the same move is asked for
    operations, twins = running_operations(environment), interrupted_twins(environment, request)
    # Then the interrupted one is found, and no ended one was read
    assert [operation.id for operation in operations] == ["switch-20261101-100002-aa"]
    assert [twin.id for twin in twins] == ["switch-20261101-100002-aa"]
    assert request.scope == Scope(users=("ann",))


@pytest.mark.parametrize(
    ("driver", "mode", "found"), [("command", "planned", True), ("run", "planned", False), ("command", "forced", False)]
)
def test_only_an_abandoned_command_with_an_equal_request_counts_as_interrupted(
    driver: Driver, mode: str, found: bool
) -> None:
    # Given an operation without work for hours: of a command that has died, of a run that waits for an approval, or
    # another one
    request = make_request(["user:ann"], "east", "west", reason="drill")
    begun = request.model_copy(update={"mode": mode, "reason": "another", "refuse_lag_records": 5})
    with Environment(MemoryStore(), by="test", driver=driver) as environment:
        interrupted(environment, a_proposal(begun))

        # When the same is asked for
        twins = interrupted_twins(environment, request)

    # Then only the first one is taken for what was interrupted
    assert [twin.id for twin in twins] == (["switch-1"] if found else [])


MIGRATION = make_request(
    ["topic:orders:0,2", "topic:payments", "topic:users"],
    "east",
    "west",
    reason="drill",
    cut="predicted",
    include_other_users=True,
)


@pytest.mark.parametrize(
    ("topics", "words", "found"),
    [
        (("orders", "users"), {}, True),
        (("payments",), {"cut": "barrier"}, True),  # it takes a fence after all
        (("payments",), {"groups": "move"}, False),
        (("payments", "others"), {}, False),
        (("payments",), {"target": "north"}, False),
        (("payments",), {"cut_at": {"payments": {0: 7}}}, False),  # chosen by hand, and not asked for again
    ],
)
def test_batches_of_a_migration_whose_command_has_died_are_found_when_it_is_asked_for_again(
    environment: Environment, topics: tuple[str, ...], words: dict[str, Any], found: bool
) -> None:
    # Given a batch that was begun hours ago
    partitions, cuts = {"orders": (0, 2)} if "orders" in topics else {}, words.pop("cut_at", {})
    request = scoped(MIGRATION, topics=topics, partitions=partitions).model_copy(update=words)
    batch = MigrationBatch(number=2, request=request, moves=MoveSet(topics=topics), cut_at=cuts)
    interrupted(environment, batch, "batch-2")

    # When a migration is asked for
    twins = interrupted_twins(environment, MIGRATION.model_copy(update={"reason": "once more"}))

    # Then the batch is taken for interrupted if it is one of this migration
    assert [twin.id for twin in twins] == (["batch-2"] if found else [])


def test_interrupted_operations_are_continued_and_the_rest_stays_in_the_scope(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted_batches(environment, "payments", "users")
    results: dict[str, Any] = {"migrate-payments": "crossing", "migrate-users": "undone"}
    monkeypatch.setattr(engine, "resume", lambda _, name: Report(name, results[name], 0))

    continued = engine.continue_twins(environment, MIGRATION)

    assert [report.operation for report in continued.reports] == ["migrate-payments"]
    assert [*continued.left] == ["topic:orders:0,2", "topic:users"]


@pytest.mark.parametrize(
    ("begun", "asked"),
    [
        ({"cut": "predicted"}, {"cut": "barrier"}),
        ({"scope": Scope(topics=("payments",), user_groups=(("ann", "readers"),))}, {"groups": "leave"}),
    ],
    ids=["a fence in place of a predicted cut", "groups that are to stay"],
)
def test_an_operation_of_a_different_request_is_not_continued(
    environment: Environment, begun: dict[str, Any], asked: dict[str, Any]
) -> None:
    request = scoped(MIGRATION, topics=("payments",), partitions={})
    batch = MigrationBatch(number=1, request=request.model_copy(update=begun), moves=MoveSet(topics=("payments",)))
    interrupted(environment, batch, "batch-1")

    assert interrupted_twins(environment, request.model_copy(update=asked)) == []


@pytest.mark.parametrize(
    ("begun", "asked", "found"),
    [("none", "sample", False), ("sample", "full", False), ("sample", "sample", True), ("full", "none", True)],
)
def test_a_switch_that_compares_less_of_its_copies_than_is_asked_for_now_is_not_continued_before_its_cut(
    environment: Environment, begun: str, asked: str, found: bool
) -> None:
    before, now = (
        make_request(["topic:orders"], "east", "west", reason="drill", include_other_users=True, verify=verify)
        for verify in (begun, asked)
    )
    operation = interrupted(environment, a_proposal(before, "orders"))

    assert bool(interrupted_twins(environment, now)) == found

    Journal(environment, operation, environment.store.take_over(operation.id)).update(state="cut")
    assert [twin.id for twin in interrupted_twins(environment, now)] == ["switch-1"]


def interrupted_batches(environment: Environment, *topics: str) -> None:
    for name in topics:
        request = scoped(MIGRATION, topics=(name,), partitions={})
        batch = MigrationBatch(number=1, request=request, moves=MoveSet(topics=(name,)))
        interrupted(environment, batch, f"migrate-{name}")


def test_an_open_crossing_counts_as_moved_after_another_was_continued(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted_batches(environment, "payments", "users")
    crossing = environment.operation("migrate-payments")
    assert crossing is not None
    environment.store.update_operation(crossing.model_copy(update={"state": "crossing"}), 0)
    monkeypatch.setattr(engine, "resume", lambda _, name: Report(name, "crossing", 0))

    continued = engine.continue_twins(environment, MIGRATION)

    assert [report.operation for report in continued.reports] == ["migrate-users"]
    assert [*continued.left] == ["topic:orders:0,2"]


def test_a_refusal_after_a_continued_operation_names_that_operation(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given two interrupted batches, of which another process continues the second by now
    def resume(_: Environment, name: str) -> Report:
        if name == "migrate-users":
            raise unchanged("Somebody works on it.")
        return Report(name, "succeeded", 7)

    interrupted_batches(environment, "payments", "users")
    monkeypatch.setattr(engine, "resume", resume)

    # When both are continued
    with pytest.raises(StepFailedError) as raised:
        engine.continue_twins(environment, MIGRATION)

    # Then the text does not claim that nothing was changed
    assert str(raised.value) == "Somebody works on it. Continued before: operations migrate-payments."


def test_a_continued_move_reports_its_first_failure() -> None:
    wrong = Report("switch-1", "succeeded", 7, error="its groups did not follow")
    continued = engine.Continued({}, [wrong, Report("switch-2", "succeeded", 8)])
    assert continued.whole == wrong
    assert engine.Continued({"topic:users": None}, [wrong]).whole is None
    assert engine.Continued({}).whole is None


def test_a_refusal_after_an_ended_crossing_becomes_a_failed_step(
    environment: Environment, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given a forced move of a topic that crosses over, and a user whom another operation has locked
    request = make_request(["topic:orders"], "east", "west", reason="drill", mode="forced", unread="skip")
    other = Proposal(request=request, revision=0, moves=MoveSet(topics=("orders",)))
    proposal = other.model_copy(update={"crossings": {"orders": "migrate-1"}})
    create_operation(environment, other, "switch-1")
    ended: list[str] = []

    def end(_: Environment, name: str, **_options: object) -> Report:
        ended.append(name)
        return Report(name, "succeeded", 7)

    monkeypatch.setattr(engine, "resume", end)

    # When it is started
    with pytest.raises(StepFailedError, match="is locked by operation switch-1") as raised:
        engine.start(environment, proposal, "switch-2", recheck=False)

    # Then the continued operations are named, and the text does not claim that nothing was changed
    assert ended == ["migrate-1"]
    assert "migrate-1" in str(raised.value)
    assert "Nothing was changed" not in str(raised.value)


def test_an_operation_without_executor_is_reported_as_interrupted(environment: Environment) -> None:
    request = make_request(["user:ann"], "east", "west", reason="drill")
    operation = interrupted(environment, a_proposal(request))
    found = problems(environment, environment.store.load(), (), (), (operation,))

    assert report_of(environment, operation).result == "interrupted"
    assert [problem.text for problem in found if problem.about == "operation switch-1"] == [
        "It was interrupted: no executor works on it, its last step was 6 h ago; it is planned."
    ]


def test_a_proposal_that_was_refused_begins_nothing_even_if_it_is_not_judged_again(environment: Environment) -> None:
    request = make_request(["user:ann"], "east", "west", reason="drill")
    against = error("unknown-user", "user ann", "Nobody knows user ann.", "Correct the name.")
    proposal = Proposal(request=request, revision=0, moves=MoveSet(), verdicts=(against,))

    with pytest.raises(RefusedError, match="Nobody knows user ann"):
        engine.start(environment, proposal, "switch-1", recheck=False)

    assert environment.operation("switch-1") is None


def test_an_operation_held_by_a_live_command_never_counts_as_interrupted(environment: Environment) -> None:
    # Given an operation that has written nothing for six hours
    request = make_request(["user:ann"], "east", "west", reason="drill")
    interrupted(environment, a_proposal(request))
    # When it is held
    with environment.store.hold("switch-1", 0):
        assert interrupted_twins(environment, request) == []
    # Then it counts as alive; and as interrupted, when it is not
    assert [twin.id for twin in interrupted_twins(environment, request)] == ["switch-1"]
