"""What an aged migration has left behind is deleted under locks that are given back however that ends."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from ha_core.kafka.errors import StandsInTheWayError
from ha_core.model import Topic
from ha_core.model.extent import identity
from ha_core.operations.environment import Environment
from ha_core.operations.errors import RefusedError
from ha_core.operations.lifecycle.aging import delete_left_behind
from ha_core.store.commits import Change
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
def test_a_deletion_that_is_refused_tells_why_and_gives_its_locks_back(
    environment: Environment, store: MemoryStore, cluster: str, holds_records: bool, error: type[Exception]
) -> None:
    # Given a topic that is in east, as its map says
    topic = Topic(name="orders", writer="east", partitions={0: identity("east")})
    store.commit(Change(change_id="map", puts=(topic,), expected={(Topic, "orders"): None}))

    # When it is to be deleted in a cluster to which the map refers again, or where it holds records
    with pytest.raises(error):
        delete_left_behind(environment, admin_of(cluster, holds_records=holds_records), ["orders"], "test")

    # Then the operation has failed, and no lock is left
    (operation,) = environment.store.operations(10)
    assert operation.state == "failed"
    assert environment.store.locks() == []
