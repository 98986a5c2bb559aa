from collections.abc import Iterator

import pytest

from ha_core.model import Cluster
from ha_core.operations.engine.environment import Environment
from ha_core.store.commits import StateChange
from stack.memory_store import MemoryStore
from tests.kit.stacks import own_stack

CLUSTERS = (
    Cluster(name="east", bootstrap="127.0.0.1:1", default=True),
    Cluster(name="west", bootstrap="127.0.0.1:1"),
)


@pytest.fixture
def store() -> MemoryStore:
    """Two registered clusters without brokers at their addresses."""
    store = MemoryStore()
    store.commit(
        StateChange(change_id="seed", puts=CLUSTERS, expected={(Cluster, cluster.name): None for cluster in CLUSTERS})
    )
    return store


@pytest.fixture
def environment(store: MemoryStore) -> Iterator[Environment]:
    with Environment(store=store.client(), by="test:operator", session_timeout_s=0.5) as opened:
        yield opened


stack = own_stack(scope="package", gateways=0)
"""Two clusters of different major versions, no gateways. Tests leave all parts of it alive."""
