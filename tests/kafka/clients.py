"""Ordinary clients that reach a cluster directly."""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, Producer

from ha_core.kafka.admin import Admin
from ha_core.kafka.brokers import ReachableCluster
from ha_core.kafka.facts import GroupDescription
from ha_core.wire.sasl import SecurityProfile
from stack.clients.confluent_settings import client_settings

Settings = dict[str, str | int | float | bool]


def settings(cluster: ReachableCluster, account: SecurityProfile) -> Settings:
    return {"bootstrap.servers": cluster.bootstrap, "log_level": 0, **client_settings(account)}


def produce(base: Settings, topic: str, count: int, partition: int = 0, **more: str | bool) -> Producer:
    """`count` acknowledged records in one partition."""
    producer = Producer(base | {key.replace("_", "."): value for key, value in more.items()})
    for number in range(count):
        producer.produce(topic, str(number).encode(), partition=partition)
    assert producer.flush(30) == 0
    return producer


@contextmanager
def live_members(
    admin: Admin, base: Settings, group: str, topic: str, members: Iterable[Settings]
) -> Iterator[Callable[[], GroupDescription]]:
    """Consumers of `topic` that keep polling once all of them are assigned."""
    consumers = [Consumer(base | {"group.id": group, "auto.offset.reset": "earliest"} | member) for member in members]

    def stable() -> GroupDescription:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            for consumer in consumers:
                consumer.poll(0.05)
            description = admin.describe_groups([group])[group]
            if (
                description.state == "Stable"
                and len(description.members) == len(consumers)
                and all(c.assignment() for c in consumers)
            ):
                return description
        raise AssertionError(f"group {group} did not become stable: {description}")

    try:
        for consumer in consumers:
            consumer.subscribe([topic])
        yield stable
    finally:
        for consumer in consumers:
            consumer.close()
