"""Answers that refuse: retriable errors in the shape of each request.

NOT_LEADER_OR_FOLLOWER and NOT_COORDINATOR make every known client look for the leader or coordinator again.
BROKER_NOT_AVAILABLE (8) is not retriable in the Java client, so it is never used.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ha_core.wire import ApiKey, ErrorCode

Partitions = Mapping[str, Iterable[int]]


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


def group(api_key: int, request: Mapping[str, Any], error: ErrorCode) -> dict[str, Any]:
    """The refusal of a group request."""
    code = int(error)
    if api_key == ApiKey.OFFSET_COMMIT:
        return {
            "topics": [
                {
                    "name": t["name"],
                    "partitions": [
                        {"partition_index": p["partition_index"], "error_code": code} for p in t["partitions"]
                    ],
                }
                for t in request["topics"]
            ]
        }
    if api_key == ApiKey.OFFSET_FETCH:
        # Version 1 has no error for the whole answer: it says so for each partition.
        return {
            "error_code": code,
            "topics": [
                {
                    "name": t["name"],
                    "partitions": [
                        {
                            "partition_index": p,
                            "committed_offset": -1,
                            "committed_leader_epoch": -1,
                            "metadata": "",
                            "error_code": code,
                        }
                        for p in t["partition_indexes"]
                    ],
                }
                for t in request["topics"] or ()
            ],
        }
    if api_key == ApiKey.JOIN_GROUP:
        return {
            "error_code": code,
            "generation_id": -1,
            "protocol_type": None,
            "protocol_name": "",
            "leader": "",
            "member_id": request["member_id"],
            "members": [],
        }
    if api_key == ApiKey.SYNC_GROUP:
        return {"error_code": code, "protocol_type": None, "protocol_name": None, "assignment": b""}
    if api_key == ApiKey.LEAVE_GROUP:
        return {"error_code": code, "members": []}
    return {"error_code": code}


def transaction(api_key: int, request: Mapping[str, Any], error: ErrorCode) -> dict[str, Any]:
    """The refusal of a transaction coordinator's request."""
    code = int(error)
    if api_key == ApiKey.ADD_PARTITIONS_TO_TXN:
        return {
            "results_by_topic": [
                {
                    "name": t["name"],
                    "results_by_partition": [
                        {"partition_index": p, "partition_error_code": code} for p in t["partitions"]
                    ],
                }
                for t in request["topics"]
            ]
        }
    if api_key == ApiKey.TXN_OFFSET_COMMIT:
        return {
            "topics": [
                {
                    "name": t["name"],
                    "partitions": [
                        {"partition_index": p["partition_index"], "error_code": code} for p in t["partitions"]
                    ],
                }
                for t in request["topics"]
            ]
        }
    if api_key == ApiKey.INIT_PRODUCER_ID:
        return {"error_code": code, "producer_id": -1, "producer_epoch": -1}
    return {"error_code": code}
