"""Answers of a broker and of a gateway in front of it, without parts that must differ: author and time."""

from typing import Any

from ha_core.wire import ErrorCode

DENIALS = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.OPERATION_NOT_ATTEMPTED,
    }
)
_NODES = frozenset({"brokers", "cluster_id", "controller_id", "node_id", "host", "port", "rack", "leader_id"})
_NODES |= {"leader_epoch", "replica_nodes", "isr_nodes", "offline_replicas", "current_leader", "topic_id"}
_PROGRESS = frozenset(
    {"base_offset", "log_append_time_ms", "high_watermark", "last_stable_offset", "records", "offset"}
)
_PROGRESS |= {"throttle_time_ms", "session_id", "end_offset", "timestamp", "low_watermark", "committed_leader_epoch"}
_PROGRESS |= {"partition_size", "total_bytes", "usable_bytes", "producer_id", "producer_epoch", "active_producers"}
_PROGRESS |= {"offset", "log_start_offset", "committed_offset", "transaction_start_time_ms"}


def _of_cluster(codes: dict[str, int], words: str) -> bool:
    of_cluster = ErrorCode.CLUSTER_AUTHORIZATION_FAILED in codes.values()
    return of_cluster and (words.startswith("Request Request") or words == "Cluster authorization failed.")


def alike(answer: Any, verdicts: bool = False) -> Any:
    """:param verdicts: treat all errors that are no denials as one: a gateway has its own errors."""
    if isinstance(answer, list):
        return sorted((alike(one, verdicts) for one in answer), key=repr)
    if not isinstance(answer, dict):
        return answer
    codes = {name: code for name, code in answer.items() if name.endswith("error_code")}
    denied = any(code in DENIALS for code in codes.values())
    kept = {}
    for name, value in answer.items():
        if name in _NODES or (name in _PROGRESS and not denied):
            continue
        if name in _PROGRESS and name in ("records", "throttle_time_ms"):
            continue
        if name in codes:
            kept[name] = "let in" if verdicts and value not in DENIALS else value
        elif name in ("error_message", "batch_index_error_message"):
            # A broker that denies the cluster to a whole request returns all of that, in Java's form.
            kept[name] = value if denied and not _of_cluster(codes, str(value)) else None
        elif verdicts and not denied and name == "record_errors":
            continue
        else:
            kept[name] = alike(value, verdicts)
    return kept
