"""A reader of one topic through one gateway, and the bytes that this gateway has served from copies."""

import re
import time
from typing import Any

import httpx
from confluent_kafka import Consumer, TopicPartition

from ha_core.store.store import Store
from tests.kafka.mirroring import wait_until
from tests.kit.consumed import place_of, value_of


class Reader:
    """Reads all partitions from their beginning, through its gateway, and keeps the offsets and numbers."""

    def __init__(self, gateway: dict[str, Any], topic: str, partitions: int, client_id: str = "reads") -> None:
        """:param gateway: one of the stack's; if there are several, `client_id` must lead to it."""
        self.gateway, self.topic, self.partitions = gateway, topic, partitions
        self._consumer = Consumer(
            {
                "bootstrap.servers": gateway["bootstrap"],
                "client.id": client_id,
                "group.id": f"reads-by-{gateway['id']}",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 200,
                "auto.offset.reset": "error",
            }
        )
        self.begin()

    def begin(self) -> None:
        self.found: dict[int, list[tuple[int, bytes]]] = {n: [] for n in range(self.partitions)}
        self._consumer.assign([TopicPartition(self.topic, n, 0) for n in range(self.partitions)])

    @property
    def count(self) -> int:
        return sum(map(len, self.found.values()))

    def read_what_comes(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            for message in self._consumer.consume(1000, min(left, 0.2)):
                assert message.error() is None, message.error()
                _, partition, offset = place_of(message)
                self.found[partition].append((offset, value_of(message)))

    def read(self, wanted: int, seconds: float = 180) -> None:
        """Reads until it has this many records."""
        until = time.monotonic() + seconds
        while self.count < wanted:
            assert time.monotonic() < until, (self.count, wanted)
            self.read_what_comes(0.2)

    def from_copy(self, cluster: str) -> float:
        """Bytes that its gateway has served from the copies in a cluster."""
        return served_from_copy(self.gateway, cluster)

    def near_from_copy(self, cluster: str) -> float:
        """Those of them that crossed no zone boundary."""
        return served_from_copy(self.gateway, cluster, "mirror_fetch_near_bytes")

    def goes_over_to_the_copy(self, store: Store, cluster: str) -> None:
        """Reads until the gateway serves it from there."""
        before, begun = self.from_copy(cluster), time.monotonic()

        def served() -> bool:
            self.read_what_comes(1.0)
            return self.from_copy(cluster) > before

        def told() -> object:
            return before, self.count, store.follow_mirror_copies().read(), store.mirror_reports()

        wait_until(served, told)
        print(f"at the copy in {cluster} after {time.monotonic() - begun:.1f} s")

    def assert_all_once(self) -> None:
        """No record is missing or duplicated, and all have their offsets in the source."""
        for partition, found in self.found.items():
            numbers = range(partition, self.partitions * len(found), self.partitions)
            assert found == [(at, b"%d" % number) for at, number in enumerate(numbers)]

    def close(self) -> None:
        self._consumer.close()


def served_from_copy(gateway: dict[str, Any], cluster: str, counter: str = "mirror_fetch_bytes") -> float:
    """Bytes that a gateway has served from the copies in a cluster, by one of its counters."""
    said = httpx.get(f"{gateway['http']}/metrics").text
    found = re.search(rf'^switchyard_gateway_{counter}_total{{cluster="{cluster}"}} (\S+)$', said, re.MULTILINE)
    return float(found.group(1)) if found else 0.0
