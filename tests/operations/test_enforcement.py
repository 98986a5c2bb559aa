"""A change of the platform is said to be in force only where gateways follow the database that it was written to."""

from collections.abc import Iterator

import pytest

from ha_core.datacache.cache import DataCache
from ha_core.datacache.state import CacheSettings
from ha_core.model import Cluster, GatewayRecord
from ha_core.operations.access import caches
from ha_core.operations.access.caches import enforced, unfollowed
from ha_core.operations.access.enforcing import RestEnforcement
from ha_core.operations.engine.environment import Environment
from ha_core.store.commits import StateChange
from ha_core.store.errors import StoreUnavailableError
from stack.memory_store import MemoryStore
from tests.datacache.sources import History
from tests.kit.waiting import until

SETTINGS = CacheSettings(every_s=0.05, hold_s=0.2, check_s=3600.0)
CHANGED_US = 1_000_000


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    """With two live gateways."""
    monkeypatch.setattr(caches, "WAIT_S", 0.5)
    made = MemoryStore()
    for name in ("gw-1", "gw-2"):
        made.client().register_gateway(GatewayRecord(id=name, host="h", port=1, node_id=1))
    return made


@pytest.fixture
def follower(store: MemoryStore) -> Iterator[DataCache]:
    """Users of one of the gateways, up to the change."""
    source = History()
    source.change("alice", "here", at_us=CHANGED_US)
    cache = DataCache("users", "gw-1", source, store.client().tree, SETTINGS)
    cache.start()
    until(lambda: cache.main is not None, "served")
    yield cache
    cache.close()


def of_this_database(_kind: str, at_us: int) -> bool:
    return at_us == CHANGED_US


def of_another(_kind: str, _at_us: int) -> bool:
    return False


@pytest.mark.usefixtures("follower")
def test_gateways_that_have_the_change_are_counted_among_those_that_live(store: MemoryStore) -> None:
    with Environment(store, by="test") as environment:
        (said,) = enforced(environment, {"users": CHANGED_US}, of_this_database)

    assert said.startswith("users: in force at 1 of 2 gateways (gw-1). Others that follow read within a minute")


@pytest.mark.usefixtures("follower")
def test_gateways_that_follow_another_database_do_not_enforce_the_change(store: MemoryStore) -> None:
    # Given a change that is older than what they follow: its time alone would look as if they had it
    with Environment(store, by="test") as environment:
        (said,) = enforced(environment, {"users": CHANGED_US - 1}, of_another)

    assert said.startswith("users: not in force, since no gateway follows this database")


def test_quotas_are_in_force_where_those_of_this_database_are_published(store: MemoryStore) -> None:
    with Environment(store, by="test") as environment:
        (before,) = enforced(environment, {"quotas": CHANGED_US}, of_this_database)
        store.publish(store.publication(), CHANGED_US, "service", [])
        (after,) = enforced(environment, {"quotas": CHANGED_US}, of_this_database)

    assert before.startswith("quotas: not in force, since no service publishes the quotas of this database")
    assert after == "quotas: in force at 2 of 2 gateways."


def test_kinds_that_no_gateway_reads_are_reported(store: MemoryStore) -> None:
    with Environment(store, by="test") as environment:
        assert [*enforced(environment, {"topics": 5}, of_this_database)] == [
            "topics: no gateway reads them from the platform."
        ]


@pytest.mark.parametrize(
    ("platform_us", "said"), [(CHANGED_US, "in force at 2 of 2 gateways."), (None, "not in force.")]
)
def test_a_cluster_of_the_platform_is_in_force_once_its_change_is_registered(
    store: MemoryStore, platform_us: int | None, said: str
) -> None:
    cluster = Cluster(name="east", bootstrap="here:1", platform_us=platform_us)
    store.commit(StateChange(change_id="seed", puts=(cluster,), expected={(Cluster, "east"): None}))
    with Environment(store, by="test") as environment:
        (told,) = enforced(environment, {"clusters": CHANGED_US}, of_this_database)

    assert told.startswith(f"clusters: {said}")


@pytest.mark.usefixtures("follower")
def test_a_change_is_noted_and_named_only_while_gateways_do_not_serve_it(store: MemoryStore) -> None:
    with Environment(store, by="test") as environment:
        [*enforced(environment, {"users": CHANGED_US}, of_this_database, "sqlite:////db")]
        assert [*unfollowed(environment)] == []
        [*enforced(environment, {"users": CHANGED_US + 1}, of_this_database, "sqlite:////db")]
        (late,) = unfollowed(environment)
        assert (late.change.changed_us, late.change.database, late.followed) == (CHANGED_US + 1, "sqlite:////db", True)


@pytest.mark.usefixtures("follower")
def test_a_change_of_another_database_than_that_of_the_gateways_is_named_at_once(store: MemoryStore) -> None:
    with Environment(store, by="test") as environment:
        [*enforced(environment, {"users": CHANGED_US - 1}, of_another)]
        (stray,) = unfollowed(environment)

    assert (stray.followed, "no gateway follows this database" in stray.why) == (False, True)


def test_the_rest_api_asks_again_only_after_a_while_when_zookeeper_is_away() -> None:
    opened: list[int] = []

    def opens() -> Environment:
        opened.append(1)
        raise StoreUnavailableError("no ZooKeeper answers")

    enforcement = RestEnforcement(opens, of_this_database, "sqlite:////db")

    for _ in range(3):
        (said,) = enforcement({"users": 1})
        assert said == "Whether a gateway enforces it is not known: no ZooKeeper answers"
    assert len(opened) == 1


def test_the_rest_api_says_where_a_change_is_in_force_without_waiting(store: MemoryStore) -> None:
    enforcement = RestEnforcement(lambda: Environment(store.client(), by="rest"), of_this_database, "sqlite:////db")

    (said,) = enforcement({"users": CHANGED_US})
    enforcement.close()

    assert said.startswith("users: not in force, since no gateway follows this database")
