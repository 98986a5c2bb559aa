"""Clusters and composed answers against two real clusters of different versions that demand a login."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gateway.composed import HANDLERS
from gateway.composed.ask import AnyBroker, ClusterUnavailableError, Controller
from gateway.composed.handlers import BrokerKey, Context, NeedNodes, NodeAddress
from gateway.upstream.clusters import Clusters
from ha_core.model import Cluster, Identity, View
from ha_core.wire import APIS, Destination, advertised
from ha_core.wire.codes import ApiKey
from ha_core.wire.header import encode_request
from ha_core.wire.sasl import SecurityProfile
from stack.harness import Stack
from tests.gateway.composed.playbook import only_partition, only_topic, requested
from tests.kit.stacks import own_stack

pytestmark = pytest.mark.stack

GATEWAY = NodeAddress(1, "gw", 19_092)
VERSIONS = {"east": "3.9.2", "west": "4.3.1"}


stack = own_stack(VERSIONS, gateways=0, security="sasl")


class Running:
    """A driver's interface for handlers."""

    def __init__(self, upstream: Clusters, clusters: dict[str, Cluster]) -> None:
        self.upstream = upstream
        self.view = View(clusters=clusters)
        self.nodes: dict[BrokerKey, int] = {}

    async def answer(self, api_key: int, version: int, **fields: Any) -> dict[str, Any]:
        return await self.answer_at(None, api_key, version, **fields)

    async def answer_at(self, port: BrokerKey | None, api_key: int, version: int, **fields: Any) -> dict[str, Any]:
        cluster, broker = port or (None, None)
        context = Context(
            self.view,
            self.upstream.topology,
            Identity("alice", ""),
            cluster,
            broker,
            (GATEWAY,),
            GATEWAY,
            "id",
            self.nodes,
        )
        work = HANDLERS[api_key](context, version, requested(api_key, version, **fields))
        reply: Any = None
        while True:
            try:
                step = work.send(reply)
            except StopIteration as stop:
                result: dict[str, Any] = stop.value
                return result
            if isinstance(step, NeedNodes):
                for key in step.brokers:
                    self.nodes.setdefault(key, 100 + len(self.nodes))
                reply = {b: NodeAddress(self.nodes[b], "gw", 20_000 + self.nodes[b]) for b in step.brokers}
            else:
                assert isinstance(step, tuple)
                reply = await self.upstream.ask_all(step)

    async def create(self, topic: str, cluster: str) -> None:
        """Creates a topic past the handlers."""
        made = {"num_partitions": 1, "replication_factor": 1, "name": topic, "assignments": [], "configs": []}
        reply = await self.upstream.ask(
            cluster, Controller(), ApiKey.CREATE_TOPICS, {"topics": [made], "timeout_ms": 10_000}
        )
        assert [t["error_code"] for t in reply["topics"]] == [0]


@asynccontextmanager
async def running_clusters(stack: Stack, password: str | None = None) -> AsyncIterator[Running]:
    assert stack.service is not None
    profile = SecurityProfile("PLAIN", stack.service["user"], password or stack.service["password"])
    clusters = {
        name: Cluster(name=name, bootstrap=c["bootstrap"], security="sasl", default=name == "east")
        for name, c in stack.clusters.items()
    }
    upstream = Clusters({"sasl": profile}, client_id="switchyard-test")
    upstream.apply(clusters)
    try:
        await upstream.refresh()
        yield Running(upstream, clusters)
    finally:
        await upstream.close()


async def test_both_versions_are_reached_and_offer_the_required_apis(stack: Stack) -> None:
    async with running_clusters(stack) as running:
        topology = running.upstream.topology

        offered = {line["api_key"] for line in advertised(topology.apis())}

        assert all(topology.reachable(name) for name in VERSIONS)
        assert offered == {key for key, row in APIS.items() if row.destination is not Destination.HIDDEN}


async def test_an_unreachable_cluster_has_a_wrong_password_as_its_reason(stack: Stack) -> None:
    async with running_clusters(stack, password="wrong") as running:
        with pytest.raises(ClusterUnavailableError, match="refused the account"):
            await running.upstream.ask("east", AnyBroker(), ApiKey.METADATA, {"topics": []})


async def test_a_logged_in_socket_is_ready_for_a_clients_requests(stack: Stack) -> None:
    async with running_clusters(stack) as running:
        (broker,) = running.upstream.topology.clusters["west"].brokers
        sock = (await running.upstream.open("west", broker)).sock
        loop = asyncio.get_running_loop()

        with sock:
            await loop.sock_sendall(sock, encode_request(ApiKey.API_VERSIONS, 0, 77, "client", b""))
            head = await loop.sock_recv(sock, 8)

        assert int.from_bytes(head[4:8], "big") == 77


async def test_topics_are_created_found_and_deleted_in_their_own_cluster(stack: Stack) -> None:
    async with running_clusters(stack) as running:
        await running.create("only-west", "west")
        made = {"name": "mine", "num_partitions": 2, "replication_factor": 1, "assignments": [], "configs": []}
        created = await running.answer(ApiKey.CREATE_TOPICS, 6, topics=[made], timeout_ms=10_000)
        twice = await running.answer(ApiKey.CREATE_TOPICS, 6, topics=[made | {"name": "only-west"}], timeout_ms=10_000)
        listed = await running.answer(ApiKey.METADATA, 9, topics=None)
        deleted = await running.answer(ApiKey.DELETE_TOPICS, 5, topic_names=["mine", "only-west"], timeout_ms=10_000)

        assert only_topic(created)["error_code"] == 0
        assert only_topic(twice)["error_message"] == "topic only-west exists in cluster west"
        led_by = {t["name"]: {p["leader_id"] for p in t["partitions"]} for t in listed["topics"]}
        (east,) = (node for (cluster, _), node in running.nodes.items() if cluster == "east")
        (west,) = (node for (cluster, _), node in running.nodes.items() if cluster == "west")
        assert (led_by["mine"], led_by["only-west"]) == ({east}, {west})
        assert {b["host"] for b in listed["brokers"]} == {"gw"}
        assert [r["error_code"] for r in deleted["responses"]] == [0, 0]


async def test_groups_and_transactional_ids_find_their_coordinators_and_lists_are_whole(stack: Stack) -> None:
    async with running_clusters(stack) as running:

        async def find(key_type: int) -> dict[str, Any]:
            for _ in range(50):  # the first question creates the coordinator's topic
                found = await running.answer(ApiKey.FIND_COORDINATOR, 3, key="mine", key_type=key_type)
                if found["error_code"] == 0:
                    break
                await asyncio.sleep(0.2)
            return found

        assert [(found := await find(kind))["error_code"] for kind in (0, 1)] == [0, 0]
        assert found["host"] == "gw"
        described = await running.answer(ApiKey.DESCRIBE_GROUPS, 5, groups=["mine"])
        broker = ("east", min(running.upstream.topology.clusters["east"].brokers))
        groups = await running.answer_at(broker, ApiKey.LIST_GROUPS, 4)
        for _ in range(50):  # each of the coordinator's partitions is loaded first
            transactions = await running.answer_at(broker, ApiKey.LIST_TRANSACTIONS, 1)
            if transactions["error_code"] != 14:
                break
            await asyncio.sleep(0.2)
        producers = await running.answer(
            ApiKey.DESCRIBE_PRODUCERS, 0, topics=[{"name": "none", "partition_indexes": [0]}]
        )
        cluster = await running.answer(ApiKey.DESCRIBE_CLUSTER, 1)

        assert described["groups"][0]["group_state"] == "Dead"
        assert (groups["error_code"], groups["groups"]) == (0, [])
        assert transactions["error_code"] == 0
        assert only_partition(producers)["error_code"] == 3  # the broker's own error
        node = str(next(node for (name, _), node in running.nodes.items() if name == "east"))
        assert {b["host"] for b in cluster["brokers"]} == {"gw"}
        configs = await running.answer(
            ApiKey.DESCRIBE_CONFIGS,
            4,
            resources=[{"resource_type": 4, "resource_name": node, "configuration_keys": ["log.dirs"]}],
        )
        assert [(r["error_code"], r["resource_name"]) for r in configs["results"]] == [(0, node)]
