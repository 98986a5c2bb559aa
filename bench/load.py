"""Load by confluent-kafka in a process of its own: `python -m bench.load '{"do": "produce" | "fetch" | "latency", …}'`.

The last line of its output is the answer as JSON. Times are seconds on the monotonic clock.
"""

from __future__ import annotations

import json
import random
import sys
import time
from typing import Any

WARM_RECORDS = 30
STALLED_S = 60.0
_BASE = {"log_level": 3, "broker.address.family": "v4"}


class LoadError(Exception):
    """Records that were refused, or an answer that never came."""


def produce(
    *, bootstrap: str, topic: str, partitions: int, records: int, record_bytes: int, seed: int, settings: dict[str, Any]
) -> dict[str, float]:
    """Send `records` values as fast as they go, evenly to all partitions; `{"seconds"}` until all are acknowledged."""
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
    values = [random.Random(seed + one).randbytes(record_bytes) for one in range(64)]

    def send(count: int) -> None:
        for number in range(count):
            while True:
                try:
                    producer.produce(topic, values[number & 63], partition=number % partitions)
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
    """Read the last `records` of a topic, evenly from all partitions; `{"seconds"}` until all were handed over."""
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

    `rate` is in records per second of each target. Returns per name the seconds from produce() to the report.
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


def main() -> int:
    parameters = json.loads(sys.argv[1])
    program = {"produce": produce, "fetch": fetch, "latency": latency}[parameters.pop("do")]
    print(json.dumps(program(**parameters)))  # type: ignore[operator]
    return 0


if __name__ == "__main__":
    sys.exit(main())
