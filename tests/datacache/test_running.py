"""Whole caches with their threads, on a tree in memory and on a real ZooKeeper."""

import json
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from ha_core.datacache.cache import DataCache
from ha_core.datacache.core.source import MAX_US, Changes
from ha_core.datacache.core.uncommitted import Content
from ha_core.datacache.state import CacheSettings
from ha_core.datacache.zookeeper import CacheNodes
from ha_core.store.tree import Create, Node, Put
from tests.kit.waiting import until
from tests.store.sessions import Backend, Session
from tests.store.waiting import DEADLINE_S

from .sources import History, damage, values

QUICK = CacheSettings(every_s=3600.0, hold_s=5.0, check_s=3600.0, page_rows=3)
"""Nothing is read because of elapsed time."""


class Slow:
    """A source whose answers wait until they are let go."""

    def __init__(self, history: History) -> None:
        self._history = history
        self.open = threading.Event()
        self.open.set()
        self.digest = history.digest

    def changes(self, after_us: int, limit: int) -> Changes:
        self.open.wait(DEADLINE_S)
        return self._history.changes(after_us, limit)


class Fleet:
    """Nodes on sessions of their own, that end with the test."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.caches: list[DataCache] = []
        self.sessions: list[Session] = []

    def start(self, node: str, source: History | Slow, settings: CacheSettings = QUICK) -> DataCache:
        session = self._backend.open()
        cache = DataCache("users", node, source, session.store.tree, settings)
        cache.start()
        self.caches.append(cache)
        self.sessions.append(session)
        return cache

    def close(self) -> None:
        for cache in self.caches:
            cache.close()


@pytest.fixture
def fleet(backend: Backend) -> Iterator[Fleet]:
    made = Fleet(backend)
    yield made
    made.close()


def serves(cache: DataCache, content: dict[str, object]) -> bool:
    return cache.main is not None and values(cache.main.rows) == content


def history(**content: object) -> History:
    made = History()
    for key, value in content.items():
        made.change(key, value)
    return made


def test_nodes_serve_the_source_and_follow_when_one_has_read_a_change(fleet: Fleet) -> None:
    # Given three nodes that serve the same
    source = history(a="x", b="x", c="x", d="x")
    caches = [fleet.start(f"gw-{number}", source) for number in range(3)]
    for cache in caches:
        assert cache.wait(DEADLINE_S)
    source.change("b", None)

    caches[2].read_now()

    for cache in caches:
        until(partial(serves, cache, source.content(source.newest_us)), "served")
    assert {cache.state().commit_us for cache in caches} == {source.newest_us}


def test_an_announced_change_is_read_at_once(fleet: Fleet, other: Session) -> None:
    source = history(a="x")
    cache = fleet.start("gw-1", source)
    until(lambda: serves(cache, {"a": {"is": "x"}}), "served")
    source.change("a", "y")

    CacheNodes(other.store.tree, "users").announce()

    until(lambda: serves(cache, {"a": {"is": "y"}}), "served")


def test_a_node_that_cannot_read_keeps_its_content_and_is_left_out_after_a_while(fleet: Fleet) -> None:
    # Given two nodes, one of which is cut off from the source
    source = history(a="x")
    slow = Slow(source)
    settings = CacheSettings(every_s=3600.0, hold_s=0.3, check_s=3600.0)
    stuck, well = fleet.start("gw-1", slow, settings), fleet.start("gw-2", source, settings)
    for cache in (stuck, well):
        until(partial(serves, cache, {"a": {"is": "x"}}), "served")
    slow.open.clear()
    source.change("a", "y")

    well.read_now()

    until(lambda: serves(well, {"a": {"is": "y"}}), "served without the other")
    until(lambda: well.state().left_out == ("gw-1",), "left out")
    until(lambda: stuck.state().agreed_us == source.newest_us, "told")
    assert serves(stuck, {"a": {"is": "x"}})
    # When it can read again, then it is where the others are
    slow.open.set()
    until(lambda: serves(stuck, {"a": {"is": "y"}}), "caught up")
    assert well.main is not None
    assert stuck.main is not None
    assert stuck.main.at_us == well.main.at_us


def test_while_the_source_is_away_content_is_served_and_the_error_is_shown(fleet: Fleet) -> None:
    source = history(a="x")
    cache = fleet.start("gw-1", source)
    assert cache.wait(DEADLINE_S)
    source.down = "the database is away"

    cache.read_now()

    until(lambda: cache.state().error == "the database is away", "told")
    assert serves(cache, {"a": {"is": "x"}})
    source.down = ""
    source.change("b", "x")
    until(lambda: serves(cache, source.content(source.newest_us)), "read again by itself")
    assert cache.state().error == ""


def test_after_a_lost_session_a_node_takes_part_again_and_follows(fleet: Fleet, other: Session) -> None:
    # Given two nodes that serve, the leader of which loses its session
    source = history(a="x")
    first, second = fleet.start("gw-1", source), fleet.start("gw-2", source)
    for cache in (first, second):
        assert cache.wait(DEADLINE_S)
    until(lambda: second.state().leader == "gw-1", "the first one leads")

    fleet.sessions[0].expire()

    until(lambda: first.state().leader == second.state().leader == "gw-2", "the other one leads")
    source.change("a", "y")
    CacheNodes(other.store.tree, "users").announce()
    for cache in (first, second):
        until(partial(serves, cache, {"a": {"is": "y"}}), "served")


def test_a_node_without_zookeeper_serves_on_and_catches_up(fleet: Fleet) -> None:
    source = history(a="x")
    first, second = fleet.start("gw-1", source), fleet.start("gw-2", source)
    for cache in (first, second):
        until(partial(serves, cache, {"a": {"is": "x"}}), "served")
    fleet.sessions[0].suspend()
    until(lambda: not first.state().connected, "cut off")
    source.change("a", "y")

    first.read_now()

    until(lambda: (first.state().read_us or 0) == source.newest_us, "read")
    assert serves(first, {"a": {"is": "x"}})
    fleet.sessions[0].resume()
    second.read_now()
    for cache in (first, second):
        until(partial(serves, cache, {"a": {"is": "y"}}), "served")


def test_a_damaged_main_part_is_found_by_comparing_and_repaired(fleet: Fleet) -> None:
    # Given a main part that was damaged in memory
    source = history(a="x")
    cache = fleet.start("gw-1", source, CacheSettings(every_s=0.05, hold_s=5.0, check_s=0.05))
    assert cache.wait(DEADLINE_S)
    assert cache.main is not None

    damage(cache.main, "a")

    until(lambda: serves(cache, {"a": {"is": "x"}}) and cache.state().reloads >= 1, "healed")
    until(lambda: cache.state().checked_s is not None, "compared")


def test_a_reload_by_hand_reads_everything_anew(fleet: Fleet, other: Session) -> None:
    source = history(a="x")
    cache = fleet.start("gw-1", source)
    assert cache.wait(DEADLINE_S)
    until(lambda: serves(cache, {"a": {"is": "x"}}), "served")

    CacheNodes(other.store.tree, "users").ask_reload("gw-1")

    until(lambda: cache.state().reloads == 1, "read anew")
    assert serves(cache, {"a": {"is": "x"}})


def test_new_main_parts_are_delivered_in_order_and_a_failing_listener_costs_nothing(session: Session) -> None:
    # Given a listener that always fails
    told: list[int] = []

    def take(content: Content) -> None:
        told.append(content.at_us)
        raise RuntimeError("planted")

    source = history(a="x")
    cache = DataCache("users", "gw-1", source, session.store.tree, QUICK, take)
    cache.start()
    assert cache.wait(DEADLINE_S)
    source.change("a", "y")

    cache.read_now()

    until(lambda: serves(cache, {"a": {"is": "y"}}), "served")
    cache.close()
    assert told == [1, 2]


@pytest.mark.parametrize(
    ("setting", "value"), [("every_s", 0.0), ("hold_s", -1.0), ("check_s", 1e9), ("page_rows", 0), ("page_rows", 10**6)]
)
def test_a_setting_out_of_bounds_is_refused(setting: str, value: Any) -> None:
    with pytest.raises(ValueError, match=setting):
        CacheSettings(**{setting: value})


def node_at(session: Session, path: str) -> Node:
    node = session.store.tree.get(path)
    assert node is not None
    return node


def leaves_out(cache: DataCache, node: str) -> bool:
    return node in cache.state().left_out


COMMIT, SYNC = "/DataCache/users/commit", "/DataCache/users/sync"
FAR = json.dumps({"main_us": MAX_US, "from_us": 0, "through_us": MAX_US, "who": "nobody"}).encode()


@pytest.mark.parametrize("far_us", [MAX_US, 10**18])
def test_a_commit_time_that_the_source_never_reaches_stops_no_node(fleet: Fleet, other: Session, far_us: int) -> None:
    # Given nodes that serve
    source = history(a="x")
    caches = [fleet.start(f"gw-{number}", source) for number in range(2)]
    for cache in caches:
        assert cache.wait(DEADLINE_S)
    # When an operator writes a commit time that no node will ever read, and the source is changed
    said = json.dumps({"commit_us": far_us, "fingerprint": "7", "by": "x"}).encode()
    other.store.tree.write([Put(COMMIT, said, node_at(other, COMMIT).version)])
    source.change("a", "y")
    # Then the source's content is in force everywhere, also at nodes that start later
    for cache in (*caches, fleet.start("gw-9", source)):
        until(partial(serves, cache, {"a": {"is": "y"}}), "served")
        assert cache.state().agreed_us == source.newest_us
    source.change("a", "z")
    CacheNodes(other.store.tree, "users").announce()
    for cache in fleet.caches:
        until(partial(serves, cache, {"a": {"is": "z"}}), "served")


def test_a_false_claim_of_a_node_stops_no_other(fleet: Fleet, other: Session) -> None:
    source = history(a="x")
    settings = CacheSettings(every_s=3600.0, hold_s=0.3, check_s=3600.0)
    caches = [fleet.start(f"gw-{number}", source, settings) for number in range(2)]
    for cache in caches:
        assert cache.wait(DEADLINE_S)
    # When an operator has made a node that ends with no session
    other.store.tree.write([Create(f"{SYNC}/zombie", FAR)])
    source.change("a", "y")
    caches[0].read_now()
    # Then all others agree without it, and name it
    for cache in (*caches, fleet.start("gw-9", source, settings)):
        until(partial(serves, cache, {"a": {"is": "y"}}), "served")
        until(partial(leaves_out, cache, "zombie"), "named")
    until(lambda: all(cache.state().left_out == ("zombie",) for cache in fleet.caches), "nobody else is left out")
