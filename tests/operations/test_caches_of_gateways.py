"""How gateways follow the platform is told of all of them in one place, with what is wrong and the way out."""

from collections.abc import Iterator

import pytest

from ha_core.datacache.cache import DataCache
from ha_core.datacache.state import CacheSettings
from ha_core.operations.access.caches import ask_reload, caches
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.overview.health import problems
from stack.memory_store import MemoryStore
from tests.datacache.sources import History
from tests.kit.waiting import until

SETTINGS = CacheSettings(every_s=0.05, hold_s=0.2, check_s=3600.0)


class Fleet:
    """Gateways whose users come from sources of their own, which have the same history."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.sources: dict[str, History] = {}
        self.caches: dict[str, DataCache] = {}

    def start(self, gateway: str) -> None:
        source = self.sources[gateway] = History()
        source.change("alice", "here", at_us=1_000_000)
        cache = self.caches[gateway] = DataCache("users", gateway, source, self.store.client().tree, SETTINGS)
        cache.start()
        until(lambda: cache.main is not None, "served")


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    made = Fleet()
    yield made
    for cache in made.caches.values():
        cache.close()


def told(environment: Environment) -> list[tuple[str, str]]:
    found = problems(environment, environment.store.load(), (), (), ())
    return [(problem.about, problem.text) for problem in found if "platform" in problem.about]


def test_no_problem_is_shown_when_all_gateways_follow_the_cache(fleet: Fleet) -> None:
    for gateway in ("gw-1", "gw-2"):
        fleet.start(gateway)
    with Environment(fleet.store, by="test") as environment:
        until(lambda: not caches(environment)[0].lagging, "all are there")

        (users,) = caches(environment)

        assert (users.cache, users.committed, users.gateways) == ("users", "1970-01-01T00:00:01.000Z", ("gw-1", "gw-2"))
        assert told(environment) == []


def test_gateways_that_cannot_read_are_named_with_reason_and_time(fleet: Fleet) -> None:
    for gateway in ("gw-1", "gw-2"):
        fleet.start(gateway)
    fleet.sources["gw-2"].down = "a secret of the source"

    with Environment(fleet.store, by="test") as environment:
        until(lambda: bool(caches(environment)[0].cannot_read), "it is said")
        (users,) = caches(environment)
        ((about, text),) = told(environment)

    assert list(users.cannot_read) == ["gw-2"]
    assert about == "users of the platform"
    assert "gw-2 (ConnectionError since 20" in text
    assert "secret" not in text


def test_gateways_that_lag_are_named(fleet: Fleet) -> None:
    for gateway in ("gw-1", "gw-2"):
        fleet.start(gateway)
    fleet.sources["gw-1"].change("bob", "here")

    with Environment(fleet.store, by="test") as environment:
        until(lambda: caches(environment)[0].lagging == ("gw-2",), "the other one went on")
        ((_, text),) = told(environment)

    assert "in force at gw-2" in text


def test_gateways_read_everything_again_on_request(fleet: Fleet) -> None:
    for gateway in ("gw-1", "gw-2"):
        fleet.start(gateway)
    with Environment(fleet.store, by="test") as environment:
        assert ask_reload(environment, "users", "gw-2") == ["gw-2"]
        until(lambda: fleet.caches["gw-2"].state().reloads == 1, "read anew")
        assert ask_reload(environment, "users", None) == ["gw-1", "gw-2"]
        until(lambda: fleet.caches["gw-1"].state().reloads == 1, "read anew")
        assert ask_reload(environment, "rules", None) == []
        with pytest.raises(RefusedError, match="has no node gw-9: live are gw-1, gw-2"):
            ask_reload(environment, "users", "gw-9")
