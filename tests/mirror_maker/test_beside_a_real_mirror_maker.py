"""A real MirrorMaker 2 runs other flows on the same clusters as our worker: each reads the other's topics, and neither
copies the other's internal topics. Kafka's own formatters print our records."""

import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient

from bench.mirror_maker import MirrorMakerSettings, mirror_maker_of
from ha_core.flows.records import Checkpoint, Heartbeat, OffsetSync
from ha_core.mirror_client import MirrorClient
from stack.clients import java_mirror_client
from stack.harness import Stack
from tests.kit import tools
from tests.kit.checkpoints import checkpoints, judged, newest
from tests.kit.flows import (
    FlowProcess,
    commit,
    committed,
    count,
    delete_topic,
    flows,
    numbered,
    produce,
    records,
    until,
    write_flows,
)
from tests.kit.java_applications import CONNECT_STANDALONE, java_application
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack

pytestmark = [pytest.mark.stack, pytest.mark.long("ha_core/mirror_maker", "ha_core/flows"), pytest.mark.timeout(900)]
VERSIONS = ("3.9.2", "4.3.1")
OURS = ("mm2-copies.internal", "mm2-first-looks.internal")
FORMATTERS = "org.apache.kafka.connect.mirror.formatters"
QUICK = {
    "emit.checkpoints.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "refresh.topics.interval.seconds": "2",
    "sync.topic.acls.enabled": "false",
}
SMALL = "-Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1"

stack = own_stack(scope="module", gateways=0)


@pytest.fixture(scope="module")
def east(stack: Stack) -> str:
    return bootstrap(stack, "east")


@pytest.fixture(scope="module")
def west(stack: Stack) -> str:
    return bootstrap(stack, "west")


@pytest.fixture(scope="module")
def running(east: str, west: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlowProcess]:
    """A flow with `latest`, so that the topic of first looks exists, too."""
    create_topic(east, "orders", 1)
    properties = QUICK | {
        "east->west.enabled": "true",
        "east->west.topics": "orders",
        "consumer.auto.offset.reset": "latest",
    }
    with flows(write_flows(tmp_path_factory.mktemp("ours"), {"east": east, "west": west}, properties)) as process:
        until(lambda: count(west, "east.orders") > 0, 60, process.text)
        produce(east, "orders", (b"%d" % number for number in range(500)))
        commit(east, "billing", {("orders", 0): 123})
        until(lambda: len(records(west, "east.orders")) == 500, 60, process.text)
        until(lambda: ("billing", "east.orders", 0) in newest(checkpoints(west, "east")), 60, process.text)
        yield process


def topics(bootstrap: str) -> set[str]:
    return set(AdminClient({"bootstrap.servers": bootstrap, "log_level": 3}).list_topics(timeout=20).topics)


def printed(version: str, bootstrap: str, topic: str, formatter: str) -> list[str]:
    """The lines that Kafka's console consumer prints for the whole topic."""
    end = count(bootstrap, topic)
    said = tools.tool(
        *(version, tools.CONSOLE_CONSUMER, bootstrap, "--topic", topic, "--from-beginning"),
        *("--formatter", f"{FORMATTERS}.{formatter}", "--timeout-ms", "15000", "--max-messages", str(end)),
    )
    return [line for line in said.out.splitlines() if line]


@pytest.mark.parametrize("version", VERSIONS)
def test_kafkas_formatters_print_our_records_as_we_do(running: FlowProcess, east: str, west: str, version: str) -> None:
    with MirrorClient({"bootstrap.servers": west}) as client:
        heartbeats: list[Heartbeat] = client.heartbeats()
        found: list[Checkpoint] = client.checkpoints("east")
    with MirrorClient({"bootstrap.servers": east}) as client:
        syncs: list[OffsetSync] = client.offset_syncs("west")
    assert heartbeats
    assert found
    assert syncs
    for records_, address, topic, formatter in (
        (heartbeats, west, "heartbeats", "HeartbeatFormatter"),
        (found, west, "east.checkpoints.internal", "CheckpointFormatter"),
        (syncs, east, "mm2-offset-syncs.west.internal", "OffsetSyncFormatter"),
    ):
        said = printed(version, address, topic, formatter)
        assert said[: len(records_)] == [str(one) for one in records_], formatter


@pytest.mark.parametrize("version", VERSIONS)
def test_a_real_mirror_maker_copies_our_copies_and_none_of_our_internal_topics(
    running: FlowProcess, east: str, west: str, tmp_path: Path, version: str
) -> None:
    """MirrorMaker 2 copies all topics of our target. Our copies are ordinary topics for it, and names show the path."""
    alias = f"far{version[0]}"
    assert topics(west) >= set(OURS)
    properties = {
        "clusters": f"west, {alias}",
        "west.bootstrap.servers": west,
        f"{alias}.bootstrap.servers": east,
        f"west->{alias}.enabled": "true",
        f"west->{alias}.topics": ".*",
        **QUICK,
    }
    settings = MirrorMakerSettings(f"MirrorMaker {version}", java=SMALL, version=version)
    with mirror_maker_of(settings, properties, tmp_path / "theirs") as theirs:

        def why() -> str:
            return theirs.log.read_text()[-3000:]

        until(lambda: count(east, "west.east.orders") >= 500, 240, why)
        time.sleep(6)  # topics that come later
        copied = {topic for topic in topics(east) if topic.startswith("west.")}
        assert not {topic for topic in copied if topic.endswith("internal") and "checkpoints" not in topic}
        assert records(east, "west.east.orders")[:500] == records(west, "east.orders")
        asked = {"bootstrap.servers": east}
        until(lambda: "west.east.heartbeats" in topics(east), 60, why)
        java = java_mirror_client.ask(version, asked, "east", "billing", tmp_path, ["west"])
        assert (java["hops-west"], java["hops"]) == ("1", "2")
    for topic in copied:
        delete_topic(east, topic)


def test_a_real_checkpoint_task_translates_by_our_offset_syncs(
    running: FlowProcess, east: str, west: str, tmp_path: Path
) -> None:
    """Our worker copies `billed` and writes offset syncs; Kafka's MirrorCheckpointConnector writes the checkpoints."""
    create_topic(east, "billed", 1)
    ours = {
        "near->far.enabled": "true",
        "near->far.topics": "billed",
        "near->far.emit.checkpoints.enabled": "false",
        "far->near.emit.heartbeats.enabled": "false",
        "offset.lag.max": "100",
        **QUICK,
    }
    with flows(write_flows(tmp_path, {"near": east, "far": west}, ours)) as process:
        produce(east, "billed", (b"%d" % number for number in range(1000)))
        until(lambda: len(records(west, "near.billed")) == 1000, 60, process.text)
        wanted = {"bill-head": 1000, "bill-middle": 700, "bill-first": 0}
        for group, offset in wanted.items():
            commit(east, group, {("billed", 0): offset})
        worker = {
            "bootstrap.servers": west,
            "key.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
            "value.converter": "org.apache.kafka.connect.converters.ByteArrayConverter",
            "offset.storage.file.filename": str(tmp_path / "connect.offsets"),
            "listeners": "http://127.0.0.1:0",
        }
        connector = {
            "name": "checkpoints",
            "connector.class": "org.apache.kafka.connect.mirror.MirrorCheckpointConnector",
            "tasks.max": "1",
            "source.cluster.alias": "near",
            "target.cluster.alias": "far",
            "source.cluster.bootstrap.servers": east,
            "target.cluster.bootstrap.servers": west,
            "topics": "billed",
            "groups": "bill-.*",
            "checkpoints.topic.replication.factor": "1",
            "offset-syncs.topic.replication.factor": "1",
            "sync.group.offsets.enabled": "true",
            "sync.group.offsets.interval.seconds": "1",
            **QUICK,
        }
        with java_application(tmp_path / "connect", CONNECT_STANDALONE, worker, connector) as theirs:
            until(
                lambda: (
                    "near.checkpoints.internal" in topics(west)
                    and {one.group for one in checkpoints(west, "near")} >= {"bill-head", "bill-middle"}
                ),
                180,
                lambda: theirs.said()[-3000:],
            )
            time.sleep(3)
            places = {("near.billed", 0): [offset for offset, _ in numbered(east, "billed")]}
            copies = {("near.billed", 0): [offset for offset, _ in numbered(west, "near.billed")]}
            last = newest(checkpoints(west, "near")).values()
            for one in judged(last, places, copies):
                assert one.passed_over == 0, one
                assert one.checkpoint.group != "bill-head" or one.again <= 100, one
            head = committed(west, "bill-head", "near.billed")
            assert len(records(west, "near.billed", 0, head)) <= 100


def test_lines_of_the_formatters_have_all_fields(running: FlowProcess, west: str) -> None:
    (line, *_) = printed("4.3.1", west, "heartbeats", "HeartbeatFormatter")
    assert re.fullmatch(r"Heartbeat\{sourceClusterAlias=\w+, targetClusterAlias=\w+, timestamp=\d+\}", line), line
