"""Questions about the logs of single partitions, batched into one LIST_OFFSETS per broker and round.

The logic of a partition is a generator that yields `Query`s and is sent `Found`s; `rounds` runs those of a whole
request side by side.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import NamedTuple, TypeVar

from gateway.composed import places
from gateway.composed.ask import Ask, Asking, ClusterUnavailableError, ask_each, grouped
from gateway.composed.by_partition import Shape
from gateway.composed.handlers import Context
from gateway.composed.places import Replica
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.list_offsets import list_offsets

READ_UNCOMMITTED = 0
SHAPE = Shape(ApiKey.LIST_OFFSETS)


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


def rounds(context: Context, inquiries: Mapping[K, Inquiry[T]]) -> Asking[dict[K, T]]:
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


def _ask(context: Context, queries: Mapping[Query, None]) -> Asking[dict[Query, Found]]:
    leader = (yield from places.leaders(context, (query.replica for query in queries))).broker
    found = dict.fromkeys(queries, Found(ErrorCode.LEADER_NOT_AVAILABLE))
    # LIST_OFFSETS refuses a partition that it names twice, so each request asks one thing of a partition.
    batches = grouped(
        ((q.replica.cluster, leader[q.replica], q.isolation, q.timestamp), q) for q in queries if q.replica in leader
    )
    replies = yield from ask_each({key: _request(*key, batch) for key, batch in batches.items()})
    for key, reply in replies.items():
        answers = {} if isinstance(reply, ClusterUnavailableError) else dict(SHAPE.outcomes(reply))
        for query in batches[key]:
            if said := answers.get(query.replica[1:]):
                found[query] = Found(said["error_code"], said["timestamp"], said["offset"])
    return found


def _request(cluster: str, leader: int, isolation: int, timestamp: int, batch: list[Query]) -> Ask:
    return SHAPE.ask(cluster, leader, list_offsets((q.replica[1:] for q in batch), timestamp, isolation))
