"""Fills a topic faster than a client does, by appending a client's batches again and again."""

from collections.abc import Iterator, Sequence
from itertools import chain, repeat, zip_longest
from typing import Any

from bench.ground import BenchError
from ha_core.kafka.connection import BlockingConnection, Deadline
from ha_core.kafka.security import NO_SECURITY
from ha_core.wire.codes import ApiKey
from ha_core.wire.records import batches

_FETCH_BYTES = 16 << 20
_FETCH, _PRODUCE = 11, 8
"""Versions with topic names."""
_OFFSET_BYTES = 8
_IN_FLIGHT = 4
_TIMEOUT_S = 120.0


def multiply(*, bootstrap: str, topic: str, partitions: int, total_bytes: int) -> dict[str, int]:
    """Append until the topic's log has at least `total_bytes`. Returns `{"records", "bytes"}` of the log.

    The cluster has one broker, and the batches have no producer id. Raises BenchError.
    """
    host, _, port = bootstrap.rpartition(":")
    connection = BlockingConnection("the source", host, int(port), NO_SECURITY, Deadline.after(_TIMEOUT_S))
    try:
        logs = [list(_batches(connection, topic, one)) for one in range(partitions)]
        size = sum(len(batch) for log in logs for batch, _ in log)
        records = sum(count for log in logs for _, count in log)
        times = -(-total_bytes // size)
        # A broker accepts one batch per partition and request.
        rounds = list(zip_longest(*([batch for batch, _ in log] for log in logs)))
        waiting = 0
        for row in chain.from_iterable(repeat(rounds, times - 1)):
            connection.send(ApiKey.PRODUCE, _produce(topic, row), _PRODUCE)
            waiting += 1
            if waiting == _IN_FLIGHT:
                _check(connection.receive())
                waiting -= 1
        for _ in range(waiting):
            _check(connection.receive())
        return {"records": records * times, "bytes": size * times}
    finally:
        connection.close()


def _batches(connection: BlockingConnection, topic: str, partition: int) -> Iterator[tuple[bytes, int]]:
    """Batches with their numbers of records."""
    at = 0
    while True:
        asked = {"partition": partition, "fetch_offset": at, "partition_max_bytes": _FETCH_BYTES}
        message = {
            "max_wait_ms": 100,
            "min_bytes": 1,
            "max_bytes": _FETCH_BYTES,
            "topics": [{"topic": topic, "partitions": [asked]}],
        }
        answer = connection.call(ApiKey.FETCH, message, _FETCH)
        data = answer["responses"][0]["partitions"][0]["records"] or b""
        found = list(batches(data, 0, len(data)))
        if not found:
            return
        for batch in found:
            # A client's batches begin at offset 0.
            yield bytes(_OFFSET_BYTES) + bytes(data[batch.at + _OFFSET_BYTES : batch.end]), batch.records_count
        at = found[-1].last_offset + 1


def _produce(topic: str, row: Sequence[bytes | None]) -> dict[str, Any]:
    entries = [{"index": index, "records": batch} for index, batch in enumerate(row) if batch is not None]
    return {
        "transactional_id": None,
        "acks": -1,
        "timeout_ms": 30_000,
        "topic_data": [{"name": topic, "partition_data": entries}],
    }


def _check(answer: dict[str, Any]) -> None:
    codes = {part["error_code"] for topic in answer["responses"] for part in topic["partition_responses"]}
    if codes != {0}:
        raise BenchError(f"a batch that was taken once is refused: {codes}")
