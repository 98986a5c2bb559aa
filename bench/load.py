"""Load in a separate process: `python -m bench.load '{"do": "produce" | "requests" | "lag" | …, …}'`.

All but `copy` and `requests` use confluent-kafka; `copy` and `stamp` run until they are ended.

The last line of the output is the answer as JSON. Times are seconds on the monotonic clock.
"""

import json
import random
import select
import socket
import ssl
import struct
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from bench.figures import spread
from bench.probes import broker_of
from ha_core.tls.renewing import context_of
from ha_core.wire import ApiKey, decode, encode, encode_request, response_body_at
from ha_core.wire.tls_files import TlsFiles
from stack.clients.halting_sender import batch

WARM_RECORDS = 30
STALLED_S = 60.0
PRODUCE_VERSION, FETCH_VERSION = 9, 12
"""The newest versions that every path offers."""
ANSWER_S = 30.0
WARM_REQUESTS = 50
MOST_OVERHEAD = 100
"""Bytes of a batch and its record around the value."""
_BASE = {"log_level": 3, "broker.address.family": "v4"}


class LoadError(Exception):
    """Records were refused, or an answer never came."""


def produce(
    *,
    bootstrap: str,
    topic: str,
    partitions: int,
    records: int,
    record_bytes: int,
    seed: int,
    settings: dict[str, Any],
    random_share: float = 1.0,
    values: int = 64,
) -> dict[str, float]:
    """Send `records` values at full speed, evenly to all partitions; returns `{"seconds"}` until all are acknowledged.

    :param random_share: of each value; the rest is zeros, which compress away.
    :param values: number of different ones. If they are few, the random part compresses away, too.
    """
    from confluent_kafka import Producer

    failed: list[str] = []
    producer = Producer(
        {
            **_BASE,
            "bootstrap.servers": bootstrap,
            "acks": "all",
            "enable.idempotence": True,
            "delivery.report.only.error": True,
            "on_delivery": lambda error, _message: failed.append(str(error)),
            "queue.buffering.max.messages": 200_000,
            **settings,
        }
    )
    noise = round(record_bytes * random_share)
    payloads = [random.Random(seed + one).randbytes(noise).ljust(record_bytes, b"\0") for one in range(values)]

    def send(count: int) -> None:
        for number in range(count):
            while True:
                try:
                    producer.produce(topic, payloads[number % values], partition=number % partitions)
                except BufferError:
                    producer.poll(0.01)
                else:
                    break
        left = producer.flush(STALLED_S)
        if left or failed:
            raise LoadError(f"{left} of {count} records without an answer, {len(failed)} refused: {failed[:1]}")

    send(WARM_RECORDS)
    begun = time.monotonic()
    send(records)
    return {"seconds": time.monotonic() - begun}


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
    """Single requests, one in flight, with pauses: between two of them a gateway's caches get cold, as in operation.

    Frames are prepared, and written to a bare socket, so that no client library's delays or threads are measured.
    Returns the seconds of `samples` requests from sending to answer, and the number of all requests:
    `{"seconds", "asked"}`.

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
        warm = max(WARM_REQUESTS, connections)
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
    part = {"index": 0, "records": batch(random.Random(seed).randbytes(record_bytes), int(time.time() * 1000))}
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


def copy(*, source: str, target: str, topic: str, log: str, link: str, partitions: int, remote: str = "") -> None:
    """Copy a topic with one loop, until this process is ended.

    :param remote: name of the copy; "": the topic's own.
    """
    from ha_core.kafka.admin import Admin
    from ha_core.kafka.copying import Copying
    from ha_core.kafka.takeover import CopyPartition
    from ha_core.mirror.notes import CopyId
    from ha_core.model import Cluster

    copies = [
        CopyPartition(CopyId(link, remote or topic, partition), (log, 0), topic if remote else "")
        for partition in range(partitions)
    ]
    with (
        Admin(Cluster(name="source", bootstrap=source)) as here,
        Admin(Cluster(name="target", bootstrap=target)) as there,
    ):
        Copying(here, there, copies).run()


def stamp(*, bootstrap: str, topic: str, partitions: int, bytes_s: float, record_bytes: int, seed: int) -> None:
    """Write records that begin with the time (ns), evenly to all partitions, until this process is ended."""
    from confluent_kafka import Producer

    producer = Producer({**_BASE, "bootstrap.servers": bootstrap, "acks": "all"})
    rest = random.Random(seed).randbytes(record_bytes - 8)
    begun, sent = time.monotonic(), 0
    while True:
        due = int((time.monotonic() - begun) * bytes_s / record_bytes)
        for number in range(sent, due):
            producer.produce(topic, time.time_ns().to_bytes(8, "big") + rest, partition=number % partitions)
        sent = due
        producer.poll(0)
        time.sleep(0.001)


def lag(*, bootstrap: str, topic: str, partitions: int, seconds: float) -> dict[str, float]:
    """Ages of stamped records, in ms, when a consumer at the end of a topic gets them."""
    from confluent_kafka import OFFSET_END, Consumer
    from confluent_kafka.cimpl import TopicPartition

    consumer = Consumer({**_BASE, "bootstrap.servers": bootstrap, "group.id": "bench"})
    consumer.assign([TopicPartition(topic, partition, OFFSET_END) for partition in range(partitions)])
    ages_ms: list[float] = []
    until = time.monotonic() + STALLED_S
    while not ages_ms or time.monotonic() < until:
        message = consumer.poll(0.1)
        if message is not None and (value := message.value()) is not None and message.error() is None:
            if not ages_ms:
                until = time.monotonic() + seconds
            ages_ms.append((time.time_ns() - int.from_bytes(value[:8], "big")) / 1e6)
        elif not ages_ms and time.monotonic() > until:
            raise LoadError(f"no record of {topic} came within {STALLED_S:.0f} s")
    consumer.close()
    return spread(ages_ms)


def handshakes(*, address: str, ca_file: str, resumed: bool, begin_at: float, seconds: float) -> dict[str, float | str]:
    """Connect, shake hands and disconnect, one connection after the other, from `begin_at` (monotonic) on.

    Each ends when the server has sent a session ticket: then it has no more work to do.

    :param resumed: each resumes the session of the one before it.
    """
    context = ssl.create_default_context(cafile=ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_3  # tickets follow the handshake
    host, _, port = address.rpartition(":")
    session, count, reused, said = None, 0, 0, ""
    for _ in range(WARM_RECORDS):
        session, _, said = _handshake(context, host, int(port), session if resumed else None)
    time.sleep(max(0.0, begin_at - time.monotonic()))
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        session, again, _ = _handshake(context, host, int(port), session if resumed else None)
        count += 1
        reused += again
    return {"handshakes": count, "resumed": reused, "seconds": time.monotonic() - begun, "cipher": said}


def _handshake(
    context: ssl.SSLContext, host: str, port: int, session: ssl.SSLSession | None
) -> tuple[ssl.SSLSession, bool, str]:
    """The session for the next one, whether this one was resumed, and the protocol and cipher."""
    with (
        socket.create_connection((host, port), timeout=STALLED_S) as plain,
        context.wrap_socket(plain, server_hostname=host, session=session) as sock,
    ):
        sock.setblocking(False)
        while True:
            if not select.select([sock], [], [], STALLED_S)[0]:
                raise LoadError(f"{host}:{port} has handed out no ticket within {STALLED_S:.0f} s")
            try:
                sock.read(1)
            except ssl.SSLWantReadError:  # only tickets, or a part of one, have arrived
                found = sock.session
                if found is not None and found.has_ticket:
                    return found, bool(sock.session_reused), f"{sock.version()} {(sock.cipher() or ('',))[0]}"
            else:
                raise LoadError(f"{host}:{port} has disconnected, or has sent data without a request")


def main() -> int:
    parameters = json.loads(sys.argv[1])
    programs: dict[str, Callable[..., Any]] = {
        "produce": produce,
        "requests": requests,
        "copy": copy,
        "stamp": stamp,
        "lag": lag,
        "handshakes": handshakes,
    }
    print(json.dumps(programs[parameters.pop("do")](**parameters)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
