"""What is known of the producers of a partition: what its leader remembers, and what the headers of batches say.

The leader remembers the newest (DESCRIBE_PRODUCERS, Kafka 2.8 and newer). With which sequence each producer crossed an
offset only the batches after it tell, and no request tells headers alone: batches are fetched and thrown away, a
bounded number of bytes at a time, one partition after the other on each leader, leaders in parallel. Consumers are
given what is replicated only, so a region whose last records are not is asked for again until they are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ha_core.kafka.brokers import Again, Answers, Asking, Brokers, by_topic, partitions_of
from ha_core.kafka.errors import KafkaAdminError, refusal
from ha_core.kafka.offsets import Leaders
from ha_core.plan.facts.clusters import Partition, ProducerFacts, Surplus
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.copied_batch import CONTROL
from ha_core.wire.errors import RemoteProtocolError
from ha_core.wire.fetch_partition import BY_NAME, fetch_partition, fetched_partition
from ha_core.wire.records import batches

_MAX_PER_REQUEST = 2_000  # an answer has one entry for each producer of each partition
_BYTES_PER_REQUEST = 1 << 20
_WAIT_MS = 100


class Producers(Brokers):
    def producers(
        self, partitions: Collection[Partition], timeout_s: float | None = None
    ) -> dict[Partition, tuple[ProducerFacts, ...]]:
        """What the leaders remember of producers.

        :raises UnsupportedByClusterError: brokers older than 2.8.
        """
        asking = self.asking(timeout_s)

        def ask(node: int, asked: list[Partition]) -> Answers[Partition, tuple[ProducerFacts, ...]]:
            for _, answer in asking.calls(node, ApiKey.DESCRIBE_PRODUCERS, asked, _MAX_PER_REQUEST, message):
                for key, part in partitions_of(answer["topics"]):
                    what = f"read the producers of {key[0]}-{key[1]}"
                    states = tuple(_state(entry) for entry in part["active_producers"])
                    yield key, asking.again(what, part["error_code"], part["error_message"]) or states

        def message(some: Sequence[Partition]) -> dict[str, Any]:
            return {"topics": by_topic(some, "partition_indexes")}

        return asking.rounds("read the producers", partitions, Leaders(asking).locate, ask)

    def transactions(self, producer_ids: Collection[int], timeout_s: float | None = None) -> dict[int, tuple[str, str]]:
        """Producer id → transactional id, and the state of its transaction, as the coordinators say.

        :raises KafkaAdminError: not all of them have answered; brokers older than 3.0 never do.
        """
        asking, wanted = self.asking(timeout_s), list(producer_ids)
        if not wanted:
            return {}
        asking.metadata([])
        message = {"state_filters": [], "producer_id_filters": wanted}
        found: dict[int, tuple[str, str]] = {}
        for answer in asking.on_each(asking.nodes, lambda node: asking.call(node, ApiKey.LIST_TRANSACTIONS, message)):
            if isinstance(answer, KafkaAdminError):
                raise answer
            if code := answer["error_code"]:
                raise refusal(asking.cluster, "list transactions", code)
            for one in answer["transaction_states"]:
                found[one["producer_id"]] = one["transactional_id"], one["transaction_state"]
        return found

    def surplus(
        self, regions: Mapping[Partition, tuple[int, int]], timeout_s: float | None = None
    ) -> dict[Partition, Surplus]:
        """What the batch headers of each region `[start, end)` say of producers; offsets are this cluster's own.

        :raises NotReadyError: a region's end is not replicated, or a leader is missing, until the deadline.
        """
        asking = self.asking(timeout_s)
        leaders = Leaders(asking)
        walks = {key: _Walk(asking, key, start, end) for key, (start, end) in regions.items()}

        def ask(node: int, asked: list[Partition]) -> Answers[Partition, Surplus]:
            for key in asked:
                yield key, walks[key].on(node, leaders.epochs[key])

        return asking.rounds("read batch headers", regions, leaders.locate, ask)


def _state(entry: dict[str, int]) -> ProducerFacts:
    return ProducerFacts(
        producer_id=entry["producer_id"],
        epoch=entry["producer_epoch"],
        last_sequence=entry["last_sequence"],
        last_timestamp_ms=entry["last_timestamp"],
        coordinator_epoch=entry["coordinator_epoch"],
        transaction_start_offset=entry["current_txn_start_offset"],
    )


@dataclass
class _Walk:
    """How far a region was read; it goes on where it was when the leader changes."""

    asking: Asking
    key: Partition
    at: int
    end: int
    first: dict[int, tuple[int, int]] = field(default_factory=dict)
    whole: bool = True

    def on(self, node: int, epoch: int) -> Surplus | Again:
        """Reads on at this leader, as far as it goes."""
        while self.at < self.end:
            before = self.at
            if again := self._step(node, epoch):
                return again
            if self.at == before:
                return Again("its last records are not replicated yet")
        return Surplus(self.first, self.whole)

    def _step(self, node: int, epoch: int) -> Again | None:
        topic, partition = self.key
        message = fetch_partition(self.key, self.at, _BYTES_PER_REQUEST, leader_epoch=epoch, wait_ms=_WAIT_MS)
        code, part = fetched_partition(self.asking.call(node, ApiKey.FETCH, message, BY_NAME))
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:  # deleted since; what is left tells nothing of those who wrote it
            self.whole, self.at = False, self.end
            return None
        where = f"{topic}-{partition} from offset {self.at}"
        if code:
            return self.asking.again(f"read {where}", code)
        try:
            self._take((part and part["records"]) or b"")
        except RemoteProtocolError as error:
            raise KafkaAdminError(self.asking.cluster, f"{where}: {error}.") from error
        return None

    def _take(self, records: bytes) -> None:
        """:raises RemoteProtocolError: these are no batches."""
        for batch in batches(records, 0, len(records)):
            if batch.last_offset < self.at:
                continue  # a fetch begins with the batch that holds its offset
            if batch.base_offset > self.at:
                self.whole = False
            if batch.producer_id >= 0 and batch.base_sequence >= 0 and not batch.attributes & CONTROL:
                # One through which the cut runs lies above it as a whole.
                self.first.setdefault(batch.producer_id, (batch.producer_epoch, batch.base_sequence))
            self.at = batch.last_offset + 1
            if self.at >= self.end:
                return
