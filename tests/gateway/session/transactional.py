"""Requests of transactional producers."""

from typing import Any

from tests.gateway.session.batch import batch
from tests.gateway.session.coordination import ADD_OFFSETS, ADD_PARTITIONS, EASTS, END, TXN_COMMIT, add, end


def commit(producer_id: int) -> dict[str, Any]:
    return {
        "transactional_id": "tx",
        "group_id": "billing",
        "producer_id": producer_id,
        "producer_epoch": 0,
        "generation_id": 4,
        "member_id": "m-1",
        "topics": [{"name": "orders", "partitions": [{"partition_index": 0, "committed_offset": 7}]}],
    }


REQUESTS: dict[int, dict[str, Any]] = {
    ADD_PARTITIONS: add(EASTS),
    ADD_OFFSETS: {"transactional_id": "tx", "producer_id": EASTS, "producer_epoch": 0, "group_id": "billing"},
    TXN_COMMIT: commit(EASTS),
    END: end(EASTS),
}


def produce(*partitions: tuple[str, int, bytes]) -> dict[str, Any]:
    return {
        "transactional_id": "tx",
        "acks": -1,
        "timeout_ms": 1000,
        "topic_data": [{"name": t, "partition_data": [{"index": p, "records": r}]} for t, p, r in partitions],
    }


def written(producer_id: int, topic: str = "orders", size: int = 20) -> tuple[str, int, bytes]:
    return topic, 0, batch(producer_id=producer_id, epoch=0, sequence=3, payload=b"x" * size)
