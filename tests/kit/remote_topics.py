"""Remote topics that a real MirrorMaker 2 writes, and their document for the gateways."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka.admin import AdminClient

from bench.mirror_maker import MirrorMakerSettings, mirror_maker
from ha_core.model import FlowId
from ha_core.store.remote_topics import FlowTopics
from ha_core.store.store import Store
from ha_core.store.zookeeper import connect
from stack.harness import Stack
from tests.kit.own_gateway import OwnGateway
from tests.kit.running import ZOOKEEPER_ROOT, bootstrap
from tests.kit.waiting import until

ALIAS = "A"
"""Alias of east in the file of MirrorMaker 2."""
FLOW = "A->west"
"""Its name in that file."""


def cluster_id(stack: Stack, cluster: str) -> str:
    """The cluster id that the brokers report."""
    admin = AdminClient({"bootstrap.servers": bootstrap(stack, cluster), "log_level": 0})
    told: str = admin.describe_cluster().result(30).cluster_id
    return told


def key_of(stack: Stack, flow: str = FLOW) -> FlowId:
    return FlowId(flow, cluster_id(stack, "east"), cluster_id(stack, "west"))


@contextmanager
def state(stack: Stack) -> Iterator[Store]:
    store = connect(stack.zookeeper, root=ZOOKEEPER_ROOT)
    try:
        yield store
    finally:
        store.close()


def announce(stack: Stack, topics: Mapping[str, str], *gateways: OwnGateway, flow: str = FLOW) -> None:
    """Claim the topics, as a flow's worker does before it copies; returns once gateways keep clients from writing."""
    with state(stack) as store:
        revision = store.write_remote_topics(FlowTopics(key_of(stack, flow), topics))
        until(lambda: _followed(store, revision, gateways), "the gateways follow the flow's topics")


def withdraw(stack: Stack, *gateways: OwnGateway, flow: str = FLOW) -> None:
    """End the flow's claim on all its topics."""
    with state(stack) as store:
        revision = store.remove_remote_topics(key_of(stack, flow))
        until(lambda: _followed(store, revision, gateways), "the gateways follow the end of the flow")


def _followed(store: Store, revision: int, gateways: tuple[OwnGateway, ...]) -> bool:
    served = {record.id: record.revision for record in store.gateways()}
    return all(served.get(gateway.name, -1) >= revision for gateway in gateways)


@contextmanager
def kafkas_own_flow(stack: Stack, topics: str, folder: Path) -> Iterator[None]:
    """A real MirrorMaker 2 copies these topics from east to west under the alias `A`, and commits groups' offsets."""
    settings = MirrorMakerSettings(
        "MirrorMaker 2",
        {
            "emit.checkpoints.interval.seconds": "1",
            "refresh.groups.interval.seconds": "1",
            "refresh.topics.interval.seconds": "1",
            "sync.group.offsets.enabled": "true",
            "sync.group.offsets.interval.seconds": "1",
            "sync.topic.acls.enabled": "false",
        },
        java="-Xms128m -Xmx512m -XX:+UseSerialGC",
    )
    with mirror_maker(settings, ALIAS, bootstrap(stack, "east"), bootstrap(stack, "west"), topics, folder) as running:
        yield
        running.check()
