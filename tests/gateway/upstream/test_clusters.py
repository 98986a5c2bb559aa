"""Connections to all clusters of a view: they follow it, and a bad one does not affect the others."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.composed.ask import AnyBroker, Ask, ClusterUnavailableError
from gateway.model.topology import Topology
from gateway.upstream.clusters import Clusters
from ha_core.model import Cluster, Mask
from ha_core.wire.codes import ApiKey
from ha_core.wire.sasl import SecurityProfile
from tests.gateway.upstream.fake_broker import FakeBroker

MASK = Mask(since="2026-01-01T00:00:00Z", reason="fire", by="ops")


def named(name: str, broker: FakeBroker, **more: Any) -> Cluster:
    return Cluster(name=name, bootstrap=f"127.0.0.1:{broker.port}", **more)


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Clusters, FakeBroker, FakeBroker, list[Topology]]]:
    seen: list[Topology] = []
    east, west = await FakeBroker(1).start(), await FakeBroker(1).start()
    east.topics, west.topics = {"a": {0: 1}, "b": {0: 1}}, {"b": {0: 1}}
    upstream = Clusters({"none": SecurityProfile()}, client_id="switchyard-gw", on_topology=seen.append)
    try:
        upstream.apply({"east": named("east", east), "west": named("west", west)})
        yield upstream, east, west, seen
    finally:
        await upstream.close()
        await east.stop()
        await west.stop()


ASK_ALL = tuple(Ask(c, AnyBroker(), ApiKey.METADATA, {"topics": None}) for c in ("east", "west"))


async def test_each_change_of_the_topology_is_reported() -> None:
    async with connected() as (upstream, _east, _west, seen):
        await upstream.refresh()

        assert seen[-1] is upstream.topology
        assert upstream.topology.existing("b") == ("east", "west")
        assert upstream.topology.existing("a") == ("east",)
        assert upstream.topology.leader("east", "a", 0) == 1
        assert upstream.topology.leader("west", "a", 0) is None
        assert len(upstream.topology.apis()) == 2


async def test_parallel_asks_are_answered_in_their_places_and_a_failure_is_one_of_the_answers() -> None:
    async with connected() as (upstream, east, _west, _seen):
        await upstream.refresh()
        await east.stop()

        replies = await upstream.ask_all((*ASK_ALL, Ask("north", AnyBroker(), ApiKey.METADATA, {})))

        assert isinstance(replies[0], ClusterUnavailableError)
        assert [t["name"] for t in replies[1]["topics"]] == ["b"]  # type: ignore[index]
        assert str(replies[2]) == "cluster north is not available: no cluster of this name is registered"


async def test_a_masked_cluster_is_left_alone_and_comes_back_when_it_is_unmasked() -> None:
    async with connected() as (upstream, east, west, seen):
        await upstream.refresh()
        upstream.apply({"east": named("east", east, masked=MASK), "west": named("west", west)})
        masked = seen[-1].clusters["east"]
        asked = len(east.asked)
        refused = await upstream.ask_all(ASK_ALL)

        upstream.apply({"east": named("east", east), "west": named("west", west)})
        await upstream.refresh()

        assert (masked.reachable, masked.why, set(masked.topics)) == (False, "masked: fire", {"a", "b"})
        assert isinstance(refused[0], ClusterUnavailableError)
        assert upstream.topology.reachable("east")
        assert len(east.asked) > asked


async def test_a_cluster_that_is_removed_or_registered_elsewhere_is_dropped() -> None:
    async with connected() as (upstream, _east, west, _seen):
        await upstream.refresh()
        before = upstream.clusters["east"]

        upstream.apply({"east": named("east", west)})
        await upstream.refresh()

        assert set(upstream.topology.clusters) == {"east"}
        assert set(upstream.topology.clusters["east"].topics) == {"b"}
        assert upstream.clusters["east"] is not before


@pytest.mark.parametrize(
    ("cluster", "why"),
    [
        (
            Cluster(name="bad", bootstrap="host:port"),
            "bootstrap 'host:port' is not host:port. Write host:port[,host:port…].",
        ),
        (
            Cluster(name="bad", bootstrap="h:1", security="sasl"),
            "security profile 'sasl' is not in this gateway's configuration (it has none); add it",
        ),
    ],
)
async def test_a_cluster_that_cannot_be_connected_has_the_reason_and_does_not_affect_others(
    cluster: Cluster, why: str
) -> None:
    async with connected() as (upstream, east, _west, _seen):
        upstream.apply({"east": named("east", east), "bad": cluster})
        await upstream.refresh()

        with pytest.raises(ClusterUnavailableError) as caught:
            await upstream.open("bad", 1)

        assert caught.value.why == why
        assert upstream.topology.clusters["bad"].why == why
        assert upstream.topology.reachable("east")


async def test_a_badly_registered_cluster_is_connected_once_it_is_corrected() -> None:
    async with connected() as (upstream, east, _west, _seen):
        upstream.apply({"bad": Cluster(name="bad", bootstrap="host:port")})

        upstream.apply({"bad": named("bad", east)})
        await upstream.refresh()

        assert upstream.topology.reachable("bad")


async def test_a_hanging_clusters_questions_are_bounded_and_other_clusters_are_served() -> None:
    async with connected() as (upstream, east, _west, _seen):
        # Given a bound of three, and an east that no longer answers
        upstream._max_waiting = lambda _: 3
        await upstream.refresh()
        east.answers[ApiKey.METADATA] = lambda _: None
        hanging = [asyncio.create_task(upstream.ask_all(ASK_ALL[:1])) for _ in range(3)]
        await asyncio.sleep(0.05)
        assert upstream.waiting["east"] == 3
        # When more questions come for it, and for the west
        since = asyncio.get_running_loop().time()
        found = await upstream.ask_all(ASK_ALL)
        # Then the former fail at once, and the latter are answered
        assert isinstance(found[0], ClusterUnavailableError)
        assert "queued_requests" in str(found[0])
        assert not isinstance(found[1], ClusterUnavailableError)
        assert asyncio.get_running_loop().time() - since < 1.0
        assert upstream.turned_away == {"east": 1}
        # And a caller that stops waiting makes room
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        assert upstream.waiting["east"] == 0


async def test_a_user_leaves_room_for_questions_of_others_to_a_cluster_that_hangs() -> None:
    async with connected() as (upstream, east, _west, _seen):
        # Given room for ten questions, and an east that no longer answers
        upstream._max_waiting = lambda _: 10
        await upstream.refresh()
        east.answers[ApiKey.METADATA] = lambda _: None
        hanging: list[asyncio.Task[Any]] = []

        async def wait_of(user: str | None, count: int) -> int:
            before = upstream.waiting["east"]
            hanging.extend(asyncio.create_task(upstream.ask_all(ASK_ALL[:1], user)) for _ in range(count))
            await asyncio.sleep(0.05)
            return upstream.waiting["east"] - before

        # When one user asks more than there is room for
        assert await wait_of("greedy", 20) == 5
        # Then that user gets the reason
        refused = hanging[-1].result()[0]
        assert "5 questions of user 'greedy' wait" in str(refused)
        assert "queued_requests (10)" in str(refused)
        assert upstream.turned_away == {"east": 15}
        # And the questions of others wait, and so does one of the gateway itself
        assert await wait_of("modest", 2) == 2
        assert await wait_of("other", 20) == 2
        assert await wait_of(None, 1) == 1
        assert upstream.waiting_of_user == {("east", "greedy"): 5, ("east", "modest"): 2, ("east", "other"): 2}
        # And the greedy user's questions to the west are answered
        assert not isinstance((await upstream.ask_all(ASK_ALL[1:], "greedy"))[0], ClusterUnavailableError)
        # And users without waiting questions are forgotten
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)
        assert upstream.waiting["east"] == 0
        assert not upstream.waiting_of_user


async def test_the_recorded_state_of_a_cluster_is_served_until_it_is_reached() -> None:
    async with connected() as (upstream, east, west, _seen):
        # Given a cluster that is known only from a record
        await upstream.refresh()
        await east.stop()
        upstream.apply({"east": named("east", west), "north": named("north", east)})
        assert "north" in upstream.never_seen
        upstream.recall("north", {"a": 3}, 1e9)
        # Then its topics are known, without leaders, and it is out of date
        assert upstream.topology.existing("a")[-1] == "north"
        assert upstream.topology.leader("north", "a", 2) is None
        assert not upstream.topology.clusters["north"].ever_reached
        assert upstream.out_of_date["north"] == 1e9
        # And a seen state is not replaced by a recorded one
        await upstream.refresh()
        upstream.recall("east", {"other": 1}, 1e9)
        assert upstream.topology.existing("other") == ()
