"""Single requests, one in flight, with pauses: between two of them a gateway's caches get cold, as in operation.

Frames are prepared, and written to a bare socket, so that no client library's delays or threads are measured.
"""

from __future__ import annotations

import random
import socket
import struct
import time
from contextlib import ExitStack
from typing import Any

from bench.probes import broker_of, one_batch
from ha_core.tls.renewing import context_of
from ha_core.wire import ApiKey, decode, encode, encode_request, response_body_at
from ha_core.wire.tls_files import TlsFiles

PRODUCE_VERSION, FETCH_VERSION = 9, 12
"""The newest versions that every path offers."""
ANSWER_S = 30.0
WARM = 50
MOST_OVERHEAD = 100
"""Bytes of a batch and its record around the value."""


def requests(
    *,
    target: tuple[str, str],
    kind: str,
    samples: int,
    connections: int,
    record_bytes: int,
    pause_s: float,
    seed: int,
    offset: int = 0,
    ca_file: str | None = None,
) -> dict[str, Any]:
    """Seconds of `samples` requests from sending to answer, and the number of all requests: `{"seconds", "asked"}`.

    :param target: bootstrap address and topic.
    :param kind: `produce`, one record to partition 0; or `fetch`, the batch at `offset` of it, which has one
        record of `record_bytes`.
    :param connections: number of connections, used in turns.
    :raises OSError: the path is gone. :raises ValueError: an answer belongs to another request, or is an error.
    """
    bootstrap, topic = target
    api, version = (ApiKey.PRODUCE, PRODUCE_VERSION) if kind == "produce" else (ApiKey.FETCH, FETCH_VERSION)
    produces = kind == "produce"
    body = _produce_body(topic, record_bytes, seed) if produces else _fetch_body(topic, record_bytes, offset)
    frame = bytearray(encode_request(api, version, 0, "bench", body))
    taken: list[float] = []
    with ExitStack() as stack:
        address = broker_of(bootstrap, topic, ca_file)
        socks = [stack.enter_context(_connect(address, ca_file)) for _ in range(connections)]
        warm = max(WARM, connections)
        for number in range(warm + samples):
            struct.pack_into(">i", frame, 8, number)
            time.sleep(pause_s)
            sock = socks[number % connections]
            begun = time.perf_counter()
            sock.sendall(frame)
            answer = _answer(sock)
            took = time.perf_counter() - begun
            _check(api, version, answer, number, record_bytes)
            if number >= warm:
                taken.append(took)
    return {"seconds": taken, "asked": warm + samples}


def _connect(address: str, ca_file: str | None) -> socket.socket:
    host, _, port = address.rpartition(":")
    sock = socket.create_connection((host, int(port)), ANSWER_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if ca_file is None:
        return sock
    return context_of(TlsFiles(ca_file=ca_file)).wrap_socket(sock, server_hostname=host)


def _answer(sock: socket.socket) -> bytes:
    data = sock.recv(256 * 1024)
    while len(data) < 4 or len(data) < 4 + int.from_bytes(data[:4], "big"):
        more = sock.recv(4 << 20)
        if not more:
            raise ConnectionError("the connection was closed without an answer")
        data += more
    return data


def _check(api: ApiKey, version: int, answer: bytes, number: int, record_bytes: int) -> None:
    if int.from_bytes(answer[4:8], "big") != number:
        raise ValueError(f"the answer to request {number} belongs to another one")
    message = decode(api, version, "response", answer, response_body_at(api, version, answer, 4))
    topic = message["responses"][0]
    part: dict[str, Any] = (topic.get("partition_responses") or topic["partitions"])[0]
    records = part.get("records")
    if part["error_code"] or records == b"":
        raise ValueError(f"{api.name} was answered with {part['error_code']} and {len(answer)} bytes")
    # A broker returns the first batch whole, whatever its size: paths to different batches could not be compared.
    if records is not None and len(records) > record_bytes + MOST_OVERHEAD:
        raise ValueError(f"the batch that is read again and again has {len(records)} bytes, not {record_bytes}")


def _produce_body(topic: str, record_bytes: int, seed: int) -> bytes:
    part = {"index": 0, "records": one_batch(random.Random(seed).randbytes(record_bytes))}
    message = {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": 30_000,
        "topic_data": [{"name": topic, "partition_data": [part]}],
    }
    return encode(ApiKey.PRODUCE, PRODUCE_VERSION, "request", message)


def _fetch_body(topic: str, record_bytes: int, offset: int) -> bytes:
    part = {
        "partition": 0,
        "current_leader_epoch": -1,
        "fetch_offset": offset,
        "last_fetched_epoch": -1,
        "log_start_offset": -1,
        "partition_max_bytes": record_bytes,
    }
    message = {
        "replica_id": -1,
        "max_wait_ms": 0,
        "min_bytes": 1,
        "max_bytes": record_bytes,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [part]}],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    return encode(ApiKey.FETCH, FETCH_VERSION, "request", message)
