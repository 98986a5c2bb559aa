"""Leaders of the targets of crossing topics are looked for before a gateway reports that it serves the map."""

import asyncio
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, cast

import pytest

from gateway.follow import targets as looking
from gateway.follow.targets import Targets, leaderless_targets
from ha_core.model import Crossing, Extent, Topic, View
from tests.gateway.session.talk import topology

SOUGHT = {"west": ["orders"]}


def crossing(name: str, *partitions: int, of: int = 3) -> Topic:
    extents = (
        Extent(cluster="east", start=0, end=10, base=0, writer_epoch=0),
        Extent(cluster="west", start=10, base=0, writer_epoch=1),
    )
    return Topic(
        name=name,
        writer="east",
        partitions=dict.fromkeys(range(of), extents),
        crossing=Crossing(operation="m", state="proposed", partitions=partitions),
    )


def view(*topics: Topic) -> View:
    return View(7, topics={topic.name: topic for topic in topics})


@pytest.mark.parametrize(
    ("leaders", "sought"),
    [
        ({"orders": {0: 1, 1: 1, 2: 1}}, {}),
        ({}, SOUGHT),
        ({"orders": {0: 1, 1: 1}}, SOUGHT),
        ({"orders": {0: 1, 1: -1, 2: 1}}, SOUGHT),
    ],
    ids=["all are known", "the topic is new", "it has more partitions", "one has no leader"],
)
def test_targets_whose_leaders_are_not_known_are_found(leaders: Any, sought: dict[str, list[str]]) -> None:
    assert leaderless_targets(view(crossing("orders")), topology(west=leaders), ["orders"]) == sought


def test_only_partitions_that_cross_over_are_looked_for() -> None:
    seen = topology(west={"orders": {1: 1}})
    assert leaderless_targets(view(crossing("orders", 1)), seen, ["orders"]) == {}
    settled = crossing("orders").model_copy(update={"crossing": None})
    assert leaderless_targets(view(settled), topology(), ["orders"]) == {}


def test_topics_that_have_not_changed_or_are_gone_are_not_looked_for() -> None:
    assert leaderless_targets(view(crossing("orders"), crossing("other")), topology(), ["other", "gone"]) == {
        "west": ["other"]
    }


class Clusters:
    """Clusters that return leaders when the test allows it."""

    def __init__(self) -> None:
        self.asked: list[Mapping[str, Collection[str]]] = []
        self.tell = asyncio.Event()

    async def find_leaders(self, topics: Mapping[str, Collection[str]]) -> None:
        self.asked.append(topics)
        await self.tell.wait()


@contextmanager
def seeking() -> Iterator[tuple[Targets, Clusters, list[int]]]:
    clusters, reported = Clusters(), list[int]()
    targets = Targets(cast(Any, clusters), lambda: reported.append(targets.served(9)))
    yield targets, clusters, reported
    targets.close()


async def test_a_revision_is_reported_when_the_targets_leaders_are_known() -> None:
    with seeking() as (targets, clusters, reported):
        targets.follow(6, {})
        assert targets.served(6) == 6
        targets.follow(7, SOUGHT)
        targets.follow(8, {})
        await asyncio.sleep(0)
        assert (clusters.asked, targets.served(8), reported) == ([SOUGHT], 6, [])
        clusters.tell.set()
        await asyncio.sleep(0.01)
        assert (targets.served(8), reported) == (8, [9])


async def test_a_target_that_does_not_answer_holds_a_report_back_for_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(looking, "MAX_LOOK_S", 0.05)
    with seeking() as (targets, _, reported):
        targets.follow(7, SOUGHT)
        await asyncio.sleep(0.01)
        assert targets.served(7) == 6
        await asyncio.sleep(0.3)
        assert reported == [9]
        assert targets.served(7) == 7
