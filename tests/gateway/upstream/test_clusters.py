"""Connections to all clusters of a view: they follow it, and a bad one never hurts the others."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway.composed.ask import AnyBroker, Ask, ClusterUnavailableError
from gateway.topology import Topology
from gateway.upstream.clusters import Clusters
from ha_core.model import Cluster, Mask
from ha_core.wire.codes import ApiKey
from ha_core.wire.sasl import SecurityProfile
from tests.gateway.upstream.fake_broker import FakeBroker

MASK = Mask(since="2026-01-01T00:00:00Z", reason="fire", by="ops")


def named(name: str, broker: FakeBroker, **more: Any) -> Cluster:
    return Cluster(name=name, bootstrap=f"127.0.0.1:{broker.port}", **more)


def play(scenario: Callable[[Clusters, FakeBroker, FakeBroker, list[Topology]], Awaitable[None]]) -> None:
    async def run() -> None:
        seen: list[Topology] = []
        east, west = await FakeBroker(1).start(), await FakeBroker(1).start()
        east.topics, west.topics = {"a": {0: 1}, "b": {0: 1}}, {"b": {0: 1}}
        upstream = Clusters({"none": SecurityProfile()}, client_id="switchyard-gw", on_topology=seen.append)
        try:
            upstream.apply({"east": named("east", east), "west": named("west", west)})
            await scenario(upstream, east, west, seen)
        finally:
            await upstream.close()
            await east.stop()
            await west.stop()

    asyncio.run(asyncio.wait_for(run(), 30))


ASK_ALL = tuple(Ask(c, AnyBroker(), ApiKey.METADATA, {"topics": None}) for c in ("east", "west"))


def test_the_topology_of_all_clusters_is_told_whenever_it_changes() -> None:
    async def scenario(upstream: Clusters, east: FakeBroker, west: FakeBroker, seen: list[Topology]) -> None:
        await upstream.refresh()

        assert seen[-1] is upstream.topology
        assert upstream.topology.existing("b") == ("east", "west")
        assert upstream.topology.existing("a") == ("east",)
        assert upstream.topology.leader("east", "a", 0) == 1
        assert upstream.topology.leader("west", "a", 0) is None
        assert len(upstream.topology.apis()) == 2

    play(scenario)


def test_asks_that_run_together_are_answered_in_their_places_and_a_failure_is_one_of_the_answers() -> None:
    async def scenario(upstream: Clusters, east: FakeBroker, west: FakeBroker, seen: list[Topology]) -> None:
        await upstream.refresh()
        await east.stop()

        replies = await upstream.ask_all((*ASK_ALL, Ask("north", AnyBroker(), ApiKey.METADATA, {})))

        assert isinstance(replies[0], ClusterUnavailableError)
        assert [t["name"] for t in replies[1]["topics"]] == ["b"]  # type: ignore[index]
        assert str(replies[2]) == "cluster north is not available: no cluster of this name is registered"

    play(scenario)


def test_a_masked_cluster_is_left_alone_and_comes_back_when_it_is_unmasked() -> None:
    async def scenario(upstream: Clusters, east: FakeBroker, west: FakeBroker, seen: list[Topology]) -> None:
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

    play(scenario)


def test_a_cluster_that_is_removed_or_registered_elsewhere_is_let_go() -> None:
    async def scenario(upstream: Clusters, east: FakeBroker, west: FakeBroker, seen: list[Topology]) -> None:
        await upstream.refresh()
        before = upstream.clusters["east"]

        upstream.apply({"east": named("east", west)})
        await upstream.refresh()

        assert set(upstream.topology.clusters) == {"east"}
        assert set(upstream.topology.clusters["east"].topics) == {"b"}
        assert upstream.clusters["east"] is not before

    play(scenario)


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
def test_a_cluster_that_cannot_be_linked_says_why_and_leaves_the_others_alone(cluster: Cluster, why: str) -> None:
    async def scenario(upstream: Clusters, east: FakeBroker, west: FakeBroker, seen: list[Topology]) -> None:
        upstream.apply({"east": named("east", east), "bad": cluster})
        await upstream.refresh()

        with pytest.raises(ClusterUnavailableError) as caught:
            await upstream.open("bad", 1)

        assert caught.value.why == why
        assert upstream.topology.clusters["bad"].why == why
        assert upstream.topology.reachable("east")

    play(scenario)


def test_a_badly_registered_cluster_is_linked_once_it_is_corrected() -> None:
    async def scenario(upstream: Clusters, east: FakeBroker, west: FakeBroker, seen: list[Topology]) -> None:
        upstream.apply({"bad": Cluster(name="bad", bootstrap="host:port")})

        upstream.apply({"bad": named("bad", east)})
        await upstream.refresh()

        assert upstream.topology.reachable("bad")

    play(scenario)
