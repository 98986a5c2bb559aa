"""A cluster on the platform comes into force if it answers and is the cluster that it claims to be."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ha_core.operations.access import publishing
from ha_core.operations.access.publishing import ClusterPublisher, PublishingClusters
from ha_core.operations.clusters.registered import add_cluster
from ha_core.operations.engine.environment import Environment
from ha_core.platform.changing import put
from ha_core.platform.kinds.clusters import RegisteredCluster
from ha_core.platform.platform import Platform
from stack.harness import Stack
from stack.memory_store import MemoryStore
from tests.kit.platform import soon
from tests.kit.running import bootstrap

pytestmark = pytest.mark.stack
NOWHERE = "127.0.0.1:1"


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Platform]:
    with Platform.open(f"sqlite:///{tmp_path}/platform.db") as opened:
        yield opened


@pytest.fixture
def opens() -> Callable[[], Environment]:
    """Opens environments that share one state, which has no clusters."""
    store = MemoryStore()
    return lambda: Environment(store=store.client(), by="test:platform", session_timeout_s=0.5)


@pytest.fixture
def environment(opens: Callable[[], Environment]) -> Iterator[Environment]:
    with opens() as opened:
        yield opened


@pytest.fixture
def publisher(registry: Platform) -> ClusterPublisher:
    return ClusterPublisher(registry.source("clusters"))


def register(registry: Platform, name: str, address: str, **more: str) -> None:
    stored_entry = registry.read.find("clusters", name)
    entry = RegisteredCluster(name=name, bootstrap=address, **more)
    registry.apply([put(entry, None if stored_entry is None else stored_entry.version)], "somebody", "test")


def in_force(environment: Environment) -> dict[str, tuple[str, str | None]]:
    return {name: (cluster.bootstrap, cluster.zone) for name, cluster in environment.store.clusters().items()}


def test_a_cluster_of_the_platform_is_registered_while_it_is_served_and_follows_its_changes(
    registry: Platform, environment: Environment, opens: Callable[[], Environment], stack: Stack
) -> None:
    east, said = bootstrap(stack, "east"), list[str]()
    publishing = PublishingClusters(registry.source("clusters"), opens, said.append, look_s=0.1)
    registry.on_change(publishing.now)
    publishing.start()
    try:
        register(registry, "east", east)
        soon(lambda: in_force(environment) == {"east": (east, None)}, "the cluster is registered")
        register(registry, "east", east, zone="hall-1")
        soon(lambda: in_force(environment) == {"east": (east, "hall-1")}, "its zone is registered")
    finally:
        publishing.close()
    assert said == []
    assert [operation.kind for operation in environment.store.operations(10)] == ["add-cluster"] * 2


def test_a_cluster_that_does_not_answer_or_is_another_one_does_not_come_into_force(
    registry: Platform, environment: Environment, publisher: ClusterPublisher, stack: Stack
) -> None:
    # Given east, as an operator has registered it
    east, west = bootstrap(stack, "east"), bootstrap(stack, "west")
    add_cluster(environment, "east", east)
    before = environment.store.load()
    # When the platform registers an unreachable cluster, a second name for east, and west's address as east's
    register(registry, "lost", NOWHERE)
    register(registry, "twin", east)
    register(registry, "east", west)
    # Then none of these is in force, and `problems` says why
    assert publisher.look(environment) == []
    assert environment.store.load() == before
    assert "the platform's entry for cluster lost is not in force" in publisher.problems["lost"]
    assert "is the cluster east" in publisher.problems["twin"]
    assert f"{west} is another cluster" in publisher.problems["east"]
    # And when the platform takes them back, no problem remains
    register(registry, "east", east)
    registry.delete("clusters", "lost", 1, "somebody", "test")
    registry.delete("clusters", "twin", 1, "somebody", "test")
    assert publisher.look(environment) == ["east"]
    assert publisher.problems == {}


def test_an_operators_later_change_stays_until_the_platform_has_a_newer_one(
    registry: Platform, environment: Environment, publisher: ClusterPublisher, stack: Stack
) -> None:
    # Given a cluster of the platform that an operator has changed since
    east = bootstrap(stack, "east")
    register(registry, "east", east, zone="hall-1")
    assert publisher.look(environment) == ["east"]
    add_cluster(environment, "east", east, zone="hall-2")
    # When the service looks again, or another one does
    another = ClusterPublisher(registry.source("clusters"))
    # Then the operator's change stays
    assert publisher.look(environment) + another.look(environment) == []
    assert in_force(environment) == {"east": (east, "hall-2")}
    # And a newer change on the platform comes into force
    register(registry, "east", east, zone="hall-3")
    assert another.look(environment) == ["east"]
    assert in_force(environment) == {"east": (east, "hall-3")}
    # And a cluster that is deleted on the platform stays registered, and `problems` names it
    registry.delete("clusters", "east", 2, "somebody", "test")
    register(registry, "other", NOWHERE)
    assert publisher.look(environment) == []
    assert "`switchyard clusters remove east`" in publisher.problems["east"]
    assert in_force(environment) == {"east": (east, "hall-3")}


def test_a_cluster_that_did_not_answer_is_tried_again_later(
    registry: Platform,
    environment: Environment,
    publisher: ClusterPublisher,
    stack: Stack,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(publishing, "AGAIN_S", 0.0)
    register(registry, "east", NOWHERE)
    assert publisher.look(environment) == []
    register(registry, "east", bootstrap(stack, "east"))
    assert publisher.look(environment) == ["east"]
