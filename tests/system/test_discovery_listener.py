"""Unmodified clients find the brokers at the discovery listener, and connect to them directly."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from ha_core.kafka.connection import BlockingConnection, Deadline
from ha_core.wire import ApiKey, ErrorCode
from ha_core.wire.sasl import SecurityProfile
from stack.harness import Stack
from tests.kit.own_gateway import OwnGateway, free_port
from tests.kit.running import bind, bootstrap, create_topic
from tests.kit.waiting import until

pytestmark = [
    pytest.mark.stack,
    pytest.mark.long("gateway/process/sockets/listeners.py", "gateway/session/discovery.py"),
]

IDEMPOTENT: dict[str, Any] = {"enable.idempotence": True, "message.timeout.ms": 20_000}


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    with Stack.up({"east": "3.9.2", "west": "4.3.1"}, gateways=0) as running:
        create_topic(bootstrap(running, "east"), "in-east", 1)
        create_topic(bootstrap(running, "west"), "in-west", 1)
        bind(running, "western", "west")
        yield running


def settings(port: int, user: str = "app", **more: Any) -> dict[str, Any]:
    client_id = f"HA#{user}#any" if user != "app" else user
    return {"bootstrap.servers": f"127.0.0.1:{port}", "client.id": client_id, "log_level": 0, **more}


def test_a_client_bootstraps_there_and_works_with_the_real_brokers(stack: Stack, tmp_path: Path) -> None:
    port = free_port()
    with OwnGateway(stack, tmp_path, listen_discovery={"port": port}) as gateway:
        # Given a client that only knows that listener
        found = AdminClient(settings(port)).list_topics(timeout=20)
        addresses = {f"{broker.host}:{broker.port}" for broker in found.brokers.values()}
        assert addresses == set(bootstrap(stack, "east").split(","))
        assert "in-east" in found.topics
        assert "in-west" not in found.topics
        # When it writes and reads, with a group
        producer = Producer(settings(port, **IDEMPOTENT))
        for n in range(10):
            producer.produce("in-east", str(n).encode())
        assert producer.flush(30) == 0
        consumer = Consumer(settings(port, **{"group.id": "readers", "auto.offset.reset": "earliest"}))
        consumer.subscribe(["in-east"])
        read: list[bytes | None] = []
        while len(read) < 10:
            message = consumer.poll(20)
            assert message is not None
            assert message.error() is None
            read.append(message.value())
        consumer.close()
        # Then the records did not pass the gateway, which has forwarded no byte of them
        assert read == [str(n).encode() for n in range(10)]
        assert gateway.metric("bytes", side="broker", direction="out") == 0
        assert gateway.metric("requests", api="produce") == 0
        # And a user of another cluster is routed there
        other = AdminClient(settings(port, "western")).list_topics("in-west", timeout=20)
        assert {f"{b.host}:{b.port}" for b in other.brokers.values()} == set(bootstrap(stack, "west").split(","))
        assert other.topics["in-west"].error is None
        # And requests for topics elsewhere are refused there with a clear error. (A client may ask a real broker, as
        # soon as it knows one: that has never heard of the topic.)
        connection = BlockingConnection("gw", "127.0.0.1", port, SecurityProfile(), Deadline.after(30))
        asked = {"topics": [{"name": "in-west"}], "allow_auto_topic_creation": False}
        (refused,) = connection.call(ApiKey.METADATA, asked)["topics"]
        connection.close()
        assert refused["error_code"] == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_other_requests_than_discovery_are_refused_there_and_logged(stack: Stack, tmp_path: Path) -> None:
    port = free_port()
    with OwnGateway(stack, tmp_path, listen_discovery={"port": port}) as gateway:
        connection = BlockingConnection("gw", "127.0.0.1", port, SecurityProfile(), Deadline.after(30))
        beat = {"group_id": "g", "generation_id": 1, "member_id": "m"}
        assert connection.call(ApiKey.HEARTBEAT, beat)["error_code"] == 16
        connection.close()
        assert "not served at the listener for discovery: api=heartbeat" in gateway.said()
        assert gateway.metric("refusals", cause="discovery_only") == 1


def test_the_last_known_brokers_of_a_hanging_cluster_are_returned(stack: Stack, tmp_path: Path) -> None:
    port = free_port()
    with OwnGateway(stack, tmp_path, listen_discovery={"port": port}) as gateway:
        stack.pause("cluster/east")
        try:
            until(lambda: gateway.metric("cluster_reachable", cluster="east") == 0, "east is out of reach")
            connection = BlockingConnection("gw", "127.0.0.1", port, SecurityProfile(), Deadline.after(30))
            asked = {"topics": [{"name": "in-east"}], "allow_auto_topic_creation": False}
            found = connection.call(ApiKey.METADATA, asked)
            assert [f"{b['host']}:{b['port']}" for b in found["brokers"]] == bootstrap(stack, "east").split(",")
            assert found["topics"][0]["partitions"][0]["leader_id"] >= 0
            connection.close()
        finally:
            stack.resume("cluster/east")
        reader = Consumer(settings(port, **{"group.id": "later"}))
        until(lambda: _answers(reader), "east answers again")
        reader.close()


def _answers(consumer: Consumer) -> bool:
    try:
        return bool(consumer.get_watermark_offsets(TopicPartition("in-east", 0), timeout=5))
    except KafkaException:
        return False
