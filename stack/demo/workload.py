"""Ordinary clients of one user: producers and one consumer group, of three libraries, through the gateways."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from stack.clients.process import Client, history_of
from stack.harness import Stack
from stack.history.evidence import cuts_of, dump_topic
from stack.history.history import History

USER = "orders-app"
TOPIC = "orders"
GROUP = "billing"
PARTITIONS = 6
RECORDS_PER_S = 100.0
PRODUCERS = {
    "orders-confluent": "confluent-producer",
    "orders-python": "kafka-python-producer",
    "orders-java": "java-producer",
}
CONSUMERS = {
    "billing-confluent": "confluent-consumer",
    "billing-python": "kafka-python-consumer",
    "billing-java": "java-consumer",
}
ROOT = "/switchyard"


class Workload:
    """The clients of the demo and what they saw. `end` whatever happens."""

    def __init__(self, stack: Stack, directory: Path) -> None:
        self._stack = stack
        self._directory = directory
        self.producers: list[Client] = []
        self.consumers: list[Client] = []

    @property
    def clients(self) -> list[Client]:
        return [*self.producers, *self.consumers]

    def start(self) -> None:
        """Return when every client is at work."""
        login = {"user": USER, "password": self._stack.users[USER]}
        common: dict[str, Any] = {"bootstrap": self._stack.bootstrap, "topic": TOPIC, **login}
        for name, kind in CONSUMERS.items():
            self.consumers.append(Client.start(kind, directory=self._directory, client=name, group=GROUP, **common))
        for name, kind in PRODUCERS.items():
            self.producers.append(
                Client.start(kind, directory=self._directory, client=name, rate=RECORDS_PER_S, **common)
            )
        for producer in self.producers:
            producer.wait_for(20, "acknowledged")
        for consumer in self.consumers:
            consumer.wait_for(20, "delivered")

    def stop(self, timeout_s: float = 60.0) -> None:
        """Stop the producers, let the group read to the end, stop it too. What never comes is named by the check."""
        for producer in self.producers:
            producer.stop()
        promised = sum(producer.count("acknowledged") for producer in self.producers)
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline and sum(one.count("delivered") for one in self.consumers) < promised:
            time.sleep(0.2)
        for consumer in self.consumers:
            consumer.stop()

    def end(self) -> None:
        """Kill what still runs."""
        for client in self.clients:
            client.kill()

    def history(self, settings: Mapping[str, Any]) -> History:
        """What the clients saw, the cuts from the map, and both clusters' logs read directly with `settings`."""
        from ha_core.store import connect

        store = connect(self._stack.zookeeper, root=ROOT)
        try:
            cuts = cuts_of([store.load().topics[TOPIC]])
        finally:
            store.close()
        logs = [
            dump
            for name, cluster in self._stack.clusters.items()
            for dump in dump_topic(name, cluster["bootstrap"], TOPIC, settings)
        ]
        return history_of(self.clients).with_evidence(cuts, (), logs)


def prepare(stack: Stack, settings: Mapping[str, Any], cluster: str) -> None:
    """The topic in `cluster`, and the user bound to it."""
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    from ha_core.moves.bindings import apply_bindings, plan_bindings, with_level
    from ha_core.moves.context import Connection, connect

    admin = AdminClient({"bootstrap.servers": stack.clusters[cluster]["bootstrap"], "log_level": 0, **settings})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(30)
    with connect(Connection(stack.zookeeper, root=ROOT), by="cli:demo") as environment:
        declared = with_level(environment.store.load(), f"user:{USER}", cluster)
        apply_bindings(environment, plan_bindings(environment, declared), "the demo begins here")
