"""FETCH of one partition, for requests of the gateway and the admin themselves."""

from collections.abc import Mapping
from typing import Any

BY_NAME = 12
"""The last version without topic ids."""


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
