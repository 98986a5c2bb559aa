"""Looking at the topics of patterns beside the driver's loop: when each route is looked at, and the results that are
stored and logged."""

import logging
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ha_core.model import PatternLook, PatternTopic
from ha_core.operations.running.pattern_linking import PatternLinking, Route, RouteLook
from ha_core.store.errors import StoreUnavailableError
from ha_core.store.store import Store
from spark_jobs.mirror import pattern_links as module
from spark_jobs.mirror.pattern_links import PatternLinks
from stack.memory_store import MemoryStore
from tests.kit.waiting import until

EAST_WEST, EAST_NORTH = ("east", "west"), ("east", "north")
KEY = "east>west:*"


class Looks:
    """In place of real looks: records their times, and has scripted results.

    :ivar hang: routes whose looks block until they are released.
    :ivar more: how many looks leave something to link at once.
    """

    def __init__(self, store: Store) -> None:
        self.environment = SimpleNamespace(store=store)
        self.known: list[Route] = [EAST_WEST]
        self.made: list[Route] = []
        self.topics: tuple[PatternTopic, ...] = ()
        self.trouble, self.more, self.listing_s = "", 0, 0.0
        self.away = False
        self.hang: set[Route] = set()
        self.released = threading.Event()

    def routes(self) -> list[Route]:
        if self.away:
            raise StoreUnavailableError("ZooKeeper is away")
        return self.known

    def look(self, route: Route) -> RouteLook:
        self.made.append(route)
        if route in self.hang:
            self.released.wait(10)
        if self.away:
            raise StoreUnavailableError("ZooKeeper is away")
        self.more -= 1
        key = f"{route[0]}>{route[1]}:*"
        found = PatternLook(key=key, at=str(len(self.made)), trouble=self.trouble, matching=1, topics=self.topics)
        return RouteLook([found], self.more >= 0, self.listing_s)

    def count(self, route: Route = EAST_WEST) -> int:
        return self.made.count(route)

    def some_more(self) -> None:
        """Wait for two more looks; the second one has begun after this call."""
        before = self.count()
        until(lambda: self.count() >= before + 2)


@pytest.fixture
def store() -> Store:
    return MemoryStore().client()


@pytest.fixture
def looks(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Looks]:
    monkeypatch.setattr(module, "_LOOK_S", 0.01)
    made = Looks(store)
    yield made
    made.released.set()


def links(looks: Looks, every_s: float = 0.05) -> PatternLinks:
    return PatternLinks(cast(PatternLinking, looks), every_s)


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == module.__name__]


def test_routes_are_looked_at_while_this_driver_leads_and_not_otherwise(looks: Looks) -> None:
    with links(looks) as patterns:
        time.sleep(0.2)
        assert looks.made == []
        patterns.follow(leads=True)
        until(lambda: looks.count() >= 3)
        patterns.follow(leads=False)
        time.sleep(0.1)
        before = looks.count()
        time.sleep(0.2)
        assert looks.count() == before


def test_a_hanging_route_delays_neither_the_driver_nor_another_route(looks: Looks) -> None:
    looks.known.append(EAST_NORTH)
    looks.hang.add(EAST_WEST)
    with links(looks) as patterns:
        patterns.follow(leads=True)
        until(lambda: looks.count(EAST_NORTH) >= 3)
        assert looks.count(EAST_WEST) == 1
        looks.released.set()


def test_more_topics_are_linked_at_once_and_else_after_the_pause(looks: Looks) -> None:
    looks.more = 5
    with links(looks, every_s=60.0) as patterns:
        patterns.follow(leads=True)
        until(lambda: looks.count() == 6)
        time.sleep(0.2)
        assert looks.count() == 6


def test_a_source_that_takes_long_to_list_its_topics_is_looked_at_more_rarely(looks: Looks) -> None:
    looks.listing_s = 60.0
    with links(looks) as patterns:
        patterns.follow(leads=True)
        until(lambda: looks.count() == 1)
        time.sleep(0.3)
        assert looks.count() == 1


def test_a_result_is_stored_and_written_again_only_when_it_changes(looks: Looks, store: Store) -> None:
    with links(looks, every_s=0.02) as patterns:
        patterns.follow(leads=True)
        until(lambda: looks.count() >= 5)
        assert store.pattern_looks()[KEY].at == "1"
        looks.topics = (PatternTopic(topic="orders", state="refused", code="foreign-data", reason="7 offsets"),)
        until(lambda: store.pattern_looks()[KEY].topics == looks.topics)


def test_each_change_of_a_reason_is_one_line_in_the_log(looks: Looks, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    reason: dict[str, Any] = {"topic": "orders", "state": "refused", "code": "foreign-data"}
    with links(looks, every_s=0.02) as patterns:
        patterns.follow(leads=True)
        # When the same check refuses a topic again and again, in other words
        for number in range(5):
            looks.topics = (PatternTopic(**reason, reason=f"{number} offsets"),)
            looks.some_more()
        assert lines(caplog) == [f"orders is not as the pattern {KEY} asks: 0 offsets"]
        # And when another check does, and then nothing can be linked any more
        looks.topics = (PatternTopic(**reason | {"code": "not-created"}, reason="no"),)
        until(lambda: len(lines(caplog)) == 2)
        looks.topics, looks.trouble = (), "east cannot be reached"
        until(lambda: len(lines(caplog)) == 3)
        assert lines(caplog)[1:] == [
            f"orders is not as the pattern {KEY} asks: no",
            f"pattern {KEY}: east cannot be reached",
        ]


def test_a_look_without_zookeeper_is_repeated_and_told_once(looks: Looks, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    with links(looks, every_s=0.02) as patterns:
        patterns.follow(leads=True)
        until(lambda: looks.count() >= 2)
        looks.away = True
        looks.some_more()
        assert sorted(lines(caplog)) == [
            "the patterns of mirrors are unknown: ZooKeeper is away",
            "topics of east are not linked to west: ZooKeeper is away",
        ]
        looks.away = False
        looks.some_more()
