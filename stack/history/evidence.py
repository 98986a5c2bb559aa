"""Logs and maps at the end, read without gateways."""

import itertools
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from ha_core.model import HistoryEntry, MigrateOperation, Operation, Topic
from stack.clients.recorder import name_in
from stack.history.history import HistoryCut, LogDump

_TIMEOUT_S = 30.0
_POLL_S = 0.1
_BATCH = 2000


class DumpError(Exception):
    """A cluster's log could not be read to its end."""


def dump_topic(
    cluster: str, bootstrap: str, topic: str, settings: Mapping[str, Any] | None = None
) -> tuple[LogDump, ...]:
    """Every partition of a topic in a cluster, aborted records included; empty if the cluster has no such topic.

    `settings` are confluent-kafka's, for security. Raises DumpError if the log end is not reached within 30 s without
    progress.
    """
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "switchyard-dump",
            "enable.auto.commit": False,
            "isolation.level": "read_uncommitted",
            "enable.partition.eof": True,
            "log_level": 3,
            **(settings or {}),
        }
    )
    try:
        found = consumer.list_topics(timeout=_TIMEOUT_S).topics.get(topic)
        partitions = [] if found is None or found.error is not None else sorted(found.partitions)
        bounds = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), _TIMEOUT_S) for p in partitions}
        records: dict[int, dict[int, str]] = {p: {} for p in partitions}
        consumer.assign([TopicPartition(topic, p, OFFSET_BEGINNING) for p in partitions])
        unfinished = set(partitions)
        deadline = time.monotonic() + _TIMEOUT_S
        while unfinished:
            messages = consumer.consume(_BATCH, _POLL_S)
            if messages:
                deadline = time.monotonic() + _TIMEOUT_S
            elif time.monotonic() > deadline:
                silent = sorted(unfinished)
                raise DumpError(f"{cluster}: {topic} partitions {silent} gave nothing for {_TIMEOUT_S:.0f} s")
            for message in messages:
                _take(message, records, bounds, unfinished)
        return tuple(LogDump(cluster, topic, p, *bounds[p], records[p]) for p in partitions)
    finally:
        consumer.close()


def _take(
    message: Any, records: dict[int, dict[int, str]], bounds: Mapping[int, tuple[int, int]], unfinished: set[int]
) -> None:
    partition = message.partition()
    if message.error() is None:
        records[partition][message.offset()] = name_in(message.value())
    elif message.error().name() != "_PARTITION_EOF":
        raise DumpError(f"{message.topic()}/{partition}: {message.error()}")
    elif message.offset() >= bounds[partition][1]:
        unfinished.discard(partition)


def cuts_of(
    topics: Iterable[Topic], ahead: Collection[tuple[str, int, str, str]] = frozenset()
) -> tuple[HistoryCut, ...]:
    """The cuts in published maps.

    :param ahead: (topic, partition, origin, target) of predicted cuts that logs ran into, see `cuts_ahead`.
    """
    return tuple(
        HistoryCut(
            topic=topic.name,
            partition=partition,
            cut=right.start,
            origin=left.cluster,
            target=right.cluster,
            origin_end=left.base + (left.end if left.end is not None else right.start) - left.start,
            target_base=right.base,
            ahead=(topic.name, partition, left.cluster, right.cluster) in ahead,
        )
        for topic in topics
        for partition, extents in sorted(topic.partitions.items())
        for left, right in itertools.pairwise(extents)
    )


def cuts_ahead(operations: Iterable[tuple[Operation, Iterable[HistoryEntry]]]) -> set[tuple[str, int, str, str]]:
    """(topic, partition, origin, target) of predicted cuts that logs ran into, from operations and their histories.

    The operation itself has its cuts: an executor that dies between a revision and its line of the history has not
    recorded the cuts that it proposed. A cut that was lowered under a fence is an ordinary one.
    """
    found: set[tuple[str, int, str, str]] = set()
    for operation, history in operations:
        if not isinstance(operation, MigrateOperation) or operation.state != "succeeded":
            continue
        evidence = operation.evidence
        if evidence.opened is None:
            continue
        reached = {(topic, cut.partition) for topic, cuts in evidence.cuts.items() for cut in cuts}
        details = [entry.detail for entry in history]
        if any("lowered_to_left_out" in detail for detail in details):
            continue  # too many for a line of the history: none of them is excused
        lowered = {key for detail in details for key in _named(detail.get("lowered_to"))}
        found |= {(*key, *operation.route) for key in reached - lowered}
    return found


def _named(by_topic: Any) -> set[tuple[str, int]]:
    return {(topic, int(partition)) for topic, partitions in (by_topic or {}).items() for partition in partitions}
