"""Questions about the logs of single partitions, batched into one LIST_OFFSETS per broker and round.

The logic of a partition is a generator that yields `Query`s and is sent `Found`s; `rounds` runs those of a whole
request side by side.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, NamedTuple, TypeVar

from gateway.composed import places
from gateway.composed.ask import Ask, Broker, ClusterUnavailableError, Context
from gateway.composed.places import Replica
from ha_core.wire.codes import ApiKey, ErrorCode

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
READ_UNCOMMITTED = 0

CONSUMER = -1
"""The replica id of everything that is asked for clients. Another one says that a broker asks, which shows what is not
committed yet: of a client that is not for the gateway's account to say."""
_NO_EPOCH = -1


class Query(NamedTuple):
    """What LIST_OFFSETS is to say of one partition in one cluster; offsets are that cluster's own."""

    replica: Replica
    timestamp: int
    isolation: int = READ_UNCOMMITTED


class Found(NamedTuple):
    """`error` 0: `offset` (-1: none) and `timestamp` are the cluster's answer."""

    error: int
    timestamp: int = -1
    offset: int = -1


T = TypeVar("T")
K = TypeVar("K")
Inquiry = Generator[tuple[Query, ...], Mapping[Query, Found], T]


def rounds(context: Context, inquiries: Mapping[K, Inquiry[T]]) -> Generator[tuple[Ask, ...], Any, dict[K, T]]:
    """Runs the inquiries to their ends; all queries that are open at one time are asked together."""
    results: dict[K, T] = {}
    open_: dict[K, tuple[Query, ...]] = {}
    answers: dict[Query, Found] = {}

    def advance(key: K) -> None:
        try:
            asked = open_.get(key)
            sent = None if asked is None else {query: answers[query] for query in asked}
            open_[key] = inquiries[key].send(sent)  # type: ignore[arg-type]  # None starts it
        except StopIteration as stop:
            open_.pop(key, None)
            results[key] = stop.value

    for key in inquiries:
        advance(key)
    while open_:
        answers = yield from _ask(context, dict.fromkeys(query for queries in open_.values() for query in queries))
        for key in list(open_):
            advance(key)
    return results


def _ask(context: Context, queries: Mapping[Query, None]) -> Generator[tuple[Ask, ...], Any, dict[Query, Found]]:
    leaders = yield from places.leaders(context, (query.replica for query in queries))
    found = dict.fromkeys(queries, Found(ErrorCode.LEADER_NOT_AVAILABLE))
    # LIST_OFFSETS refuses a partition that it names twice, so each request asks one thing of a partition.
    batches: dict[tuple[str, int, int, int], list[Query]] = {}
    for query in queries:
        leader = leaders.get(query.replica)
        if leader is not None:
            batches.setdefault((query.replica.cluster, leader, query.isolation, query.timestamp), []).append(query)
    if not batches:
        return found
    replies = yield tuple(_request(*key, batch) for key, batch in batches.items())
    for batch, reply in zip(batches.values(), replies, strict=True):
        if isinstance(reply, ClusterUnavailableError):
            continue
        answers = {
            (topic["name"], partition["partition_index"]): Found(
                partition["error_code"], partition["timestamp"], partition["offset"]
            )
            for topic in reply["topics"]
            for partition in topic["partitions"]
        }
        for query in batch:
            found[query] = answers.get(query.replica[1:], found[query])
    return found


def _request(cluster: str, leader: int, isolation: int, timestamp: int, batch: list[Query]) -> Ask:
    topics: dict[str, list[dict[str, int]]] = {}
    for query in batch:
        topics.setdefault(query.replica.topic, []).append(
            {
                "partition_index": query.replica.partition,
                "current_leader_epoch": _NO_EPOCH,
                "timestamp": timestamp,
            }
        )
    message = {
        "replica_id": CONSUMER,
        "isolation_level": isolation,
        "topics": [{"name": name, "partitions": partitions} for name, partitions in topics.items()],
    }
    return Ask(cluster, Broker(leader), ApiKey.LIST_OFFSETS, message)
