"""A hanging cluster harms no client of others, and its last known state is served, also by a new gateway."""

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient

from ha_core.kafka.connection import BlockingConnection, Deadline
from ha_core.wire import ApiKey
from ha_core.wire.sasl import SecurityProfile
from stack.errors import StackError
from stack.harness import Stack
from tests.kit.own_gateway import OwnGateway
from tests.kit.running import bootstrap, create_topic, switchyard
from tests.kit.waiting import until

pytestmark = [pytest.mark.stack, pytest.mark.long("gateway/upstream", "ha_core/kafka")]

LEADER_NOT_AVAILABLE = 5
QUEUED = 20


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack.up({"east": "3.9.2", "west": "4.3.1"}, gateways=0) as running:
        create_topic(bootstrap(running, "east"), "in-east", 1)
        create_topic(bootstrap(running, "west"), "in-west", 3)
        yield running


def gateway(stack: Stack, folder: Path, **more: Any) -> OwnGateway:
    return OwnGateway(stack, folder, discovery={"settings": {"queued_requests": {"*": QUEUED}}}, **more)


def connected(own_gateway: OwnGateway) -> BlockingConnection:
    return BlockingConnection("gw", "127.0.0.1", own_gateway.port, SecurityProfile(), Deadline.after(60))


def metadata(connection: BlockingConnection, topic: str) -> dict[str, Any]:
    answer = connection.call(ApiKey.METADATA, {"topics": [{"name": topic}], "allow_auto_topic_creation": False})
    found: dict[str, Any] = answer["topics"][0]
    return found


def latencies_s(connection: BlockingConnection, for_s: float) -> list[float]:
    """Latencies of METADATA for a topic in east."""
    found, end = list[float](), time.monotonic() + for_s
    while (since := time.monotonic()) < end:
        assert metadata(connection, "in-east")["error_code"] == 0
        found.append(time.monotonic() - since)
        time.sleep(0.005)
    return found


def p99_s(found: list[float]) -> float:
    return sorted(found)[int(len(found) * 0.99)]


def test_clients_of_another_cluster_notice_nothing_and_the_hanging_ones_topics_stay_known(
    stack: Stack, tmp_path: Path
) -> None:
    with gateway(stack, tmp_path) as running:
        good = connected(running)
        assert len(metadata(good, "in-west")["partitions"]) == 3
        calm = latencies_s(good, 3)
        # Given forty clients that request METADATA of a topic of west in a loop
        going = threading.Event()
        going.set()

        def asks() -> None:
            with contextlib.suppress(Exception):
                connection = connected(running)
                while going.is_set():
                    metadata(connection, "in-west")
                    time.sleep(0.2)

        crowd = [threading.Thread(target=asks) for _ in range(40)]
        for one in crowd:
            one.start()
        busy = latencies_s(good, 3)
        # When west hangs
        stack.pause("cluster/west")
        try:
            hanging = latencies_s(good, 8)
            # Then clients of east are served as before, and a new client of west gets its partitions
            assert p99_s(hanging) < 3 * max(p99_s(calm), p99_s(busy)) + 0.02
            assert running.metric("questions_waiting", cluster="west") <= QUEUED
            until(lambda: running.metric("cluster_reachable", cluster="west") == 0, "west is out of reach")
            found = metadata(good, "in-west")
            assert found["error_code"] == 0
            assert [p["error_code"] for p in found["partitions"]] == [LEADER_NOT_AVAILABLE] * 3
            # And a writer of east writes
            producer = Producer({"bootstrap.servers": running.bootstrap, "message.timeout.ms": 20_000})
            producer.produce("in-east", b"x")
            assert producer.flush(20) == 0
            # And metrics, log and status report that it is outdated
            assert running.metric("cluster_out_of_date_seconds", cluster="west") > 0
            assert "cluster west is out of reach" in running.said()
            assert "its last known state, of" in running.said()
            until(lambda: "west" in switchyard(stack, "status")["gateways"][0]["out_of_date"], "status says so")
        finally:
            stack.resume("cluster/west")
            going.clear()
            for one in crowd:
                one.join(60)
        # And everything is as before when west goes on
        until(lambda: metadata(good, "in-west")["partitions"][0]["error_code"] == 0, "west is served again")
        assert running.metric("cluster_out_of_date_seconds", cluster="west") == 0
        good.close()


def test_a_gateway_that_starts_while_a_cluster_hangs_serves_its_recorded_facts(stack: Stack, tmp_path: Path) -> None:
    # Given a record of west, which hangs
    switchyard(stack, "facts", "record")
    stack.pause("cluster/west")
    try:
        # When a gateway starts
        with gateway(stack, tmp_path, name="gw-late") as running:
            admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
            found = admin.list_topics(timeout=20).topics
            # Then an unmodified client gets its topics, with their numbers of partitions
            assert len(found["in-west"].partitions) == 3
            assert found["in-east"].partitions[0].leader >= 0
            assert "cluster west: 1 topics are served as they were known at" in running.said()
            # And when west goes on its leaders are known
            stack.resume("cluster/west")
            connection = connected(running)
            until(lambda: metadata(connection, "in-west")["partitions"][0]["error_code"] == 0, "west is served")
            connection.close()
    finally:
        with contextlib.suppress(StackError):  # after a success it has already been resumed
            stack.resume("cluster/west")
