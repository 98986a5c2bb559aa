"""Producers of a partition: the state that its leader remembers, and sequences from the headers of batches.

The leader remembers each producer's newest state (DESCRIBE_PRODUCERS, Kafka 2.8 and newer). Only batches above an
offset show the sequence with which a producer crossed it, and no request returns headers alone. So batches are fetched
and discarded, a bounded number of bytes at a time, one partition after another per leader, leaders in parallel.
Consumers get replicated records only, so a region whose last records are not replicated is requested again until they
are.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ha_core.kafka.brokers import Again, Answers, Asking, Brokers, partitions_of, topic_entries
from ha_core.kafka.errors import KafkaAdminError, refusal
from ha_core.kafka.offsets import Leaders, fetched
from ha_core.plan.facts.clusters import Partition, ProducerFacts, Surplus
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.copied_batch import CONTROL
from ha_core.wire.errors import RemoteProtocolError
from ha_core.wire.records import batches

_MAX_PER_REQUEST = 2_000  # an answer has one entry for each producer of each partition
_BYTES_PER_REQUEST = 1 << 20


class Producers(Brokers):
    def producers(
        self, partitions: Collection[Partition], timeout_s: float | None = None
    ) -> dict[Partition, tuple[ProducerFacts, ...]]:
        """Producer states that the leaders remember.

        :raises UnsupportedByClusterError: brokers older than 2.8.
        """
        asking = self.asking(timeout_s)

        def ask(node: int, keys: list[Partition]) -> Answers[Partition, tuple[ProducerFacts, ...]]:
            for _, answer in asking.calls(node, ApiKey.DESCRIBE_PRODUCERS, keys, _MAX_PER_REQUEST, message):
                for key, part in partitions_of(answer["topics"]):
                    what = f"read the producers of {key[0]}-{key[1]}"
                    states = tuple(_state(entry) for entry in part["active_producers"])
                    yield key, asking.again(what, part["error_code"], part["error_message"]) or states

        def message(some: Sequence[Partition]) -> dict[str, Any]:
            return {"topics": topic_entries(some, "partition_indexes")}

        return asking.rounds("read the producers", partitions, Leaders(asking).locate, ask)

    def transactions(self, producer_ids: Collection[int], timeout_s: float | None = None) -> dict[int, tuple[str, str]]:
        """Producer id → transactional id and state of its transaction, from the coordinators.

        :raises KafkaAdminError: some brokers did not answer; brokers older than 3.0 never do.
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
            for transaction in answer["transaction_states"]:
                found[transaction["producer_id"]] = transaction["transactional_id"], transaction["transaction_state"]
        return found

    def surplus(
        self, regions: Mapping[Partition, tuple[int, int]], timeout_s: float | None = None
    ) -> dict[Partition, Surplus]:
        """Producers in the batch headers of each region `[start, end)`, in offsets of this cluster.

        :raises NotReadyError: a region's end is not replicated, or a leader is missing, at the deadline.
        """
        asking = self.asking(timeout_s)
        leaders = Leaders(asking)
        walks = {key: _Walk(asking, key, start, end) for key, (start, end) in regions.items()}

        def ask(node: int, keys: list[Partition]) -> Answers[Partition, Surplus]:
            for key in keys:
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
    """Progress of reading a region; a new leader continues at the same offset."""

    asking: Asking
    key: Partition
    at: int
    end: int
    first: dict[int, tuple[int, int]] = field(default_factory=dict)
    whole: bool = True

    def on(self, node: int, epoch: int) -> Surplus | Again:
        """Continues at this leader as far as possible."""
        while self.at < self.end:
            before = self.at
            if again := self._step(node, epoch):
                return again
            if self.at == before:
                return Again("its last records are not replicated yet")
        return Surplus(self.first, self.whole)

    def _step(self, node: int, epoch: int) -> Again | None:
        topic, partition = self.key
        code, part = fetched(self.asking, node, self.key, self.at, epoch, _BYTES_PER_REQUEST)
        if code == ErrorCode.OFFSET_OUT_OF_RANGE:  # deleted since; the rest does not show its producers
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
        """:raises RemoteProtocolError: invalid batches."""
        for batch in batches(records, 0, len(records)):
            if batch.last_offset < self.at:
                continue  # a fetch begins with the batch that holds its offset
            if batch.base_offset > self.at:
                self.whole = False
            if batch.producer_id >= 0 and batch.base_sequence >= 0 and not batch.attributes & CONTROL:
                # A batch that spans the cut counts as a whole above it.
                self.first.setdefault(batch.producer_id, (batch.producer_epoch, batch.base_sequence))
            self.at = batch.last_offset + 1
            if self.at >= self.end:
                return
