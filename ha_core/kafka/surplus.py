"""The headers of a partition's batches from an offset on: with which sequence each producer crossed it.

A broker has no request for headers, so the batches are fetched and thrown away, a bounded number of bytes at a time:
one partition after the other on each leader, leaders in parallel. Consumers are given what is replicated only, so a
region whose last records are not is asked for again until they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ha_core.kafka.brokers import Brokers
from ha_core.kafka.deadline import Deadline
from ha_core.kafka.errors import KafkaAdminError, why_again
from ha_core.kafka.offsets import Leaders
from ha_core.plan.facts import Partition, Surplus
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.errors import RemoteProtocolError
from ha_core.wire.records import batches

BYTES_PER_REQUEST = 1 << 20
_NO_SESSION = -1
_NEWEST_FETCH = 12
_WAIT_MS = 100
_CONTROL = 1 << 5
"""Attribute of batches that end a transaction: they have no sequence."""


@dataclass
class _Walk:
    """How far a region was read; it goes on where it was when the leader changes."""

    at: int
    end: int
    first: dict[int, tuple[int, int]] = field(default_factory=dict)
    whole: bool = True

    @property
    def done(self) -> bool:
        return self.at >= self.end

    def take(self, records: bytes) -> None:
        """:raises RemoteProtocolError: these are no batches."""
        for batch in batches(records, 0, len(records)):
            if batch.last_offset < self.at:
                continue  # a fetch begins with the batch that holds its offset
            if batch.base_offset > self.at:
                self.whole = False
            if batch.producer_id >= 0 and batch.base_sequence >= 0 and not batch.attributes & _CONTROL:
                # One through which the cut runs lies above it as a whole.
                self.first.setdefault(batch.producer_id, (batch.producer_epoch, batch.base_sequence))
            self.at = batch.last_offset + 1
            if self.done:
                return


def surplus(
    brokers: Brokers,
    regions: Mapping[Partition, tuple[int, int]],
    deadline: Deadline,
    bytes_per_request: int = BYTES_PER_REQUEST,
) -> dict[Partition, Surplus]:
    """What the headers of each region `[start, end)` say; offsets are this cluster's own.

    :raises NotSettledError: a region's end is not replicated, or a leader is missing, until the deadline.
    """
    leaders = Leaders(brokers, deadline)
    walks = {key: _Walk(start, end) for key, (start, end) in regions.items()}

    def ask(node: int, asked: list[Partition]) -> tuple[dict[Partition, Surplus], dict[Partition, str]]:
        out: dict[Partition, Surplus] = {}
        again: dict[Partition, str] = {}
        for key in asked:
            walk = walks[key]
            why = None
            while not walk.done and why is None:
                why = _step(brokers, node, key, walk, regions[key][0], leaders, bytes_per_request)
            if why is None:
                out[key] = Surplus(walk.first, walk.whole)
            else:
                again[key] = why
        return out, again

    return brokers.rounds("read batch headers", regions, leaders.locate, ask, deadline)


def _step(
    brokers: Brokers, node: int, key: Partition, walk: _Walk, start: int, leaders: Leaders, most_bytes: int
) -> str | None:
    """One fetch. Why it has to be asked again, if it brought nothing."""
    topic, partition = key
    asked = {
        "partition": partition,
        "current_leader_epoch": leaders.epochs[key],
        "fetch_offset": walk.at,
        "partition_max_bytes": most_bytes,
    }
    answer = brokers.call(
        node,
        ApiKey.FETCH,
        {
            "max_wait_ms": _WAIT_MS,
            "min_bytes": 1,
            "max_bytes": most_bytes,
            "isolation_level": 0,
            "session_id": 0,
            "session_epoch": _NO_SESSION,
            "topics": [{"topic": topic, "partitions": [asked]}],
            "forgotten_topics_data": [],
            "rack_id": "",
        },
        leaders.deadline,
        _NEWEST_FETCH,
    )
    found = _only(answer)
    code = answer["error_code"] or found["error_code"]
    if code == ErrorCode.OFFSET_OUT_OF_RANGE:  # deleted since; what is left tells nothing of those who wrote it
        walk.whole, walk.at = False, walk.end
        return None
    if code:
        return why_again(brokers.cluster, f"read {topic}-{partition} from offset {walk.at}", code)
    before = walk.at
    try:
        walk.take(found["records"] or b"")
    except RemoteProtocolError as error:
        raise KafkaAdminError(brokers.cluster, f"{topic}-{partition} from offset {before}: {error}.") from error
    return None if walk.at > before else "its last records are not replicated yet"


def _only(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The one partition of an answer; of a refusal as a whole there is none."""
    empty: dict[str, Any] = {"error_code": 0, "records": b""}
    return next((part for topic in answer["responses"] for part in topic["partitions"]), empty)
