"""Gateways that stop in the middle of a request, and gateways that end, while clients write."""

import time
from collections import Counter
from functools import partial

import pytest

from ha_core.wire import ApiKey
from stack.harness import Stack
from tests.kit.progress import acked, await_more, await_records
from tests.kit.running import Run, switch
from tests.kit.stacks import own_stack
from tests.kit.waiting import until
from tests.system.conftest import bound_run
from tests.system.raw_client import PRODUCE, RawClient, error_of, frame, record

pytestmark = pytest.mark.stack
METADATA = 1

stack = own_stack()


run = bound_run(partitions=1)


def leader(stack: Stack, client_id: str, topic: str, asked: int = 0) -> int:
    """Port to which the client writes, from one of the gateways; 0: not known yet."""
    with RawClient(int(stack.bootstrap.split(",")[asked].rpartition(":")[2])) as client:
        client.send(frame(ApiKey.METADATA, METADATA, client_id=client_id, topics=[{"name": topic}]))
        found = client.answer(ApiKey.METADATA, METADATA)
    leading = {partition["leader_id"] for partition in found["topics"][0]["partitions"]}
    return next((broker["port"] for broker in found["brokers"] if broker["node_id"] in leading), 0)


def agreed(stack: Stack, name: str, instance: str) -> bool:
    """Whether all gateways name one address to a client: none has just started or ended."""
    named = {leader(stack, f"HA#{name}#{instance}", name, asked) for asked in range(len(stack.gateways))}
    return len(named) == 1 and 0 not in named


def test_half_a_request_in_a_gateway_paused_during_a_switch_is_not_acknowledged(run: Run, name: str) -> None:
    # Given half of a request
    client_id = f"HA#{name}#{name}"
    sender = RawClient(leader(run.stack, client_id, name))
    sender.send(record(name, b"whole", client_id=client_id))
    assert error_of(sender.answer(ApiKey.PRODUCE, PRODUCE)) == 0
    request = record(name, b"halves" * 100_000, client_id=client_id)
    sender.send(request[:300_000])
    time.sleep(0.5)

    # When the gateways stop while the topic moves, and the rest comes the instant they resume
    for gateway in ("gateway/1", "gateway/2"):
        run.stack.pause(gateway)
    switch(run.stack, f"user:{name}", f"topic:{name}", origin="east", target="west")
    sender.send(request[300_000:])
    for gateway in ("gateway/1", "gateway/2"):
        run.stack.resume(gateway)

    # Then it is not acknowledged, and in no log
    assert sender.closes()
    time.sleep(2.0)
    assert [(cut.origin, cut.target) for cut in run.cuts([name])] == [("east", "west")]
    logs = {dump.cluster: list(dump.records.values()) for dump in run.dumps(name)}
    assert logs["east"] == ["whole"]
    assert logs.get("west", []) == []


@pytest.mark.soak
@pytest.mark.parametrize("gateway", ["gateway/1", "gateway/2"])
def test_an_orderly_gateway_stop_doubles_no_record_of_a_plain_producer(run: Run, name: str, gateway: str) -> None:
    # Given producers without idempotence on both gateways, with requests in flight at any time
    instances = [str(number) for number in range(4)]
    for instance in instances:  # a node whose address changes loses its client's connection
        until(partial(agreed, run.stack, name, instance), f"both gateways name one of them to client {instance}")
    settings = ("linger.ms=0", "queue.buffering.max.messages=100000")
    producers = [
        run.start(
            "confluent-producer", f"w{instance}", name, rate=200, idempotence="off", acks="all", settings=settings,
            client_id=f"HA#{name}#{instance}",
        )
        for instance in instances
    ]  # fmt: skip
    await_records(200, *producers)

    # When one gateway is stopped gracefully, and stays away while they write: when it is back its clients are sent
    # there again, and librdkafka then closes its connection to the other one, with everything in flight
    run.stack.stop(gateway)
    try:
        await_more(200, *producers)
        for producer in producers:
            producer.stop()
    finally:
        run.stack.restart(gateway)

    # Then each record is there once
    (log,) = (dump for dump in run.dumps(name) if dump.cluster == "east")
    times = Counter(log.records.values())
    assert sum(len(acked(producer)) for producer in producers) > 1_500
    assert [value for value, count in times.items() if count > 1] == []
