"""Load in a separate process: `python -m bench.load '{"do": "produce" | "fetch" | "latency" | …, …}'`.

All but `copy` and `requests` use confluent-kafka; `copy` and `stamp` run until they are ended.

The last line of the output is the answer as JSON. Times are seconds on the monotonic clock.
"""

from __future__ import annotations

import json
import random
import select
import socket
import ssl
import sys
import time
from collections.abc import Callable
from typing import Any

from bench.figures import spread
from bench.one_in_flight import requests

WARM_RECORDS = 30
STALLED_S = 60.0
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


def fetch(*, bootstrap: str, topic: str, partitions: int, records: int, settings: dict[str, Any]) -> dict[str, float]:
    """Read the last `records` of a topic, evenly from all partitions; returns `{"seconds"}` until all are delivered."""
    from confluent_kafka import Consumer
    from confluent_kafka.cimpl import TopicPartition

    consumer = Consumer(
        {**_BASE, "bootstrap.servers": bootstrap, "group.id": "bench", "enable.auto.commit": False, **settings}
    )
    share = records // partitions
    places = []
    for partition in range(partitions):
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=STALLED_S)
        if high - share < low:
            raise LoadError(f"{topic}-{partition} holds {high - low} records of the {share} that are to be read")
        places.append(TopicPartition(topic, partition, high - share))
    count = 0
    begun = time.monotonic()
    consumer.assign(places)
    while count < share * partitions:
        messages = consumer.consume(5000, timeout=1.0)
        for message in messages:
            if message.error() is not None:
                raise LoadError(str(message.error()))
        count += len(messages)
        if time.monotonic() - begun > STALLED_S:
            raise LoadError(f"{count} of {records} records after {STALLED_S:.0f} s")
    seconds = time.monotonic() - begun
    consumer.close()
    return {"seconds": seconds}


def latency(
    *, targets: list[tuple[str, str, str]], samples: int, rate: float, record_bytes: int, seed: int
) -> dict[str, list[float]]:
    """Send one record at a time to each of `targets` (name, bootstrap, topic) in turns and wait for its answer.

    `rate` is in records per second and target. Returns per name the seconds from produce() to the report.
    """
    from confluent_kafka import Producer

    answered: list[Any] = []
    producers = {
        name: (
            Producer({**_BASE, "bootstrap.servers": bootstrap, "acks": "all", "linger.ms": 0, "max.in.flight": 1}),
            topic,
        )
        for name, bootstrap, topic in targets
    }
    value = random.Random(seed).randbytes(record_bytes)
    taken: dict[str, list[float]] = {name: [] for name in producers}

    def once(name: str) -> float:
        producer, topic = producers[name]
        answered.clear()
        begun = time.perf_counter()
        producer.produce(topic, value, partition=0, on_delivery=lambda error, _message: answered.append(error))
        while not answered:
            producer.poll(STALLED_S)
            if time.perf_counter() - begun > STALLED_S:
                raise LoadError(f"{name}: no answer within {STALLED_S:.0f} s")
        seconds = time.perf_counter() - begun
        if answered[0] is not None:
            raise LoadError(f"{name}: {answered[0]}")
        return seconds

    for name in producers:
        for _ in range(WARM_RECORDS):
            once(name)
    names = list(producers)
    due = time.monotonic()
    for number in range(samples):
        order = names if number % 2 == 0 else names[::-1]
        for name in order:
            due = max(due + 1 / (rate * len(names)), time.monotonic() - 1.0)
            time.sleep(max(0.0, due - time.monotonic()))
            taken[name].append(once(name))
    return taken


def copy(*, source: str, target: str, topic: str, log: str, link: str, partitions: int) -> None:
    """Copy a topic with one loop, until this process is ended."""
    from ha_core.kafka.admin import Admin
    from ha_core.kafka.copying import Copying
    from ha_core.kafka.takeover import CopyPartition
    from ha_core.mirror.notes import CopyId
    from ha_core.model import Cluster

    copies = [CopyPartition(CopyId(link, topic, partition), (log, 0)) for partition in range(partitions)]
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
        "fetch": fetch,
        "latency": latency,
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
