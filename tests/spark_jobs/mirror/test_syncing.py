"""Syncing everything but records beside the driver's loop: when each pair is synced, and the stored results."""

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import Cluster, Mirror, SyncFinding
from ha_core.operations.copies.syncing.pair import Synced
from ha_core.store.store import Store
from spark_jobs.mirror import syncing as module
from spark_jobs.mirror.syncing import Syncing
from stack.memory_store import MemoryStore
from tests.kit.waiting import until

EVEN = {("east", "orders"): 2, ("west", "orders"): 2}
GROWN = EVEN | {("east", "orders"): 3}


def mirror(topic: str = "orders", target: str = "west") -> Mirror:
    return Mirror.of(topic, "east", target, "link", "2026-01-01T00:00:00Z", "test")


class Passes:
    """In place of real passes: records their times, and has scripted results.

    :ivar hang: pairs whose passes block until they are released.
    """

    def __init__(self) -> None:
        self.made: list[tuple[str, str, float]] = []
        self.findings: tuple[SyncFinding, ...] = ()
        self.hang: set[str] = set()
        self.released = threading.Event()

    def __call__(
        self, _store: Store, clusters: tuple[Admin, Admin], part: Any, at: str, *_: object, **__: object
    ) -> Synced:
        source, target = (admin.cluster.name for admin in clusters)
        self.made.append((target, part, time.monotonic()))
        if target in self.hang:
            self.released.wait(10)
        return Synced(source, target, part, at, 1, findings=self.findings)

    def count(self, target: str, part: str) -> int:
        return sum((target, part) == one[:2] for one in self.made)


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Passes]:
    made = Passes()
    monkeypatch.setattr(module, "sync", made)
    monkeypatch.setattr(module, "_LOOK_S", 0.01)
    monkeypatch.setattr(module, "HURRY_S", 0.05)
    yield made
    made.released.set()


def opens(cluster: str) -> Admin:
    return Admin(Cluster(name=cluster, bootstrap="127.0.0.1:1"))


def test_groups_are_synced_periodically_and_topics_when_they_have_grown(passes: Passes) -> None:
    with Syncing(MemoryStore().client(), opens, every_s=0.05) as syncing:
        syncing.follow([mirror()], EVEN)
        until(lambda: passes.count("west", "groups") >= 4)
        assert passes.count("west", "topics") == 1
        # When the source has more partitions than the target
        syncing.follow([mirror()], GROWN)
        until(lambda: passes.count("west", "topics") == 2)
        # Then a topic that cannot grow is not retried all the time
        before = passes.count("west", "groups")
        until(lambda: passes.count("west", "groups") >= before + 4)
        assert passes.count("west", "topics") == 2


def test_hanging_pair_delays_neither_the_driver_nor_another_pair(passes: Passes) -> None:
    passes.hang.add("west")
    with Syncing(MemoryStore().client(), opens, every_s=0.05) as syncing:
        syncing.follow([mirror(), mirror(target="north")], EVEN)
        until(lambda: passes.count("north", "groups") >= 3)
        assert len([one for one in passes.made if one[0] == "west"]) == 1
        begun = time.monotonic()
        syncing.follow([mirror()], EVEN)
        assert time.monotonic() - begun < 1
        passes.released.set()


def test_nothing_is_synced_without_mirrors_or_without_the_lead(passes: Passes) -> None:
    with Syncing(MemoryStore().client(), opens, every_s=0.02) as syncing:
        syncing.follow([mirror()], EVEN)
        until(lambda: passes.count("west", "groups") >= 2)
        syncing.follow((), {})
        time.sleep(0.1)
        before = len(passes.made)
        time.sleep(0.2)
        assert len(passes.made) == before


def test_result_is_stored_and_written_again_only_when_it_changes(passes: Passes) -> None:
    memory = MemoryStore()
    store = memory.client()
    with Syncing(store, opens, every_s=0.02) as syncing:
        syncing.follow([mirror()], EVEN)
        until(lambda: len(store.mirror_syncs()) == 2)
        first = {mirror_sync.key: mirror_sync.at for mirror_sync in store.mirror_syncs()}
        until(lambda: passes.count("west", "groups") >= 5)
        assert {mirror_sync.key: mirror_sync.at for mirror_sync in store.mirror_syncs()} == first
        # When the result changes
        passes.findings = (SyncFinding(what="offsets", about="group billing", reason="it has members in west"),)
        until(lambda: any(mirror_sync.findings for mirror_sync in store.mirror_syncs()))
        (sync,) = [mirror_sync for mirror_sync in store.mirror_syncs() if mirror_sync.findings]
        assert (sync.key, sync.part) == ("east>west:groups", "groups")


def test_a_cluster_that_cannot_be_opened_is_tried_again(passes: Passes) -> None:
    away = True

    def sometimes(cluster: str) -> Admin:
        if away:
            raise KafkaAdminError(cluster, "is not registered.")
        return opens(cluster)

    with Syncing(MemoryStore().client(), sometimes, every_s=0.02) as syncing:
        syncing.follow([mirror()], EVEN)
        time.sleep(0.2)
        assert passes.made == []
        away = False
        until(lambda: passes.count("west", "groups") >= 1)
