"""Current leaders of partitions from a single answer, without retries, so that a loop over many never waits."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from ha_core.kafka.brokers import Brokers
from ha_core.kafka.connection import BlockingConnection
from ha_core.kafka.offsets import UNCOMMITTED, listed_offsets
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.codes import ErrorCode, name_of
from ha_core.wire.list_offsets import CONSUMER, MAX_TIMESTAMP

_NO_ID = bytes(16)
_NEWEST: tuple[int, int, int] = (CONSUMER, UNCOMMITTED, MAX_TIMESTAMP)
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


class Leaderships(Brokers):
    def leaderships(
        self, partitions: Collection[Partition], timeout_s: float | None = None
    ) -> dict[Partition, Leadership]:
        """The partitions of these that exist, as far as one broker knows."""
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

        def known() -> Iterator[tuple[Partition, int]]:
            for key, part in listed_offsets(
                self.asking(timeout_s), node, partitions, partitions, _NEWEST, _KNOWS_NEWEST
            ):
                if not part["error_code"] and part["timestamp"] >= 0:
                    yield key, part["timestamp"]

        return dict(known())

    def open(self, node: int, timeout_s: float | None = None) -> BlockingConnection:
        """A connection that the caller owns and closes."""
        return self.asking(timeout_s).open(node)
