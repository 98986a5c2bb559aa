"""Requests that name topics and partitions: unmapped ones go to their leaders in batches, mapped ones are composed.

LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH, DELETE_RECORDS and DESCRIBE_PRODUCERS share this shape.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.composed import places
from gateway.composed.ask import Ask, Broker, ClusterUnavailableError, Context, Message
from gateway.composed.places import Replica
from ha_core.plan.resolve import EXPLICIT_LEVELS
from ha_core.wire.codes import ErrorCode

Partition = tuple[str, int]
Outcomes = dict[Partition, Message]


@dataclass(frozen=True, slots=True)
class Shape:
    """Names of the fields that differ between the APIs."""

    api_key: int
    topic: str = "name"
    partition: str = "partition_index"
    timeout_ms: int = 10_000
    away: ErrorCode = ErrorCode.LEADER_NOT_AVAILABLE
    """Of a partition whose leader is not known or does not answer: what has clients ask again."""

    def error(self, partition: int, code: int, **more: Any) -> Message:
        return {self.partition: partition, "error_code": int(code), **more}

    def outcomes(self, reply: Message) -> Iterable[tuple[Partition, Message]]:
        for topic in reply["topics"]:
            for answer in topic["partitions"]:
                yield (topic[self.topic], answer[self.partition]), answer

    def topics(self, order: Iterable[Partition], outcomes: Mapping[Partition, Message]) -> list[Message]:
        """The `topics` of a response, in the order of the request."""
        grouped: dict[str, list[Message]] = {}
        for key in order:
            grouped.setdefault(key[0], []).append(outcomes[key])
        return [{self.topic: name, "partitions": partitions} for name, partitions in grouped.items()]


def split(context: Context, wanted: Iterable[Partition]) -> tuple[list[Partition], list[Partition]]:
    """(partitions of mapped topics, all others)."""
    mapped: list[Partition] = []
    others: list[Partition] = []
    for key in wanted:
        (mapped if places.is_mapped(context, key[0]) else others).append(key)
    return mapped, others


def to_leaders(
    context: Context,
    shape: Shape,
    wanted: Iterable[Partition],
    request: Callable[[list[Partition]], Message],
    *,
    by_port: bool = True,
) -> Generator[tuple[Ask, ...], Any, Outcomes]:
    """Asks the leader of each partition: with `by_port` in the cluster of the client's port, else in the topic's.

    `request` makes the message for some of the partitions. Whatever cannot be asked has an error in its place.
    """
    outcomes: Outcomes = {}
    found: dict[Partition, Replica] = {}
    for key in wanted:
        cluster = _cluster(context, key[0]) if by_port else places.resolve(context, key[0]).cluster
        if cluster is None:
            outcomes[key] = shape.error(key[1], ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            found[key] = Replica(cluster, *key)
    absent: set[Replica] = set()
    leaders = yield from places.leaders(context, found.values(), absent)
    if places.in_doubt(context):
        absent.clear()  # a cluster that is out of reach may hold the topic, and clients must not give it up
    batches: dict[tuple[str, int], list[Partition]] = {}
    for key, replica in found.items():
        leader = leaders.get(replica)
        if leader is not None:
            batches.setdefault((replica.cluster, leader), []).append(key)
        else:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if replica in absent else shape.away
            outcomes[key] = shape.error(key[1], code)
    if not batches:
        return outcomes
    replies = yield tuple(
        Ask(cluster, Broker(leader), shape.api_key, request(batch), shape.timeout_ms)
        for (cluster, leader), batch in batches.items()
    )
    for batch, reply in zip(batches.values(), replies, strict=True):
        if not isinstance(reply, ClusterUnavailableError):
            outcomes.update(shape.outcomes(reply))
        for key in batch:
            outcomes.setdefault(key, shape.error(key[1], shape.away))
    return outcomes


def _cluster(context: Context, topic: str) -> str | None:
    resolved = places.resolve(context, topic)
    here = context.port_cluster
    if here is None or resolved.cluster == here:
        return resolved.cluster
    # The client came by an old address: after a new binding it has to look for the leader again.
    return None if resolved.level in EXPLICIT_LEVELS else here
