"""The numbers of the state that a gateway's metrics show."""

from typing import Any

from ha_core.model import Extent, Topic, WaitingApproval
from ha_core.operations.engine.environment import Environment
from ha_core.operations.overview.measures import measure, measure_always
from ha_core.store.commits import StateChange
from ha_core.store.errors import StoreUnavailableError
from stack.memory_store import MemoryStore


def test_problems_are_counted_by_their_codes(environment: Environment) -> None:
    found = measure(environment)

    assert found.problems["cluster-away"] == 2
    assert found.problems["no-gateway"] == 1


def test_topics_are_counted_by_the_status_of_their_last_migration(store: MemoryStore, environment: Environment) -> None:
    here = Extent(cluster="west", start=40, base=0, writer_epoch=1)
    old = Extent(cluster="east", start=0, end=40, base=0, writer_epoch=0)
    topics = [Topic(name="orders", writer="west", partitions={0: (old, here)})]
    topics += [Topic(name=name, writer="west", partitions={0: (here,)}) for name in ("a", "b")]
    store.commit(
        StateChange(change_id="m", puts=tuple(topics), expected={(Topic, topic.name): None for topic in topics})
    )

    assert measure(environment).migrations == {"Migrated": 1, "Aged": 2}


def test_an_approval_counts_until_airflow_rejects_it(environment: Environment) -> None:
    for run, since, answer_by in (("one", "2026-08-01T10:00:00Z", "2026-08-02T10:00:00Z"),):
        environment.store.await_approval(
            WaitingApproval(run=run, by="ann", reason="", since=since, answer_by=answer_by)
        )

    environment.now = lambda: "2026-08-01T10:05:00.000Z"
    waits = measure(environment)
    environment.now = lambda: "2026-08-02T10:05:00.000Z"
    rejected = measure(environment)

    assert (waits.approvals, waits.approvals_oldest_s) == (1, 300.0)
    assert (rejected.approvals, rejected.approvals_oldest_s) == (0, None)


def test_a_look_that_fails_is_told_and_the_next_one_is_made(environment: Environment, monkeypatch: Any) -> None:
    told: list[bool] = []
    slept: list[float] = []
    due: list[float] = []
    clock_s = 0.0
    environment.sleep = slept.append
    whole = environment.store.load
    answers = [StoreUnavailableError("away"), None]

    def load(**options: Any) -> Any:
        nonlocal clock_s
        if answers and (error := answers.pop(0)) is not None:
            clock_s += 5.0  # so long was ZooKeeper waited for
            raise error
        return whole(**options)

    monkeypatch.setattr(environment.store, "load", load)

    def tell(state: dict[str, Any] | None, again_s: float) -> bool:
        told.append(state is not None)
        due.append(again_s)
        return len(told) < 2

    environment.monotonic = lambda: clock_s
    measure_always(environment, tell)

    assert told == [False, True]
    assert slept == [15.0]  # not ten times as long as it has waited
    assert due == [20.0, 15.0]
