"""Guards left by mirrors in clusters without any: when they are found and removed. Without clusters."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import Cluster, Document, Mirror
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.single import begin_single
from ha_core.plan.mirror.copy_guard import guard, guards
from ha_core.store.commits import StateChange, key_of
from ha_core.store.paths import path_of
from ha_core.store.tree import Put
from spark_jobs.mirror.syncing import SWEPT_AGAIN_S, SWEPT_EVERY_S, Sweeping
from stack.memory_store import MemoryStore
from tests.kit.access_rules import Rules

MIRROR = Mirror.of("orders", "east", "west", "link", "2026-01-01T00:00:00Z", "test")
KEY: tuple[type[Document], str] = (Mirror, MIRROR.key)


class Scene:
    """A driver's sweeps over two clusters, at chosen times."""

    def __init__(self, store: MemoryStore) -> None:
        self.store, self.admins = store, {name: Rules(name) for name in ("east", "west")}
        clusters = [Cluster(name=name, bootstrap="127.0.0.1:1") for name in self.admins]
        store.commit(
            StateChange(
                change_id="seed", puts=tuple(clusters), expected={key_of(cluster): None for cluster in clusters}
            )
        )
        self.west = self.admins["west"]
        opens: Callable[[str], object] = self.admins.__getitem__
        self._sweeping = Sweeping(store.client(), opens)  # type: ignore[arg-type]

    def look(self, now_s: float, *mirrored: str) -> None:
        with ThreadPoolExecutor(4) as pool:
            self._sweeping.look(pool, mirrored, now_s)
        wait([*self._sweeping._busy.values()])
        with ThreadPoolExecutor(4) as pool:
            self._sweeping.look(pool, mirrored, now_s)


@pytest.fixture
def scene() -> Scene:
    return Scene(MemoryStore())


def test_guard_is_removed_at_once_after_the_last_pair_has_ended(scene: Scene) -> None:
    # Given a cluster with mirrors, which their pair checks, and not this
    scene.west.there = {*guards(["orders"])}
    scene.look(0.0, "east", "west")
    assert scene.west.looks == 0
    # When the last of them has ended, and its operation died before it removed the guard
    scene.look(1.0)
    # Then the guard is removed, and from then on checked rarely
    assert scene.west.there == set()
    scene.look(1.0 + SWEPT_AGAIN_S)
    looks = scene.west.looks
    scene.look(2.0 + 2 * SWEPT_AGAIN_S)
    assert scene.west.looks == looks
    scene.look(2.0 + 2 * SWEPT_AGAIN_S + SWEPT_EVERY_S)
    assert scene.west.looks == looks + 1


def test_guard_of_a_mirror_that_ended_without_a_driver_is_found_by_the_next_one(scene: Scene) -> None:
    # Given an incomplete guard, and one against a user by name
    scene.west.there = {guard("orders").marker, *guard("bills", "User:ann")}
    scene.look(0.0)
    assert scene.west.there == set()


def test_a_cluster_that_does_not_answer_is_asked_again_each_minute(scene: Scene) -> None:
    scene.west.there = {*guards(["orders"])}
    scene.west.refusal = KafkaAdminError("west", "not now.")
    scene.look(0.0)
    scene.west.refusal = None
    scene.look(SWEPT_AGAIN_S / 2)
    assert scene.west.there == {*guards(["orders"])}
    scene.look(SWEPT_AGAIN_S)
    assert scene.west.there == set()


def test_guard_is_left_while_an_operation_works_on_it(scene: Scene) -> None:
    # Given an operation that has ended a mirror, but not removed its guard yet
    scene.west.there = {*guards(["orders"])}
    with Environment(store=scene.store.client(), by="test", session_timeout_s=0.5) as environment:
        journal = begin_single(environment, "unlink", "not needed", ["topic:orders"])
        scene.look(0.0)
        assert scene.west.there == {*guards(["orders"])}
        # When the operation was given up without that
        journal.finish("undone", "nothing was changed")
    scene.look(SWEPT_AGAIN_S)
    assert scene.west.there == set()


def test_the_guard_of_a_mirror_that_cannot_be_read_stays(scene: Scene) -> None:
    # Given a mirror of a later version, which is in no view and in no pair
    scene.store.commit(StateChange(change_id="link", puts=(MIRROR,), expected={KEY: None}))
    tree = scene.store.client().tree
    path = path_of(Mirror, MIRROR.key)
    node = tree.get(path)
    assert node is not None
    tree.write([Put(path, b"{}", node.version)])
    scene.west.there = {*guards(["orders"])}
    scene.look(0.0)
    assert scene.west.there == {*guards(["orders"])}
