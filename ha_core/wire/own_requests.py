"""FETCH of one partition and LIST_OFFSETS, for requests of the gateway and the admin themselves."""

from collections.abc import Iterable, Mapping
from typing import Any

BY_NAME = 12
"""The last version of FETCH without topic ids."""
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
"""Constants in place of a time in milliseconds."""
CONSUMER = -1
"""The replica id of all requests on behalf of clients. Another id stands for a broker, which sees uncommitted records:
the gateway's account must not show those to a client."""


def fetch_partition(
    partition: tuple[str, int],
    offset: int,
    max_bytes: int,
    *,
    leader_epoch: int = -1,
    wait_ms: int = 0,
    committed: bool = False,
) -> dict[str, Any]:
    """
    :param max_bytes: the first batch is returned whole, however large it is.
    :param leader_epoch: a broker that leads in another epoch refuses; -1: any may answer.
    :param wait_ms: how long to wait for the first record.
    :param committed: only up to the last stable offset, with the aborted transactions.
    """
    topic, index = partition
    asked = {
        "partition": index,
        "current_leader_epoch": leader_epoch,
        "fetch_offset": offset,
        "partition_max_bytes": max_bytes,
    }
    return {
        "max_wait_ms": wait_ms,
        "min_bytes": 1,
        "max_bytes": max_bytes,
        "isolation_level": int(committed),
        "topics": [{"topic": topic, "partitions": [asked]}],
    }


def fetched_partition(answer: Mapping[str, Any]) -> tuple[int, dict[str, Any] | None]:
    """An answer's error code, and its partition: None if the whole request was refused, or a quota delayed it."""
    part = next((part for topic in answer["responses"] for part in topic["partitions"]), None)
    return answer["error_code"] or (part["error_code"] if part is not None else 0), part


def list_offsets(
    partitions: Iterable[tuple[str, int]],
    timestamp: int,
    isolation: int = 0,
    replica: int = CONSUMER,
    epochs: Mapping[tuple[str, int], int] = {},
) -> dict[str, Any]:
    """A request with one timestamp for all partitions.

    :param epochs: leader epochs, to exclude answers of former leaders.
    """
    topics: dict[str, list[dict[str, int]]] = {}
    for topic, partition in partitions:
        epoch = epochs.get((topic, partition), -1)
        entry = {"partition_index": partition, "current_leader_epoch": epoch, "timestamp": timestamp}
        topics.setdefault(topic, []).append(entry)
    asked = [{"name": topic, "partitions": entries} for topic, entries in topics.items()]
    return {"replica_id": replica, "isolation_level": isolation, "topics": asked}
