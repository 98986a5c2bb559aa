"""What tests of dead clusters look at: who leads, what was acknowledged, what was read."""

from __future__ import annotations

import time
from collections.abc import Callable

from ha_core.store import connect
from stack.clients.process import Client
from stack.harness import Stack
from stack.history.events import Acked, Delivered
from tests.kit.running import ZOOKEEPER_ROOT


def until(holds: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
    """Wait for a condition; an AssertionError names it."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, f"not after {timeout_s:.0f} s: {what}"
        time.sleep(0.05)


def led_from(stack: Stack, name: str) -> set[str]:
    """Clusters to whose brokers the gateways send clients of the topic."""
    from confluent_kafka.admin import AdminClient

    store = connect(stack.zookeeper, root=ZOOKEEPER_ROOT)
    try:
        clusters = {node: key.split(":", maxsplit=1)[0] for key, node in store.nodes().items()}
    finally:
        store.close()
    found: set[str] = set()
    for gateway in stack.gateways:
        settings = {"bootstrap.servers": gateway["bootstrap"], "client.id": f"HA#{name}#{name}", "log_level": 3}
        partitions = AdminClient(settings).list_topics(name, timeout=20).topics[name].partitions.values()
        found |= {clusters.get(one.leader, "nowhere") for one in partitions}
    return found


def acked(producer: Client) -> list[Acked]:
    return [one for one in producer.history().clients[producer.name] if isinstance(one, Acked)]


def given(consumer: Client) -> list[Delivered]:
    return [one for one in consumer.history().clients[consumer.name] if isinstance(one, Delivered)]


def assert_ascending(consumer: Client) -> None:
    """Offsets never go back, nor mean a second record, whatever the assignments."""
    last: dict[int, int] = {}
    for one in given(consumer):
        assert one.offset > last.get(one.partition, -1), f"{one} after offset {last[one.partition]}"
        last[one.partition] = one.offset
