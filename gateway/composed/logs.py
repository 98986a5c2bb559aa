"""Questions about the logs of single partitions, batched into one LIST_OFFSETS per broker and round.

The logic of a partition is a generator that yields `Query`s and is sent `LogAnswer`s; `rounds` runs those of a whole
request in parallel.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, NamedTuple, TypeVar

from gateway.composed import places
from gateway.composed.ask import Asking, Message
from gateway.composed.by_partition import RequestShape, ask_leaders
from gateway.composed.handlers import Context
from gateway.composed.places import ClusterPartition
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.own_requests import list_offsets

READ_UNCOMMITTED = 0
SHAPE = RequestShape(ApiKey.LIST_OFFSETS)


class Query(NamedTuple):
    """Question to LIST_OFFSETS for one partition in one cluster; offsets are that cluster's own."""

    replica: ClusterPartition
    timestamp: int
    isolation: int = READ_UNCOMMITTED


class LogAnswer(NamedTuple):
    """`error` 0: `offset` (-1: none) and `timestamp` are the cluster's answer."""

    error: int
    timestamp: int = -1
    offset: int = -1


_ABSENT, _AWAY = LogAnswer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), LogAnswer(ErrorCode.LEADER_NOT_AVAILABLE)

T = TypeVar("T")
K = TypeVar("K")
Inquiry = Generator[tuple[Query, ...], Mapping[Query, LogAnswer], T]


def rounds(context: Context, inquiries: Mapping[K, Inquiry[T]]) -> Asking[dict[K, T]]:
    """Runs the inquiries to their ends; all queries that are open at one time are asked together."""
    results: dict[K, T] = {}
    waiting = dict(inquiries)
    found: Any = None  # starts a generator
    while waiting:
        queries: dict[Query, None] = {}
        for key, inquiry in tuple(waiting.items()):
            try:
                queries |= dict.fromkeys(inquiry.send(found))
            except StopIteration as stop:
                results[key] = stop.value
                del waiting[key]
        if queries:
            found = yield from _ask(context, queries)
    return results


def _ask(context: Context, queries: Mapping[Query, None]) -> Asking[dict[Query, LogAnswer]]:
    def message(batch: list[Query]) -> Message:
        return list_offsets((query.replica[1:] for query in batch), batch[0].timestamp, batch[0].isolation)

    replicas = {query: query.replica for query in queries}
    # LIST_OFFSETS refuses a partition that it names twice, so each request has one query per partition.
    answers, absent = yield from ask_leaders(context, SHAPE, replicas, message, lambda q: (q.timestamp, q.isolation))
    found = {
        query: LogAnswer(answer["error_code"], answer["timestamp"], answer["offset"])
        for query, answer in answers.items()
    }
    return {query: found.get(query) or (_ABSENT if query.replica in absent else _AWAY) for query in queries}


def failed(context: Context, key: Partition, error: int) -> int:
    """Error for a moved topic's partition, from a cluster's error.

    A cluster without a partition that the map lists does not make the partition unknown. A partition that the map does
    not list belongs to the writer, and is unknown if the writer's cluster does not have it.
    """
    listed = key[1] in places.document(context, key[0]).partitions
    return ErrorCode.LEADER_NOT_AVAILABLE if listed and error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else error
