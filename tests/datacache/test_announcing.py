"""Nodes are notified of each change, by any writer, also after an absence of ZooKeeper or the source."""

from collections.abc import Iterator

import pytest

from ha_core.datacache.poller import ChangeNotifier
from ha_core.datacache.zookeeper import CacheNodes
from ha_core.store.errors import StoreUnavailableError
from ha_core.store.store import Store
from tests.kit.waiting import until
from tests.store.sessions import Backend, Session


class World:
    """A source, its newest times, and a notifier that polls it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.newest = {"users": 1, "rules": 0}
        self.fails: Exception | None = None
        self.said: list[str] = []
        self.announcer = ChangeNotifier(self.read, self.connect, self.said.append, look_s=0.05)

    def read(self) -> dict[str, int]:
        if isinstance(self.fails, ValueError):
            raise self.fails
        return dict(self.newest)

    def connect(self) -> Store:
        if isinstance(self.fails, StoreUnavailableError):
            raise self.fails
        return self._backend.open().store


@pytest.fixture
def world(backend: Backend, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    monkeypatch.setattr("ha_core.datacache.poller.RETRY_S", 0.05)
    made = World(backend)
    yield made
    made.announcer.close()


def told(session: Session, name: str) -> tuple[int, int]:
    return CacheNodes(session.store.tree, name).changed(session.store.tree)


def test_nodes_of_the_changed_cache_are_notified_and_no_others(world: World, session: Session) -> None:
    # Given
    world.announcer.start()
    # Each node is made first, and written then.
    until(lambda: told(session, "rules")[1] > 0, "announced at the start")
    until(lambda: told(session, "users")[1] > 0, "announced at the start")
    users, rules = told(session, "users"), told(session, "rules")

    world.newest["users"] = 2

    until(lambda: told(session, "users") != users, "announced")
    assert told(session, "rules") == rules


@pytest.mark.parametrize("fails", [StoreUnavailableError("ZooKeeper is away"), ValueError("a secret")])
def test_a_failure_is_reported_once_and_retried(world: World, session: Session, fails: Exception) -> None:
    # Given
    world.fails = fails
    world.announcer.start()
    until(lambda: bool(world.said), "said")

    world.fails = None

    until(lambda: told(session, "users") != (0, 0), "announced")
    assert len(world.said) == 1
    assert "secret" not in world.said[0]
    until(lambda: world.announcer.error == "", "well again")
