"""Orphan recovery: operations without executor that are resumed, when, and those that are left alone."""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest

from ha_core.model import Crossing, Document, Operation, Topic
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.engine.orphan_recovery import OrphanRecovery
from ha_core.operations.engine.report import Report
from ha_core.operations.running import engine
from ha_core.plan.move.identity_maps import pinned_map
from ha_core.plan.move.planner import fence_change
from ha_core.store.commits import StateChange, key_of
from ha_core.store.errors import FencedOffError
from ha_core.store.paths import name_of
from stack.memory_store import MemoryStore
from tests.kit.operations import a_migration, a_switch


@dataclass
class Clock:
    now: float = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(environment: Environment) -> Clock:
    clock = Clock()
    environment.monotonic, environment.sleep = lambda: clock.now, clock.sleep
    return clock


def an_operation(state: str, begin: Callable[..., Operation] = a_switch, **more: Any) -> Any:
    return begin(**{"id": "op-20261121-100000-0001", "state": state, **more})


def put(store: Any, document: Document, operation: Operation | None = None) -> None:
    change = StateChange(change_id=f"put-{name_of(document)}", puts=(document,), expected={key_of(document): None})
    store.commit(change)


def begun(store: Any, operation: Operation) -> str:
    store.create_operation(operation, ["topic:orders"])
    return operation.id


def due_within(caretaking: OrphanRecovery, clock: Clock, seconds: float) -> float | None:
    """After how many seconds the operation is due; None: not within these."""
    begun_at = clock.now
    while clock.now - begun_at <= seconds:
        if caretaking.find():
            return clock.now - begun_at
        clock.sleep(0.4)
    return None


@pytest.mark.parametrize("begin", [a_switch, a_migration])
@pytest.mark.parametrize("state", ["fenced", "undoing", "cut"])
def test_an_operation_abandoned_under_a_fence_is_due_within_a_second(
    environment: Environment, clock: Clock, begin: Callable[..., Operation], state: str
) -> None:
    begun(environment.store, an_operation(state, begin))

    after_s = due_within(OrphanRecovery(environment), clock, 10)

    assert after_s is not None
    assert 0.5 <= after_s < 1.0


def test_a_held_operation_is_left_to_its_executor_until_its_session_ends(
    store: MemoryStore, environment: Environment, clock: Clock
) -> None:
    # Given an executor that works under its fence
    executor = store.client()
    operation_id = begun(executor, an_operation("fenced"))
    caretaking = OrphanRecovery(environment)
    with executor.hold(operation_id, 0):
        # When it is alive
        # Then its operation is never due
        assert due_within(caretaking, clock, 60) is None
        # When it is killed, or stands still for longer than its session
        executor.expire_session()
        # Then it is gone on with at once
        after_s = due_within(caretaking, clock, 10)
        assert after_s is not None
        assert after_s < 1.0


@pytest.mark.parametrize("driver", ["command", "run"])
@pytest.mark.parametrize("state", ["planned", "running"])
def test_an_operation_without_a_fence_is_left_alone_between_tasks_for_any_time(
    environment: Environment, clock: Clock, state: str, driver: str
) -> None:
    begun(environment.store, an_operation(state, driver=driver, evidence={"pinned": ["orders"]}))

    assert due_within(OrphanRecovery(environment), clock, 3600) is None


def test_a_run_whose_cut_is_published_has_a_minute_to_start_its_next_task(
    environment: Environment, clock: Clock
) -> None:
    begun(environment.store, an_operation("cut", driver="run"))

    after_s = due_within(OrphanRecovery(environment), clock, 100)

    assert after_s is not None
    assert after_s > 59


def test_a_crossing_is_due_while_its_cuts_are_only_proposed_and_not_once_it_is_open(
    store: MemoryStore, environment: Environment, clock: Clock
) -> None:
    # Given an operation whose cuts are proposed and not open, and which has no executor
    operation = an_operation("crossing", a_migration)
    crossing = Crossing(operation=operation.id, state="proposed")
    topic = pinned_map("east", "orders", 1).model_copy(update={"crossing": crossing})
    put(store, topic)
    begun(environment.store, operation)
    # When orphan recovery looks at it
    caretaking = OrphanRecovery(environment)
    # Then it is due
    assert due_within(caretaking, clock, 10) is not None
    # When it is open
    opened = topic.model_copy(update={"crossing": crossing.model_copy(update={"state": "open"})})
    found = store.read(Topic, "orders")
    # Then it is not
    assert found is not None
    store.take_over(operation.id)
    store.commit(StateChange(change_id="open", puts=(opened,), expected={(Topic, "orders"): found[1]}))
    assert due_within(caretaking, clock, 600) is None


def test_taking_care_lifts_an_abandoned_fence_and_its_old_executor_can_no_longer_write(
    store: MemoryStore, environment: Environment, clock: Clock
) -> None:
    # Given a command that was stopped under its fence
    executor = store.client()
    operation = an_operation("running")
    begun(executor, operation)
    view = executor.load()
    documents = fence_change(operation, view)
    found = executor.read(Operation, operation.id)
    assert found is not None
    expected: dict[Any, int | None] = {(Topic, "orders"): None, (Operation, operation.id): found[1]}
    executor.commit(
        StateChange(change_id="fence", puts=documents.puts, expected=expected, operation=operation.id, epoch=0)
    )
    # When another one begins something
    engine.recover_one(environment)
    # Then nothing of it is left
    ended = environment.operation(operation.id)
    assert ended is not None
    assert ended.state == "undone"
    assert "orders" not in store.load().topics
    assert store.locks() == []
    # And what the first one still wants to write is refused
    with pytest.raises(FencedOffError):
        executor.update_operation(operation, 0)


def test_taking_care_does_not_wait_when_no_operation_is_due(environment: Environment, clock: Clock) -> None:
    begun(environment.store, an_operation("running"))

    engine.recover_one(environment)

    assert clock.now == 0


def test_an_operation_that_cannot_be_ended_is_retried_with_growing_pauses(
    environment: Environment, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Given an abandoned operation
    operation_id = begun(environment.store, an_operation("fenced"))
    caretaking = OrphanRecovery(environment)
    at: list[float] = []

    def refuse(_environment: Environment, _operation_id: str) -> Report:
        at.append(clock.now)
        raise RefusedError("no")

    monkeypatch.setattr(engine, "resume", refuse)
    # When every attempt to end it fails
    while clock.now < 600:
        for name in caretaking.find():
            assert engine.resume_orphan(caretaking, name) == "cannot be ended: no"
        clock.sleep(0.4)
    # Then pauses grow up to a minute
    pauses = [round(after - before, 1) for before, after in pairwise(at)]
    assert pauses == sorted(pauses)
    assert 55 < pauses[-1] < 62
    assert len(at) < 20
    assert operation_id == an_operation("fenced").id
