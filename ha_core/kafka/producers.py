"""What partitions' leaders remember of producers (DESCRIBE_PRODUCERS, Kafka 2.8 and newer)."""

from __future__ import annotations

from collections.abc import Collection

from ha_core.kafka.brokers import Brokers, by_topic, pages
from ha_core.kafka.deadline import Deadline
from ha_core.kafka.errors import why_again
from ha_core.kafka.offsets import Leaders
from ha_core.plan.facts import Partition, ProducerFacts
from ha_core.wire.codes import ApiKey

_MAX_PER_REQUEST = 2_000  # an answer has one entry for each producer of each partition


def producers(
    brokers: Brokers, partitions: Collection[Partition], deadline: Deadline
) -> dict[Partition, tuple[ProducerFacts, ...]]:
    """Producer states of all `partitions`, from their leaders, leaders in parallel.

    :raises UnsupportedByClusterError: brokers older than 2.8.
    """
    leaders = Leaders(brokers, deadline)

    def ask(
        node: int, asked: list[Partition]
    ) -> tuple[dict[Partition, tuple[ProducerFacts, ...]], dict[Partition, str]]:
        out: dict[Partition, tuple[ProducerFacts, ...]] = {}
        again: dict[Partition, str] = {}
        for some in pages(asked, _MAX_PER_REQUEST):
            body = {"topics": by_topic(some, "partition_indexes")}
            answer = brokers.call(node, ApiKey.DESCRIBE_PRODUCERS, body, deadline)
            for one in answer["topics"]:
                for part in one["partitions"]:
                    key, code = (one["name"], part["partition_index"]), part["error_code"]
                    if not code:
                        out[key] = tuple(_state(entry) for entry in part["active_producers"])
                    else:
                        what = f"read the producers of {key[0]}-{key[1]}"
                        again[key] = why_again(brokers.cluster, what, code, part["error_message"])
        return out, again

    return brokers.rounds("read the producers", partitions, leaders.locate, ask, deadline)


def _state(entry: dict[str, int]) -> ProducerFacts:
    return ProducerFacts(
        producer_id=entry["producer_id"],
        epoch=entry["producer_epoch"],
        last_sequence=entry["last_sequence"],
        last_timestamp_ms=entry["last_timestamp"],
        coordinator_epoch=entry["coordinator_epoch"],
        transaction_start_offset=entry["current_txn_start_offset"],
    )
