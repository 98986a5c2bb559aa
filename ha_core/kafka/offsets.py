"""Where logs start and end.

**The end that a cut needs** is the leader's *log end offset*: it counts what was acknowledged with acks=1 and is not
replicated yet, which lies above the high watermark that consumers get as "latest". Stock brokers tell it to whoever
asks LIST_OFFSETS as the debugging replica (-2): there the latest offset is the log end, unbounded by the watermark.
Such a request is also answered by followers (with *their* log end), so it carries the leader epoch of the metadata: an
epoch has one leader, and a broker of another epoch refuses.

Offsets are asked for one after another: start, last stable, high watermark, log end. Each of the last three is at most
the next one and none ever shrinks under one leader, so **high watermark (read first) == log end (read last)** proves
that nothing was appended in between and that every in-sync replica has all of it: `LogEnds.settled`. Likewise
**last stable == log end** proves that no transaction was open. Nothing else is needed: no log sizes, no replica lag.
Whether something is still on its way to the leader, no broker can say: that is what fences and drains are for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from ha_core.kafka.brokers import Brokers, by_topic, pages
from ha_core.kafka.connection import Connection
from ha_core.kafka.deadline import Deadline
from ha_core.kafka.errors import TopicMissingError, refusal, why_again
from ha_core.kafka.facts import LogEnds
from ha_core.plan.facts import Partition
from ha_core.wire.codes import ApiKey, ErrorCode, name_of

_CONSUMER, DEBUGGER = -1, -2
_EARLIEST, _LATEST = -2, -1
UNCOMMITTED, _COMMITTED = 0, 1
Reading = tuple[int, int, int]
"""Of LIST_OFFSETS: the replica that asks, isolation level, timestamp."""
_READINGS: tuple[Reading, ...] = (  # in this order, see above
    (_CONSUMER, UNCOMMITTED, _EARLIEST),
    (_CONSUMER, _COMMITTED, _LATEST),
    (_CONSUMER, UNCOMMITTED, _LATEST),
    (DEBUGGER, UNCOMMITTED, _LATEST),
)
_MAX_PER_REQUEST = 20_000


class Leaders:
    """Finds partitions' leaders; one object serves one question, and remembers the epochs that it found."""

    def __init__(self, brokers: Brokers, deadline: Deadline) -> None:
        self._brokers = brokers
        self.deadline = deadline
        self.epochs: dict[Partition, int] = {}

    def locate(self, wanted: set[Partition]) -> tuple[dict[Partition, int], dict[Partition, str]]:
        """Leaders' node ids, and why some have none.

        :raises TopicMissingError: a topic or partition does not exist.
        """
        answer = self._brokers.metadata({topic for topic, _ in wanted}, self.deadline)
        found: dict[Partition, int] = {}
        waiting: dict[Partition, str] = {}
        for topic in answer["topics"]:
            check_topic(self._brokers.cluster, topic["name"], topic["error_code"])
            for part in topic["partitions"]:
                key = (topic["name"], part["partition_index"])
                if part["leader_id"] in self._brokers.nodes:
                    found[key] = part["leader_id"]
                    self.epochs[key] = part["leader_epoch"]
                else:
                    waiting[key] = f"it has no leader, {name_of(part['error_code'])}"
        missing = sorted(wanted - found.keys() - waiting.keys())
        if missing:
            known = {topic["name"]: len(topic["partitions"]) for topic in answer["topics"]}
            name, index = missing[0]
            raise TopicMissingError(
                self._brokers.cluster,
                f"topic {name} has no partition {index} (it has {known.get(name, 0)}). Correct the partition, or "
                "compare the topic with the one in the other cluster.",
            )
        return {key: found[key] for key in wanted if key in found}, {
            key: text for key, text in waiting.items() if key in wanted
        }


def check_topic(cluster: str, name: str, code: int) -> None:
    """Raises what a topic's error code in metadata means, unless it only says that leaders are being elected."""
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise TopicMissingError(cluster, f"topic {name} does not exist. Create it, or correct the name.")
    if code and code != ErrorCode.LEADER_NOT_AVAILABLE:
        raise refusal(cluster, f"read the metadata of topic {name}", code)


def ends(
    brokers: Brokers, partitions: Collection[Partition], deadline: Deadline, partial: bool = False
) -> dict[Partition, LogEnds]:
    """Offsets of all `partitions`, four requests per leader, leaders in parallel.

    With `partial` those whose leader does not answer until the deadline are left out.
    """
    leaders = Leaders(brokers, deadline)

    def ask(node: int, asked: list[Partition]) -> tuple[dict[Partition, LogEnds], dict[Partition, str]]:
        out: dict[Partition, LogEnds] = {}
        again: dict[Partition, str] = {}
        for page in pages(asked, _MAX_PER_REQUEST):
            some = list(page)
            columns: list[dict[Partition, int]] = []
            for replica, isolation, timestamp in _READINGS:
                some = [key for key in some if key not in again]
                offsets, why = _list(brokers, node, some, leaders, (replica, isolation, timestamp))
                columns.append(offsets)
                again.update(why)
            for key in some:
                if key not in again:
                    out[key] = LogEnds(*(column[key] for column in columns), node, leaders.epochs[key])  # type: ignore[call-arg]
        return out, again

    return brokers.rounds("read the offsets", partitions, leaders.locate, ask, deadline, partial)


def _list(
    brokers: Brokers,
    node: int,
    partitions: list[Partition],
    leaders: Leaders,
    reading: Reading,
) -> tuple[dict[Partition, int], dict[Partition, str]]:
    if not partitions:
        return {}, {}
    offsets: dict[Partition, int] = {}
    again: dict[Partition, str] = {}
    for key, part in told(brokers, node, partitions, leaders.epochs, reading, leaders.deadline):
        code = part["error_code"]
        if not code:
            offsets[key] = part["offset"]
        else:
            again[key] = why_again(brokers.cluster, f"read offsets of {key[0]}-{key[1]}", code)
    again.update((key, "not in the answer") for key in partitions if key not in offsets and key not in again)
    return offsets, again


def told(
    brokers: Brokers,
    node: int,
    partitions: Collection[Partition],
    epochs: Mapping[Partition, int],
    reading: Reading,
    deadline: Deadline,
    least_version: int = 1,
) -> Iterator[tuple[Partition, Mapping[str, Any]]]:
    """One LIST_OFFSETS: each partition's answer as it came. A broker that is older than `least_version` gives none."""
    replica, isolation, timestamp = reading
    entries = (
        (topic, {"partition_index": index, "current_leader_epoch": epochs[topic, index], "timestamp": timestamp})
        for topic, index in partitions
    )
    message = {"replica_id": replica, "isolation_level": isolation, "topics": by_topic(entries)}

    def talk(connection: Connection) -> dict[str, Any]:
        if connection.version(ApiKey.LIST_OFFSETS) < least_version:
            return {"topics": ()}
        return connection.call(ApiKey.LIST_OFFSETS, message, deadline)

    for of in brokers.converse(node, talk, deadline)["topics"]:
        for part in of["partitions"]:
            yield (of["name"], part["partition_index"]), part
