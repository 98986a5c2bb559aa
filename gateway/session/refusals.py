"""Answers that refuse: retriable errors in the shape of each request.

NOT_LEADER_OR_FOLLOWER and NOT_COORDINATOR make every known client look for the leader or coordinator again.
BROKER_NOT_AVAILABLE (8) is not retriable in the Java client, so it is never used.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ha_core.wire import ErrorCode


def produce(refused: Iterable[tuple[str, int, ErrorCode, int]]) -> dict[str, Any]:
    """A produce answer. `refused`: (topic, partition, error, base offset)."""
    topics: dict[str, list[dict[str, Any]]] = {}
    for topic, partition, error, base_offset in refused:
        entry = {"index": partition, "error_code": int(error), "base_offset": base_offset}
        topics.setdefault(topic, []).append(entry)
    return {"responses": [{"name": t, "partition_responses": p} for t, p in topics.items()]}


def fetch_partition(partition: int, error: ErrorCode, high_watermark: int = -1) -> dict[str, Any]:
    """One partition of a fetch answer without records."""
    return {
        "partition_index": partition,
        "error_code": int(error),
        "high_watermark": high_watermark,
        "last_stable_offset": high_watermark,
        "log_start_offset": -1,
        "aborted_transactions": [],
        "preferred_read_replica": -1,
        "records": b"",
    }
