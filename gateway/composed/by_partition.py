"""Requests that name topics and partitions: unmapped ones go to their leaders in batches, mapped ones are composed.

LIST_OFFSETS, OFFSET_FOR_LEADER_EPOCH, DELETE_RECORDS and DESCRIBE_PRODUCERS share this shape. The first three also ask
about the logs of single partitions: all such questions to one broker at one time are one LIST_OFFSETS.
"""

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from gateway.composed import lookups
from gateway.composed.ask import Ask, Asking, ClusterUnavailableError, Message, OneBroker, ask_each, grouped
from gateway.composed.handlers import Context
from gateway.composed.lookups import ClusterPartition
from gateway.composed.mentions import MAX_MENTIONS, numbered
from ha_core.plan.facts.clusters import Partition
from ha_core.plan.routing.resolve import EXPLICIT_LEVELS
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.own_requests import list_offsets

K = TypeVar("K", bound=Hashable)


class NamedPartition(NamedTuple):
    """A partition as a request names it.

    :ivar nth: number of earlier mentions.
    """

    topic: str
    partition: int
    nth: int = 0


Outcomes = dict[NamedPartition, Message]


@dataclass(frozen=True, slots=True)
class RequestShape:
    """Names of the fields that differ between the APIs."""

    api_key: int
    topic: str = "name"
    partition: str = "partition_index"
    timeout_ms: int = 10_000
    away: ErrorCode = ErrorCode.LEADER_NOT_AVAILABLE
    """Error of a partition whose leader is unknown or does not answer; it makes clients retry."""

    indexes: str = ""
    """The request's list of partition numbers, if it has such a list instead of structs."""

    def result(self, partition: int, code: int, **more: Any) -> Message:
        """A partition's entry in an answer."""
        return {self.partition: partition, "error_code": code, **more}

    def wanted(self, request: Message) -> dict[NamedPartition, Message]:
        """The request's entry for each mention of a partition."""
        entries: list[Message] = []
        partitions: list[tuple[str, int]] = []
        for topic in request["topics"]:
            for entry in topic[self.indexes or "partitions"]:
                entries.append({} if self.indexes else entry)
                partitions.append((topic[self.topic], entry if self.indexes else entry[self.partition]))
        return {
            NamedPartition(*partition, nth): entry
            for (partition, nth), entry in zip(numbered(partitions), entries, strict=True)
        }

    def asked(self, batch: Iterable[NamedPartition], wanted: Mapping[NamedPartition, Message]) -> list[Message]:
        """The `topics` of a request for some of the partitions."""
        if self.indexes:
            topics = grouped(key[:2] for key in batch)
            return [{self.topic: name, self.indexes: indexes} for name, indexes in topics.items()]
        return self.topics(batch, wanted)

    def outcomes(self, reply: Message) -> Iterable[tuple[tuple[str, int], Message]]:
        for topic in reply["topics"]:
            for answer in topic["partitions"]:
                yield (topic[self.topic], answer[self.partition]), answer

    def topics(self, order: Iterable[NamedPartition], outcomes: Mapping[NamedPartition, Message]) -> list[Message]:
        """The `topics` of a response, in the order of the request. A partition without an outcome gets a retriable
        error."""
        topics = grouped((key[0], outcomes.get(key) or self.result(key[1], self.away)) for key in order)
        return [{self.topic: name, "partitions": partitions} for name, partitions in topics.items()]


def split(context: Context, wanted: Iterable[NamedPartition]) -> tuple[list[NamedPartition], list[NamedPartition]]:
    """(partitions of mapped topics, all others); without mentions above the limit."""
    sides = grouped((lookups.document(context, key[0]).mapped, key) for key in wanted if key.nth < MAX_MENTIONS)
    return sides.get(True, []), sides.get(False, [])


def to_leaders(
    context: Context,
    shape: RequestShape,
    keys: Iterable[NamedPartition],
    wanted: Mapping[NamedPartition, Message],
    more: Message,
    *,
    by_port: bool = True,
) -> Asking[Outcomes]:
    """Asks the leader of each partition: with `by_port` in the cluster of the client's port, else in the topic's.
    Partitions that cannot be asked have an error instead.

    :param keys: some of the `wanted` partitions.
    :param more: fields of each request beside its topics.
    """
    outcomes: Outcomes = {}
    replicas: dict[NamedPartition, ClusterPartition] = {}
    for key in keys:
        if context.view.concealed(key[0]):
            outcomes[key] = shape.result(key[1], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            continue
        cluster = _cluster(context, key[0]) if by_port else lookups.resolve(context, key[0]).cluster
        if cluster is None:
            outcomes[key] = shape.result(key[1], ErrorCode.NOT_LEADER_OR_FOLLOWER)
        else:
            replicas[key] = ClusterPartition(cluster, *key[:2])

    def message(batch: list[NamedPartition]) -> Message:
        return {"topics": shape.asked(batch, wanted), **more}

    answers, absent = yield from ask_leaders(context, shape, replicas, message)
    # An unreachable cluster may hold the topic, and clients must not give the topic up.
    missing = shape.away if lookups.in_doubt(context) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for key, replica in replicas.items():
        outcomes[key] = answers.get(key) or shape.result(key[1], missing if replica in absent else shape.away)
    return outcomes


def ask_leaders(
    context: Context,
    shape: RequestShape,
    replicas: Mapping[K, ClusterPartition],
    message: Callable[[list[K]], Message],
    apart: Callable[[K], Hashable] = lambda _: None,
) -> Asking[tuple[dict[K, Message], set[ClusterPartition]]]:
    """(The leaders' answers by key; partitions that do not exist according to their cluster).

    :param message: the request for some of the keys.
    :param apart: keys with different values of this go into separate requests.
    """
    leader, absent = yield from lookups.leaders(context, replicas.values())
    batches = grouped(((r.cluster, leader[r], apart(key)), key) for key, r in replicas.items() if r in leader)
    asks = {
        (cluster, broker, kind): Ask(cluster, OneBroker(broker), shape.api_key, message(batch), shape.timeout_ms)
        for (cluster, broker, kind), batch in batches.items()
    }
    answers: dict[K, Message] = {}
    for asked, reply in (yield from ask_each(asks)).items():
        if isinstance(reply, ClusterUnavailableError):
            continue
        found = grouped(shape.outcomes(reply))
        for key in batches[asked]:
            if mentions := found.get(replicas[key][1:]):
                # Each mention of a partition is answered, in the order of the request.
                answers[key] = mentions[0] if len(mentions) == 1 else mentions.pop(0)
    return answers, absent


def _cluster(context: Context, topic: str) -> str | None:
    resolved = lookups.resolve(context, topic)
    here = context.port_cluster
    if here is None or resolved.cluster == here:
        return resolved.cluster
    # The client came by an old address: after a new binding it has to look for the leader again.
    return None if resolved.level in EXPLICIT_LEVELS or context.names is not None else here


# -- questions about the logs of single partitions --------------------------------------------------------------------

# The logic of a partition is a generator that yields `Query`s and is sent `LogAnswer`s; `rounds` runs those of a whole
# request in parallel.

READ_UNCOMMITTED = 0
LIST_OFFSETS = RequestShape(ApiKey.LIST_OFFSETS)


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
LogSearch = Generator[tuple[Query, ...], Mapping[Query, LogAnswer], T]
"""Yields LIST_OFFSETS queries of one partition's logs, is resumed with their answers, and returns its finding."""


def rounds(context: Context, searches: Mapping[K, LogSearch[T]]) -> Asking[dict[K, T]]:
    """Runs the searches to their ends; all queries that are open at one time are asked together."""
    results: dict[K, T] = {}
    waiting = dict(searches)
    found: Any = None  # starts a generator
    while waiting:
        queries: dict[Query, None] = {}
        for key, search in tuple(waiting.items()):
            try:
                queries |= dict.fromkeys(search.send(found))
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
    answers, absent = yield from ask_leaders(
        context, LIST_OFFSETS, replicas, message, lambda q: (q.timestamp, q.isolation)
    )
    log_answers = {
        query: LogAnswer(answer["error_code"], answer["timestamp"], answer["offset"])
        for query, answer in answers.items()
    }
    return {query: log_answers.get(query) or (_ABSENT if query.replica in absent else _AWAY) for query in queries}


def failed(context: Context, key: Partition, error: int) -> int:
    """Error for a moved topic's partition, from a cluster's error.

    A cluster without a partition that the map lists does not make the partition unknown. A partition that the map does
    not list belongs to the writer, and is unknown if the writer's cluster does not have it.
    """
    listed = key[1] in lookups.document(context, key[0]).partitions
    return ErrorCode.LEADER_NOT_AVAILABLE if listed and error == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION else error
