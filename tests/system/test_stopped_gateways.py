"""Gateways that stop in the middle of a request, and gateways that end, while clients write."""

from __future__ import annotations

import socket
import time
from collections import Counter
from functools import partial
from typing import Any

import pytest

from ha_core.wire import ApiKey, decode, encode, encode_request, response_body_at
from stack.clients.halting_sender import batch
from stack.harness import Stack
from tests.kit.running import Run, switch
from tests.kit.stacks import own_stack
from tests.kit.waiting import until
from tests.system.conftest import bound_run
from tests.system.watching import acked

pytestmark = pytest.mark.stack
METADATA, PRODUCE = 1, 7

stack = own_stack()


run = bound_run(partitions=1)


class Sender:
    """A hand-made client: one connection, requests in pieces."""

    def __init__(self, address: str, user: str, instance: str | None = None) -> None:
        host, port = address.rsplit(":", 1)
        self.sock = socket.create_connection((host, int(port)), timeout=20)
        self.client_id = f"HA#{user}#{instance or user}"

    def request(self, api_key: int, version: int, body: dict[str, Any]) -> bytes:
        encoded = encode(api_key, version, "request", body)
        return bytes(encode_request(api_key, version, 1, self.client_id, encoded))

    def answer(self, api_key: int, version: int) -> dict[str, Any] | None:
        """None: the connection closed without an answer."""
        try:
            head = self.sock.recv(4, socket.MSG_WAITALL)
            frame = head + self.sock.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL)
        except ConnectionError:
            return None
        if len(frame) < 8:
            return None
        return decode(api_key, version, "response", frame[response_body_at(api_key, version, frame, 4) :])


def leader(stack: Stack, name: str, instance: str | None = None, asked: int = 0) -> str:
    """Address to which the user's client writes, from one of the gateways; empty: not known yet."""
    sender = Sender(stack.bootstrap.split(",")[asked], name, instance)
    with sender.sock:
        sender.sock.sendall(sender.request(ApiKey.METADATA, METADATA, {"topics": [{"name": name}]}))
        found = sender.answer(ApiKey.METADATA, METADATA)
    assert found is not None
    (topic,) = found["topics"]
    leading = {partition["leader_id"] for partition in topic["partitions"]}
    return ",".join(f"{broker['host']}:{broker['port']}" for broker in found["brokers"] if broker["node_id"] in leading)


def agreed(stack: Stack, name: str, instance: str) -> bool:
    """Whether all gateways name one address to a client: none has just started or ended."""
    named = {leader(stack, name, instance, asked) for asked in range(len(stack.gateways))}
    return len(named) == 1 and "" not in named


def produce(sender: Sender, name: str, value: bytes) -> bytes:
    data = [{"index": 0, "records": batch(value, int(time.time() * 1000))}]
    topics = [{"name": name, "partition_data": data}]
    body = {"transactional_id": None, "acks": -1, "timeout_ms": 10_000, "topic_data": topics}
    return sender.request(ApiKey.PRODUCE, PRODUCE, body)


def require_acknowledged(answer: dict[str, Any] | None) -> None:
    """:raises AssertionError: it is not a successful answer to a produce request of one partition."""
    assert answer is not None
    (topic,) = answer["responses"]
    (partition,) = topic["partition_responses"]
    assert partition["error_code"] == 0


def test_half_a_request_in_a_gateway_paused_during_a_switch_is_not_acknowledged(
    run: Run, stack: Stack, name: str
) -> None:
    # Given half of a request
    sender = Sender(leader(stack, name), name)
    sender.sock.sendall(produce(sender, name, b"whole"))
    require_acknowledged(sender.answer(ApiKey.PRODUCE, PRODUCE))
    request = produce(sender, name, b"halves" * 100_000)
    sender.sock.sendall(request[:300_000])
    time.sleep(0.5)

    # When the gateways stop while the topic moves, and the rest comes the instant they resume
    for gateway in ("gateway/1", "gateway/2"):
        stack.pause(gateway)
    switch(stack, f"user:{name}", f"topic:{name}", origin="east", target="west")
    sender.sock.sendall(request[300_000:])
    for gateway in ("gateway/1", "gateway/2"):
        stack.resume(gateway)

    # Then it is not acknowledged, and in no log
    assert sender.answer(ApiKey.PRODUCE, PRODUCE) is None
    time.sleep(2.0)
    assert [(cut.origin, cut.target) for cut in run.cuts([name])] == [("east", "west")]
    logs = {dump.cluster: list(dump.records.values()) for dump in run.dumps(name)}
    assert logs["east"] == ["whole"]
    assert logs.get("west", []) == []


@pytest.mark.soak
@pytest.mark.parametrize("gateway", ["gateway/1", "gateway/2"])
def test_an_orderly_gateway_stop_doubles_no_record_of_a_plain_producer(
    run: Run, stack: Stack, name: str, gateway: str
) -> None:
    # Given producers without idempotence on both gateways, with requests in flight at any time
    instances = [str(number) for number in range(4)]
    for instance in instances:  # a node whose address changes loses its client's connection
        until(partial(agreed, stack, name, instance), f"both gateways name one of them to client {instance}")
    settings = ("linger.ms=0", "queue.buffering.max.messages=100000")
    producers = [
        run.start(
            "confluent-producer", f"w{instance}", name, rate=200, idempotence="off", acks="all", settings=settings,
            client_id=f"HA#{name}#{instance}",
        )
        for instance in instances
    ]  # fmt: skip
    for producer in producers:
        producer.wait_for(200, "acknowledged")

    # When one gateway is stopped gracefully, and stays away while they write: when it is back its clients are sent
    # there again, and librdkafka then closes its connection to the other one, with everything in flight
    stack.stop(gateway)
    try:
        counts = [producer.count("acknowledged") for producer in producers]
        for producer, count in zip(producers, counts, strict=True):
            producer.wait_for(count + 200, "acknowledged")
        for producer in producers:
            producer.stop()
    finally:
        stack.restart(gateway)

    # Then each record is there once
    (log,) = (dump for dump in run.dumps(name) if dump.cluster == "east")
    times = Counter(log.records.values())
    assert sum(len(acked(producer)) for producer in producers) > 1_500
    assert [value for value, count in times.items() if count > 1] == []
