"""A cluster that is registered on the platform comes into force, if it is what it is said to be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ha_core.operations import publishing_clusters
from ha_core.operations.environment import Environment
from ha_core.operations.publishing_clusters import ClusterPublisher, PublishingClusters
from ha_core.operations.registry import add_cluster
from ha_core.registry.changing import put
from ha_core.registry.kinds.clusters import RegisteredCluster
from ha_core.registry.registry import Registry
from stack.harness import Stack
from stack.memory_store import MemoryStore
from tests.kit.platform import soon
from tests.kit.running import bootstrap

pytestmark = pytest.mark.stack
NOWHERE = "127.0.0.1:1"


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[Registry]:
    with Registry.open(f"sqlite:///{tmp_path}/platform.db") as opened:
        yield opened


@pytest.fixture
def opens() -> Callable[[], Environment]:
    """Environments on one state, without any cluster."""
    store = MemoryStore()
    return lambda: Environment(store=store.client(), by="test:platform", session_timeout_s=0.5)


@pytest.fixture
def environment(opens: Callable[[], Environment]) -> Iterator[Environment]:
    with opens() as opened:
        yield opened


@pytest.fixture
def publisher(registry: Registry) -> ClusterPublisher:
    return ClusterPublisher(registry.source("clusters"))


def register(registry: Registry, name: str, address: str, **more: str) -> None:
    found = registry.read.find("clusters", name)
    entry = RegisteredCluster(name=name, bootstrap=address, **more)
    registry.apply([put(entry, None if found is None else found.version)], "somebody", "test")


def in_force(environment: Environment) -> dict[str, tuple[str, str | None]]:
    return {name: (one.bootstrap, one.zone) for name, one in environment.store.clusters().items()}


def test_a_cluster_of_the_platform_is_registered_while_it_is_served_and_follows_its_changes(
    registry: Registry, environment: Environment, opens: Callable[[], Environment], stack: Stack
) -> None:
    east, said = bootstrap(stack, "east"), list[str]()
    publishing = PublishingClusters(registry.source("clusters"), opens, said.append, look_s=0.1)
    registry.tell_of_changes(publishing.now)
    publishing.start()
    try:
        register(registry, "east", east)
        soon(lambda: in_force(environment) == {"east": (east, None)}, "it is registered")
        register(registry, "east", east, zone="hall-1")
        soon(lambda: in_force(environment) == {"east": (east, "hall-1")}, "its zone is")
    finally:
        publishing.close()
    assert said == []
    assert [operation.kind for operation in environment.store.operations(10)] == ["add-cluster"] * 2


def test_one_that_does_not_answer_or_is_another_cluster_does_not_come_into_force(
    registry: Registry, environment: Environment, publisher: ClusterPublisher, stack: Stack
) -> None:
    # Given east, as an operator has registered it
    east, west = bootstrap(stack, "east"), bootstrap(stack, "west")
    add_cluster(environment, "east", east)
    before = environment.store.load()
    # When the platform has one that is away, another name for east, and the address of west for east
    register(registry, "lost", NOWHERE)
    register(registry, "twin", east)
    register(registry, "east", west)
    # Then nothing of it is in force, and it is said why
    assert publisher.look(environment) == []
    assert environment.store.load() == before
    assert "the platform's entry for cluster lost is not in force" in publisher.problems["lost"]
    assert "is the cluster east" in publisher.problems["twin"]
    assert f"{west} is another cluster" in publisher.problems["east"]
    # And when the platform takes them back, nothing is left of that
    register(registry, "east", east)
    registry.delete("clusters", "lost", 1, "somebody", "test")
    registry.delete("clusters", "twin", 1, "somebody", "test")
    assert publisher.look(environment) == ["east"]
    assert publisher.problems == {}


def test_a_change_comes_into_force_once_and_what_an_operator_says_later_stays_until_there_is_a_newer_one(
    registry: Registry, environment: Environment, publisher: ClusterPublisher, stack: Stack
) -> None:
    # Given a cluster of the platform that an operator has changed since
    east = bootstrap(stack, "east")
    register(registry, "east", east, zone="hall-1")
    assert publisher.look(environment) == ["east"]
    add_cluster(environment, "east", east, zone="hall-2")
    # When the service looks again, or another one does
    another = ClusterPublisher(registry.source("clusters"))
    # Then the operator's word stands
    assert publisher.look(environment) + another.look(environment) == []
    assert in_force(environment) == {"east": (east, "hall-2")}
    # And a newer one of the platform comes into force
    register(registry, "east", east, zone="hall-3")
    assert another.look(environment) == ["east"]
    assert in_force(environment) == {"east": (east, "hall-3")}
    # And one that is deleted there stays registered, and is named
    registry.delete("clusters", "east", 2, "somebody", "test")
    register(registry, "other", NOWHERE)
    assert publisher.look(environment) == []
    assert "`switchyard clusters remove east`" in publisher.problems["east"]
    assert in_force(environment) == {"east": (east, "hall-3")}


def test_one_that_did_not_answer_is_tried_again_later(
    registry: Registry,
    environment: Environment,
    publisher: ClusterPublisher,
    stack: Stack,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(publishing_clusters, "AGAIN_S", 0.0)
    register(registry, "east", NOWHERE)
    assert publisher.look(environment) == []
    register(registry, "east", bootstrap(stack, "east"))
    assert publisher.look(environment) == ["east"]
