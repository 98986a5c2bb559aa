"""Clients that write and read one request at a time, through a gateway or at a broker, and record the answers."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ha_core.kafka.connection import BlockingConnection, Deadline
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
    """One per gateway, by id."""
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


WARM_S = 12.0
"""Seconds for which clients keep a pace, so that a quota's samples are spread over its seconds. A burst would leave the
window at once, and let the next one through: throttle times would depend on the bursts' timing, at a broker too."""


@dataclass
class Used:
    """Answers to one client, request by request, at full speed."""

    throttle_ms: list[int] = field(default_factory=list)
    size: int = 0
    warm_ms: list[int] = field(default_factory=list)
    """Answers before, while it kept its pace."""

    @property
    def waited_ms(self) -> int:
        return sum(self.throttle_ms)

    @property
    def throttled(self) -> list[int]:
        return [ms for ms in self.throttle_ms if ms]


Exchange = Callable[[BlockingConnection], tuple[int, int]]
"""One request: the throttle time of its answer, and its number of bytes."""


def use(place: Place, client_id: str, exchange: Exchange, seconds: float, pace_s: float = 0.0) -> Used:
    """:param pace_s: initial interval of requests; 0: full speed at once."""
    used = Used()
    connection = connect(place, client_id)
    began, turn = time.monotonic(), 0
    while pace_s and time.monotonic() - began < WARM_S:
        connection.until = Deadline.after(PATIENCE_S)
        used.warm_ms.append(exchange(connection)[0])
        turn += 1
        time.sleep(max(0.0, began + turn * pace_s - time.monotonic()))
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        connection.until = Deadline.after(PATIENCE_S)
        ms, size = exchange(connection)
        used.throttle_ms.append(ms)
        used.size += size
    connection.close()
    return used


def write(
    place: Place, client_id: str, topic: str, size: int, seconds: float, pace_s: float = 0.0, version: int = 9
) -> Used:
    records = batch(b"x" * size, int(time.time() * 1000))
    entry = {"index": 0, "records": records}
    message = {"acks": 1, "timeout_ms": 5000, "topic_data": [{"name": topic, "partition_data": [entry]}]}

    def exchange(connection: BlockingConnection) -> tuple[int, int]:
        answer = connection.call(ApiKey.PRODUCE, {"transactional_id": None, **message}, version)
        (part,) = answer["responses"][0]["partition_responses"]
        assert part["error_code"] == 0, part
        return answer["throttle_time_ms"], len(records)

    return use(place, client_id, exchange, seconds, pace_s)


def read(place: Place, client_id: str, topic: str, most_bytes: int, seconds: float, pace_s: float = 0.0) -> Used:
    """One batch at a time from the beginning of the topic, repeatedly."""
    partition = {"partition": 0, "current_leader_epoch": -1, "fetch_offset": 0, "partition_max_bytes": most_bytes}
    message: dict[str, Any] = {
        "max_wait_ms": 100,
        "min_bytes": 1,
        "max_bytes": 50 << 20,
        "isolation_level": 0,
        "topics": [{"topic": topic, "partitions": [partition]}],
    }

    def exchange(connection: BlockingConnection) -> tuple[int, int]:
        answer = connection.call(ApiKey.FETCH, message, 11)
        parts = [part for of_topic in answer["responses"] for part in of_topic["partitions"]]
        assert {part["error_code"] for part in parts} <= {0}, parts
        return answer["throttle_time_ms"], sum(len(part["records"] or b"") for part in parts)

    return use(place, client_id, exchange, seconds, pace_s)


def limit(place: Place, entity: dict[str, str | None], **limits: float | None) -> list[dict[str, Any]]:
    """Answer to ALTER_CLIENT_QUOTAS."""
    ops = [{"key": key, "value": value or 0.0, "remove": value is None} for key, value in limits.items()]
    entry = {"entity": [{"entity_type": kind, "entity_name": name} for kind, name in entity.items()], "ops": ops}
    connection = connect(place, "limits")
    try:
        answer = connection.call(ApiKey.ALTER_CLIENT_QUOTAS, {"entries": [entry], "validate_only": False})
    finally:
        connection.close()
    entries: list[dict[str, Any]] = answer["entries"]
    return entries
