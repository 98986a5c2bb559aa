"""Clients that write and read one request at a time, through a gateway or at a broker, and note what they are told."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ha_core.kafka.connection import BlockingConnection
from ha_core.kafka.deadline import Deadline
from ha_core.store.store import Store
from ha_core.wire.codes import ApiKey
from ha_core.wire.sasl import SecurityProfile
from stack.clients.halting_sender import batch
from stack.harness import Stack

PATIENCE_S = 60.0


class Place(NamedTuple):
    """Where a topic's first partition is written and read."""

    host: str
    port: int


def brokers_place(stack: Stack) -> Place:
    host, port = stack.clusters["east"]["bootstrap"].split(",")[0].rsplit(":", 1)
    return Place(host, int(port))


def gateways_places(stack: Stack, store: Store, topic: str) -> list[Place]:
    """At each gateway, by id."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        host, port = stack.bootstrap.split(",")[0].rsplit(":", 1)
        leader = _leader(connect(Place(host, int(port)), f"HA#nobody#{topic}"), topic)
        records = sorted(store.gateways(), key=lambda record: record.id)
        if leader >= 0 and all(leader in record.nodes for record in records):
            return [Place(record.host, record.first_node_port + leader) for record in records]
        assert time.monotonic() < deadline, "the gateways do not lead to the topic"
        time.sleep(0.2)


def connect(place: Place, client_id: str) -> BlockingConnection:
    return BlockingConnection("here", *place, SecurityProfile(), Deadline.after(PATIENCE_S), client_id=client_id)


def _leader(connection: BlockingConnection, topic: str) -> int:
    try:
        answer = connection.call(ApiKey.METADATA, {"topics": [{"name": topic}], "allow_auto_topic_creation": False}, 8)
    finally:
        connection.close()
    (found,) = answer["topics"]
    return int(found["partitions"][0]["leader_id"]) if found["partitions"] else -1


@dataclass
class Used:
    """What one client was told, request by request."""

    throttle_ms: list[int] = field(default_factory=list)
    took_s: float = 0.0
    size: int = 0

    @property
    def waited_ms(self) -> int:
        return sum(self.throttle_ms)

    @property
    def throttled(self) -> list[int]:
        return [ms for ms in self.throttle_ms if ms]


def write(place: Place, client_id: str, topic: str, size: int, seconds: float, version: int = 9) -> Used:
    """Writes for so long, as fast as it is let."""
    used = Used()
    connection = connect(place, client_id)
    records = batch(b"x" * size, int(time.time() * 1000))
    entry = {"index": 0, "records": records}
    message = {"acks": 1, "timeout_ms": 5000, "topic_data": [{"name": topic, "partition_data": [entry]}]}
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        connection.until = Deadline.after(PATIENCE_S)
        answer = connection.call(ApiKey.PRODUCE, {"transactional_id": None, **message}, version)
        (part,) = answer["responses"][0]["partition_responses"]
        assert part["error_code"] == 0, part
        used.throttle_ms.append(answer["throttle_time_ms"])
        used.size += len(records)
    used.took_s = time.monotonic() - began
    connection.close()
    return used


def read(place: Place, client_id: str, topic: str, most_bytes: int, seconds: float, version: int = 11) -> Used:
    """Reads one batch a time from the beginning of the topic, again and again, for so long."""
    used = Used()
    connection = connect(place, client_id)
    partition = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "partition_max_bytes": most_bytes}
    message: dict[str, Any] = {
        "max_wait_ms": 100,
        "min_bytes": 1,
        "max_bytes": 50 << 20,
        "isolation_level": 0,
        "topics": [{"topic": topic, "partitions": [partition]}],
    }
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        connection.until = Deadline.after(PATIENCE_S)
        answer = connection.call(ApiKey.FETCH, message, version)
        for topic_answer in answer["responses"]:
            for part in topic_answer["partitions"]:
                assert part["error_code"] == 0, part
                used.size += len(part["records"] or b"")
        used.throttle_ms.append(answer["throttle_time_ms"])
    used.took_s = time.monotonic() - began
    connection.close()
    return used


def limit(place: Place, entity: dict[str, str | None], **limits: float | None) -> list[dict[str, Any]]:
    """ALTER_CLIENT_QUOTAS: what was said to it."""
    ops = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in limits.items()]
    entry = {"entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()], "ops": ops}
    connection = connect(place, "limits")
    try:
        answer = connection.call(ApiKey.ALTER_CLIENT_QUOTAS, {"entries": [entry], "validate_only": False})
    finally:
        connection.close()
    entries: list[dict[str, Any]] = answer["entries"]
    return entries
