"""Reads and writes the topic in which a real MirrorMaker 2 keeps how far it has copied (`mm2-offsets.A.internal`).

Connect reads all partitions of the topic and uses the last record of each key. So a key must stay in the partition that
Java's producer chooses: records of different partitions have no order.
"""

import time
from collections.abc import Iterator, Mapping
from typing import Any, NewType

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.cimpl import KafkaError

from ha_core.flows.connect_state import ConnectState
from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import StandsInTheWayError
from ha_core.kafka.facts import TopicSpec
from ha_core.kafka.topics import TopicDescription
from ha_core.mirror_maker.handover.errors import HandoverError
from ha_core.plan.facts.clusters import Partition

OffsetsProducer = NewType("OffsetsProducer", Producer)
"""A producer that partitions keys as Java's producer does."""
PARTITIONS, REPLICATION = 25, 3
"""Connect's defaults of `offset.storage.partitions` and `offset.storage.replication.factor`."""
_POLICY = "cleanup.policy"
_POLL_S = 0.2
_TIMEOUT_S = 30.0


def offsets_producer(settings: Mapping[str, Any]) -> OffsetsProducer:
    """:param settings: librdkafka's settings for the target."""
    fixed = {
        "partitioner": "murmur2_random",
        "acks": "all",
        # With several requests in flight, a retried one could be appended last, with an older offset.
        "max.in.flight.requests.per.connection": 1,
        # An offset that was not taken in time must not come later, after those of another worker.
        "message.timeout.ms": int(1000 * _TIMEOUT_S),
        "log_level": 3,
    }
    return OffsetsProducer(Producer({**settings, **fixed}))


def ensure_offsets_topic(
    target: Admin, state: ConnectState, partitions: int = PARTITIONS, replication: int = REPLICATION
) -> None:
    """Create the topic as Connect does, if it is missing.

    :raises StandsInTheWayError: the topic exists and is not compacted; Connect would not start.
    """
    topic = state.offsets_topic
    there = target.topics([topic], offsets=False).get(topic)
    if there is None:
        target.create_topics([TopicSpec(topic, partitions, replication, {_POLICY: "compact"})])
        return
    policy = policy_of(there)
    if policy != "compact":
        raise StandsInTheWayError(
            target.cluster.name,
            f"topic {topic} has {_POLICY}={policy}: Connect would lose its offsets, and refuses to start with it. Set "
            f"{_POLICY}=compact.",
        )


def policy_of(topic: TopicDescription) -> str:
    """The cleanup policy that applies to the topic."""
    return topic.config.get(_POLICY) or topic.defaults.get(_POLICY, "delete")


def read_source_offsets(
    settings: Mapping[str, Any], state: ConnectState, timeout_s: float = 60.0
) -> dict[Partition, int]:
    """Partition of the source → offset of the last record that MirrorMaker 2 has committed as copied.

    :param settings: librdkafka's settings for the target.
    :return: empty if the topic does not exist.
    :raises HandoverError: the topic cannot be read to its end.
    """
    # An exactly-once MirrorMaker 2 commits offsets together with its records; offsets of an open transaction do not
    # count.
    fixed = {"enable.auto.commit": False, "enable.partition.eof": True, "isolation.level": "read_committed"}
    consumer = Consumer({"group.id": "switchyard-handover", "log_level": 3, **settings, **fixed})
    try:
        return state.newest(_records(consumer, state.offsets_topic, timeout_s))
    except KafkaException as error:
        raise HandoverError(f"topic {state.offsets_topic} cannot be read: {error.args[0].str()}") from None
    finally:
        consumer.close()


def _records(consumer: Consumer, topic: str, timeout_s: float) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Yields all records up to the end of each partition.

    :raises HandoverError: that takes too long, or a partition cannot be read.
    """
    deadline = time.monotonic() + timeout_s
    known = consumer.list_topics(topic, timeout=timeout_s).topics.get(topic)
    if known is None or not known.partitions:
        return
    left = set(known.partitions)
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING) for partition in left])
    while left:
        if time.monotonic() > deadline:
            raise HandoverError(f"topic {topic} was not read to its end in {timeout_s:.0f} s")
        message = consumer.poll(_POLL_S)
        if message is None:
            continue
        if (error := message.error()) is None:
            yield message.key(), message.value()
        elif error.code() == KafkaError._PARTITION_EOF:
            left.discard(int(message.partition() or 0))
        else:
            raise HandoverError(f"topic {topic} cannot be read: {error.str()}")


def write_source_offsets(
    producer: OffsetsProducer, state: ConnectState, next_offsets: Mapping[Partition, int], timeout_s: float = _TIMEOUT_S
) -> dict[Partition, int]:
    """Write offsets that make a real MirrorMaker 2 go on at these source offsets. Returns once all in-sync replicas
    have them.

    :param next_offsets: partition of the source → offset below which the target has acknowledged everything:
        `CopyStatus.source` of a running loop, `Reached.source` of an ended one. Partitions without a known offset are
        left out.
    :return: the written offsets, which are those of the last copied records.
    :raises HandoverError: the target does not acknowledge the offsets.
    """
    deadline = time.monotonic() + timeout_s
    failures: list[str] = []

    def delivered(error: object, _message: object) -> None:
        if error is not None:
            failures.append(str(error))

    written: dict[Partition, int] = {}
    for partition, next_offset in next_offsets.items():
        record = state.source_offset(partition, next_offset)
        if record is None:
            continue
        while True:
            try:
                producer.produce(state.offsets_topic, record.value, record.key, on_delivery=delivered)
                break
            except BufferError:
                if time.monotonic() > deadline:
                    raise HandoverError(
                        f"topic {state.offsets_topic} accepts no offsets in {timeout_s:.0f} s"
                    ) from None
                producer.poll(0.1)
            except KafkaException as error:
                raise HandoverError(f"topic {state.offsets_topic} accepts no offsets: {error.args[0].str()}") from None
        written[partition] = record.offset
    left = producer.flush(max(deadline - time.monotonic(), 1.0))
    if failures or left:
        why = failures[0] if failures else f"{left} were not acknowledged in {timeout_s:.0f} s"
        raise HandoverError(f"topic {state.offsets_topic} accepts no offsets: {why}")
    return written
