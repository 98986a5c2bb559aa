"""A whole gateway with minimal brokers: its answers for clusters that are away, and the names of real brokers."""

import asyncio
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from gateway.process.gateway import Gateway
from ha_core.kafka.connection import BlockingConnection, Deadline
from ha_core.model import Cluster, KnownTopic
from ha_core.store.commits import StateChange
from ha_core.store.store import Store
from ha_core.wire import ApiKey
from ha_core.wire.sasl import SecurityProfile
from stack.memory_store import MemoryStore
from tests.gateway.process.lone_gateway import lone_gateway
from tests.gateway.upstream.fake_broker import FakeBroker
from tests.kit.own_gateway import free_port, free_range

RECORDED = "2026-01-02T03:04:05+00:00"
LEADER_NOT_AVAILABLE = 5


def registered(store: Store, **bootstraps: str) -> None:
    clusters = [Cluster(name=name, bootstrap=said, default=name == "east") for name, said in bootstraps.items()]
    absent: Any = {(Cluster, cluster.name): None for cluster in clusters}
    store.commit(StateChange(puts=tuple(clusters), expected=absent, change_id="clusters", operation=None, epoch=None))


def running(folder: Path, store: Store, **sections: Any) -> AbstractAsyncContextManager[Gateway]:
    nodes = {"first_port": free_range(), "count": 50}
    return lone_gateway(folder, store, nodes=nodes, security_profiles={"none": {}}, **sections)


def metadata(port: int, *topics: str) -> dict[str, Any]:
    connection = BlockingConnection("gw", "127.0.0.1", port, SecurityProfile(), Deadline.after(20))
    try:
        asked = {"topics": [{"name": topic} for topic in topics], "allow_auto_topic_creation": False}
        return connection.call(ApiKey.METADATA, asked)
    finally:
        connection.close()


async def test_a_gateway_that_starts_while_a_cluster_is_away_serves_its_recorded_topics(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    # Given an east that answers, and a west that does not, of which something was recorded
    east, store = await FakeBroker(1).start(), MemoryStore()
    east.topics = {"here": {0: 1}}
    registered(store, east=f"127.0.0.1:{east.port}", west=f"127.0.0.1:{free_port()}")
    store.keep_known(
        KnownTopic, "west", [KnownTopic(cluster="west", name="there", at=RECORDED, partitions=3, replication=1)]
    )
    # When a gateway starts
    async with running(tmp_path, store) as gateway:
        found = await asyncio.to_thread(metadata, gateway.config.listen.port, "here", "there")
        # Then
        here, there = found["topics"]
        assert (here["error_code"], here["partitions"][0]["error_code"]) == (0, 0)
        assert there["error_code"] == 0
        told = [(p["error_code"], p["leader_id"]) for p in there["partitions"]]
        assert told == [(LEADER_NOT_AVAILABLE, -1)] * 3
        # And it says how old that is
        assert gateway.upstream.out_of_date.keys() == {"west"}
        assert gateway._record().out_of_date == {"west": RECORDED}
        assert f"cluster west: 1 topics are served as they were known at {RECORDED}" in caplog.text
    await east.stop()


async def test_the_listener_for_discovery_names_the_broker_itself_and_the_other_one_the_gateway(tmp_path: Path) -> None:
    east, store = await FakeBroker(1).start(), MemoryStore()
    east.topics = {"here": {0: 1}}
    registered(store, east=f"127.0.0.1:{east.port}")
    port = free_port()
    async with running(tmp_path, store, listen_discovery={"port": port}) as gateway:
        real = await asyncio.to_thread(metadata, port, "here")
        shown = await asyncio.to_thread(metadata, gateway.config.listen.port, "here")
    assert [(broker["node_id"], broker["port"]) for broker in real["brokers"]] == [(1, east.port)]
    assert real["topics"][0]["partitions"][0]["leader_id"] == 1
    assert east.port not in {broker["port"] for broker in shown["brokers"]}
    await east.stop()


async def test_settings_that_change_in_their_file_are_in_force_a_few_seconds_later(tmp_path: Path) -> None:
    limits = tmp_path / "discovery.yaml"
    limits.write_text("{}")
    async with running(tmp_path, MemoryStore(), discovery={"settings_file": "discovery.yaml"}) as gateway:
        assert gateway.discovery.settings.user_rate == {}
        limits.write_text("user_rate: {'*': 3}")
        async with asyncio.timeout(20):
            while not gateway.discovery.settings.user_rate:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        assert gateway.discovery.settings.user_rate == {"*": 3}
