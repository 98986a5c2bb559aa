"""Topics that an aged migration has left are deleted under locks that are released in any case."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ha_core.kafka.errors import ClusterUnreachableError, StandsInTheWayError
from ha_core.model import Topic
from ha_core.model.extent import identity
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.engine.journal import Journal
from ha_core.operations.migration.aging import delete_left_behind
from ha_core.operations.running import engine
from ha_core.store.commits import StateChange
from stack.memory_store import MemoryStore


def admin_of(name: str, *, holds_records: bool = False) -> Any:
    def delete(*_: object, **__: object) -> tuple[str, ...]:
        if holds_records:
            raise StandsInTheWayError(name, "orders holds records")
        return ("orders",)

    return cast(Any, SimpleNamespace(cluster=SimpleNamespace(name=name), delete_drained_topics=delete))


@pytest.mark.parametrize(
    ("cluster", "holds_records", "error"),
    [("east", False, RefusedError), ("west", True, StandsInTheWayError)],
)
def test_a_refused_deletion_gives_its_reason_and_releases_its_locks(
    environment: Environment, store: MemoryStore, cluster: str, holds_records: bool, error: type[Exception]
) -> None:
    # Given a topic that is in east, as its map says
    topic = Topic(name="orders", writer="east", partitions={0: identity("east")})
    store.commit(StateChange(change_id="map", puts=(topic,), expected={(Topic, "orders"): None}))

    # When it is to be deleted in a cluster to which the map refers again, or where it holds records
    with pytest.raises(error):
        delete_left_behind(environment, admin_of(cluster, holds_records=holds_records), ["orders"], "test")

    # Then the operation has failed, and no lock is left
    (operation,) = environment.store.operations(10)
    assert operation.state == "failed"
    assert environment.store.locks() == []


@pytest.mark.parametrize(
    ("left", "result", "words"),
    [
        (("orders",), "failed", "Left are: orders. `switchyard age --delete-origin` again"),
        ((), "succeeded", ""),
        (None, "failed", "not known which of 2 topics"),
    ],
)
def test_a_killed_deletion_names_the_rest_and_the_way_to_finish_it(
    environment: Environment,
    store: MemoryStore,
    monkeypatch: pytest.MonkeyPatch,
    left: tuple[str, ...] | None,
    result: str,
    words: str,
) -> None:
    # Given an executor that dies while it deletes two topics
    def die(*_: object, **__: object) -> None:
        raise SystemExit

    for name in ("orders", "payments"):
        topic = Topic(name=name, writer="east", partitions={0: identity("east")})
        store.commit(StateChange(change_id=name, puts=(topic,), expected={(Topic, name): None}))
    admin = SimpleNamespace(cluster=SimpleNamespace(name="west"), delete_drained_topics=die)
    with monkeypatch.context() as killed:
        killed.setattr(Journal, "finish", lambda *_: None)
        with pytest.raises(SystemExit):
            delete_left_behind(environment, cast(Any, admin), ["orders", "payments"], "test")

    # When another process continues it
    def topics(names: list[str], **_: object) -> dict[str, None]:
        if left is None:
            raise ClusterUnreachableError("west", "h:1", "is away")
        return {name: None for name in left if name in names}

    monkeypatch.setattr(environment, "admin", lambda _cluster: SimpleNamespace(topics=topics))
    (operation,) = environment.store.running()
    report = engine.resume(environment, operation.id)

    # Then it has not succeeded while something is left, and its locks are given back
    assert (report.result, environment.store.locks()) == (result, [])
    assert words in report.error
