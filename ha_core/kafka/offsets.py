"""Leaders of partitions, the starts and ends of their logs, and the times of their records.

**The end that a cut needs** is the leader's *log end offset*: it includes what was acknowledged with acks=1 and is not
replicated yet, above the high watermark that consumers get as "latest". Stock brokers return it to a LIST_OFFSETS
request from the debugging replica (-2): there the latest offset is the log end, not bounded by the watermark. Followers
answer such a request too (with *their* log end), so it carries the leader epoch of the metadata: an epoch has one
leader, and a broker of another epoch refuses.

Offsets are requested one after another: start, last stable, high watermark, log end. Each of the last three is at most
the next one and none ever shrinks under one leader, so **high watermark (read first) == log end (read last)** proves
that nothing was appended in between and that every in-sync replica has all of it: `LogEnds.replicated`. Likewise
**last stable == log end** proves that no transaction was open. No log sizes or replica lags are needed. No broker knows
whether requests are still on their way to the leader: fences and drains ensure that there are none.

**Times.** LIST_OFFSETS with a time returns the first record that is not older; with time 0 that is the first record
with a timestamp. With MAX_TIMESTAMP (KIP-734, version 7, brokers from 3.0 on) it returns the record with the largest
one. An older broker would take that constant for a time, so it is not asked, and reports the first record alone.
`docs/design/spark-jobs.md`, *Timestamps*, says how far to trust one. A broker searches the largest in its remaining
files, which for a while include offsets below a raised log start; such an answer is discarded. Answers cost brokers
file reads, cold ones for the first record: requests are small and sequential per leader, and partitions without a
result in time are left out.
"""

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from ha_core.kafka.brokers import Again, Answers, Asking, Brokers, pages, partitions_of, topic_entries
from ha_core.kafka.connection import BlockingConnection
from ha_core.kafka.errors import ClusterUnreachableError, KafkaAdminError, TopicMissingError, refusal
from ha_core.kafka.facts import LogEnds, RecordTimes
from ha_core.model.isolation import Isolation
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.codes import ApiKey, ErrorCode, name_of
from ha_core.wire.own_requests import (
    BY_NAME,
    CONSUMER,
    EARLIEST,
    LATEST,
    MAX_TIMESTAMP,
    fetch_partition,
    fetched_partition,
    list_offsets,
)

S = TypeVar("S", bound=Hashable)
T = TypeVar("T")
E = TypeVar("E", bound=Exception)
DEBUGGER = -2
_WAIT_MS = 100
Reading = tuple[int, Isolation, int]
"""Replica id, isolation level and timestamp of a LIST_OFFSETS request."""
_READINGS: tuple[Reading, ...] = (  # in this order, see above
    (CONSUMER, Isolation.UNCOMMITTED, EARLIEST),
    (CONSUMER, Isolation.COMMITTED, LATEST),
    (CONSUMER, Isolation.UNCOMMITTED, LATEST),
    (DEBUGGER, Isolation.UNCOMMITTED, LATEST),
)
_MAX_PER_REQUEST = 20_000
_TIME_READINGS: tuple[tuple[Reading, int], ...] = (
    ((DEBUGGER, Isolation.UNCOMMITTED, 0), 1),
    ((DEBUGGER, Isolation.UNCOMMITTED, MAX_TIMESTAMP), 7),
)
"""For the first and the newest record, with the required version. As the debugging replica, like the log ends, so that
records above the high watermark count."""
_MAX_TIMES_PER_REQUEST = 500
"""A request occupies one of the broker's few handler threads: 5 s at 10 ms per cold read."""
_NOTHING = RecordTimes(None, None)
_NO_ID = bytes(16)
_NEWEST: Reading = (CONSUMER, Isolation.UNCOMMITTED, MAX_TIMESTAMP)
_KNOWS_NEWEST = 7


class Leadership(NamedTuple):
    """The leader of a partition that exists."""

    node: int
    """-1: no leader."""
    epoch: int
    topic_id: str
    """In hexadecimal; "": the brokers have none (before 2.8)."""
    trouble: str = ""
    """Why there is no leader."""


class Offsets(Brokers):
    def ends(self, partitions: Collection[Partition], timeout_s: float | None = None) -> dict[Partition, LogEnds]:
        """Current starts and ends; see above for the condition on an end at which to cut."""
        return ends(self.asking(timeout_s), partitions)

    def log_starts(self, partitions: Collection[Partition], timeout_s: float | None = None) -> dict[Partition, int]:
        """Log starts of the partitions that have a leader, as far as leaders answer before the deadline."""
        leaders = self.leaderships(partitions, timeout_s) if partitions else {}
        led = [key for key, leader in leaders.items() if leader.node >= 0]
        found = _listed(self.asking(timeout_s), led, _READINGS[:1], partial=True)
        return {key: start for key, (_, _, (start,)) in found.items()}

    def ends_of_each(
        self, partitions: Collection[Partition], timeout_s: float | None = None
    ) -> dict[Partition, LogEnds | KafkaAdminError]:
        """As `ends`; a partition that cannot be read has an error, and the others have their ends."""
        return apart(list(partitions), lambda keys: ends(self.asking(timeout_s), keys), KafkaAdminError)

    def record_times(
        self, ends: Mapping[Partition, LogEnds], timeout_s: float | None = None
    ) -> dict[Partition, RecordTimes]:
        """Timestamps of the first and newest records, from the leaders that reported `ends`.

        Only informative, so nothing is retried or raised: partitions without an answer at the deadline are missing, and
        None means that the broker cannot tell.
        """
        asking = self.asking(timeout_s)
        times = {key: _NOTHING for key, end in ends.items() if end.start >= end.log_end}
        by_leader: dict[int, list[Partition]] = {}
        for key, end in ends.items():
            if key not in times and end.leader in asking.nodes:
                by_leader.setdefault(end.leader, []).append(key)

        def ask(node: int) -> None:
            for page in pages(by_leader[node], _MAX_TIMES_PER_REQUEST):
                if not asking.deadline.left_s:
                    return
                epochs = {key: ends[key].leader_epoch for key in page}
                first, newest = (
                    {
                        key: part["timestamp"]
                        for key, part in listed_offsets(asking, node, page, epochs, reading, least_version)
                        if not part["error_code"] and part["timestamp"] >= 0 and part["offset"] >= ends[key].start
                    }
                    for reading, least_version in _TIME_READINGS
                )
                times.update((key, RecordTimes(first.get(key), newest.get(key))) for key in page)

        asking.on_each(by_leader, ask)
        return times

    def leaderships(
        self, partitions: Collection[Partition], timeout_s: float | None = None
    ) -> dict[Partition, Leadership]:
        """The partitions of these that exist, as far as one broker knows.

        Nothing is retried, so that a loop over many never waits.
        """
        asking = self.asking(timeout_s)
        found: dict[Partition, Leadership] = {}
        for topic in asking.metadata({topic for topic, _ in partitions})["topics"]:
            name, code = topic["name"], topic["error_code"]
            if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                continue
            topic_id = "" if topic["topic_id"] == _NO_ID else topic["topic_id"].hex()
            if code:
                unknown = Leadership(-1, -1, topic_id, name_of(code))
                found |= {key: unknown for key in partitions if key[0] == name}
            for part in topic["partitions"]:
                led = part["leader_id"] in asking.nodes
                why = "" if led else f"it has no leader, {name_of(part['error_code'])}"
                found[name, part["partition_index"]] = Leadership(
                    part["leader_id"] if led else -1, part["leader_epoch"], topic_id, why
                )
        return {key: found[key] for key in partitions if key in found}

    def newest_times(
        self, node: int, partitions: Mapping[Partition, int], timeout_s: float | None = None
    ) -> dict[Partition, int]:
        """The largest timestamp of each partition in milliseconds, if this broker reports it.

        :param partitions: partition → epoch in which this broker leads it.
        """

        found = listed_offsets(self.asking(timeout_s), node, partitions, partitions, _NEWEST, _KNOWS_NEWEST)
        return {key: part["timestamp"] for key, part in found if not part["error_code"] and part["timestamp"] >= 0}


@dataclass
class Leaders:
    """Finds partitions' leaders; one object serves one request, and remembers the epochs that it found."""

    asking: Asking
    epochs: dict[Partition, int] = field(default_factory=dict)

    def locate(self, wanted: set[Partition]) -> Answers[Partition, int]:
        """:raises TopicMissingError: a topic or partition does not exist."""
        topics = self.asking.metadata({topic for topic, _ in wanted})["topics"]
        for topic in topics:
            check_topic(self.asking.cluster, topic["name"], topic["error_code"])
        parts = dict(partitions_of(topics))
        for key in wanted:
            if key not in parts:
                name, index = min(wanted - parts.keys())
                raise TopicMissingError(
                    self.asking.cluster,
                    f"topic {name} has no partition {index} (it has {sum(topic == name for topic, _ in parts)}). "
                    "Correct the partition, or compare the topic with the one in the other cluster.",
                )
            part = parts[key]
            self.epochs[key] = part["leader_epoch"]
            led = part["leader_id"] in self.asking.nodes
            yield key, part["leader_id"] if led else Again(f"it has no leader, {name_of(part['error_code'])}")


def fetched(
    asking: Asking, node: int, key: Partition, at: int, epoch: int, max_bytes: int, committed: bool = False
) -> tuple[int, dict[str, Any] | None]:
    """Records of a partition from offset `at` on, see `fetched_partition`; waits a moment for the first one.

    :param epoch: of `node` as the leader.
    """
    message = fetch_partition(key, at, max_bytes, leader_epoch=epoch, wait_ms=_WAIT_MS, committed=committed)
    return fetched_partition(asking.call(node, ApiKey.FETCH, message, BY_NAME))


def apart(
    things: list[S],
    work: Callable[[list[S]], Mapping[S, T]],
    expected: type[E],
) -> dict[S, T | KafkaAdminError | E]:
    """Does the work for all things at once; in parts, if one of them keeps the others from it.

    :param expected: an error that is a thing's result, besides those of clusters.
    """
    if not things:
        return {}
    try:
        return {**work(things)}
    except ClusterUnreachableError as error:
        return dict.fromkeys(things, error)
    except KafkaAdminError as error:
        if len(things) == 1:
            return {things[0]: error}
    except expected as error:
        if len(things) == 1:
            return {things[0]: error}
    half = len(things) // 2
    return apart(things[:half], work, expected) | apart(things[half:], work, expected)


def fetched_several(
    asking: Asking,
    node: int,
    places: Mapping[Partition, tuple[int, int]],
    max_bytes: int,
    partition_bytes: int | None = None,
) -> Iterator[tuple[Partition, int, bytes]]:
    """Partition, error code and records of each; waits a moment for the first record of any of them.

    :param places: partition → offset, and epoch of `node` as the leader.
    :param max_bytes: of the answer.
    :param partition_bytes: of each partition; None: `max_bytes`.
    """
    entries = [
        (
            topic,
            {
                "partition": partition,
                "current_leader_epoch": epoch,
                "fetch_offset": at,
                "partition_max_bytes": partition_bytes or max_bytes,
            },
        )
        for (topic, partition), (at, epoch) in places.items()
    ]
    message = {
        "max_wait_ms": _WAIT_MS,
        "min_bytes": 1,
        "max_bytes": max_bytes,
        "isolation_level": int(Isolation.UNCOMMITTED),
        "topics": [{"topic": one["name"], "partitions": one["partitions"]} for one in topic_entries(entries)],
    }
    answer = asking.call(node, ApiKey.FETCH, message, BY_NAME)
    if answer["error_code"]:
        yield from ((key, answer["error_code"], b"") for key in places)
        return
    for topic in answer["responses"]:
        for part in topic["partitions"]:
            yield (topic["topic"], part["partition_index"]), part["error_code"], part["records"] or b""


def check_topic(cluster: str, name: str, code: int) -> None:
    """Raises the error for a topic's error code in metadata, unless it only means that leaders are being elected."""
    if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        raise TopicMissingError(cluster, f"topic {name} does not exist. Create it, or correct the name.")
    if code and code != ErrorCode.LEADER_NOT_AVAILABLE:
        raise refusal(cluster, f"read the metadata of topic {name}", code)


def ends(asking: Asking, partitions: Collection[Partition], partial: bool = False) -> dict[Partition, LogEnds]:
    """Offsets of all `partitions`, four requests per leader, leaders in parallel.

    With `partial`, partitions whose leader does not answer before the deadline are left out.
    """
    found = _listed(asking, partitions, _READINGS, partial)
    return {key: LogEnds(*offsets, node, epoch) for key, (node, epoch, offsets) in found.items()}  # type: ignore[call-arg]


def _listed(
    asking: Asking, partitions: Collection[Partition], readings: Sequence[Reading], partial: bool
) -> dict[Partition, tuple[int, int, list[int]]]:
    """Partition → its leader, its leader epoch, and one offset for each reading, in their order."""
    leaders = Leaders(asking)

    def ask(node: int, keys: list[Partition]) -> Answers[Partition, tuple[int, int, list[int]]]:
        for page in pages(keys, _MAX_PER_REQUEST):
            read: dict[Partition, list[int]] = {key: [] for key in page}
            for reading in readings:
                for key, part in listed_offsets(asking, node, read, leaders.epochs, reading) if read else ():
                    if again := asking.again(f"read offsets of {key[0]}-{key[1]}", part["error_code"]):
                        read.pop(key, None)
                        yield key, again
                    elif key in read:
                        read[key].append(part["offset"])
            for key, offsets in read.items():
                if len(offsets) == len(readings):
                    yield key, (node, leaders.epochs[key], offsets)

    return asking.rounds("read the offsets", partitions, leaders.locate, ask, partial)


def listed_offsets(
    asking: Asking,
    node: int,
    partitions: Collection[Partition],
    epochs: Mapping[Partition, int],
    reading: Reading,
    least_version: int = 1,
) -> Iterator[tuple[Partition, Mapping[str, Any]]]:
    """One LIST_OFFSETS: each partition's answer, unchanged. A broker older than `least_version` returns none."""
    replica, isolation, timestamp = reading
    message = list_offsets(partitions, timestamp, isolation, replica, epochs)

    def talk(connection: BlockingConnection) -> dict[str, Any]:
        if connection.version(ApiKey.LIST_OFFSETS) < least_version:
            return {"topics": ()}
        return connection.call(ApiKey.LIST_OFFSETS, message)

    return partitions_of(asking.converse(node, talk)["topics"])
