"""Takes and stores a flow's first look at its source, for flows with `auto.offset.reset=latest`.

The log starts and ends of all partitions are written to a compacted topic of the target before anything is copied. So,
whenever workers are killed, each partition begins where the flow's first worker meant it to begin
(`ha_core.flows.starts`).
"""

import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.cimpl import KafkaError

from ha_core.flows.errors import MirrorClientError
from ha_core.flows.flow_config import FlowConfig
from ha_core.flows.remote_plan import WantedCopy
from ha_core.flows.starts import SeenLog, start_offset
from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import NotReadyError
from ha_core.kafka.facts import TopicSpec
from ha_core.mirror_client.reading import stops_reading
from ha_core.mirror_maker.producing import InternalProducer, InternalRecord
from ha_core.plan.facts.clusters import Partition

TOPIC = "mm2-first-looks.internal"
_CONFIG = {"cleanup.policy": "compact", "max.message.bytes": str(8 << 20)}
_REPLICATION = 3
_POLL_S, _READ_S = 0.2, 60.0
FirstLook = Mapping[Partition, SeenLog]


def starts(flow: FlowConfig, looked: FirstLook, copies: Iterable[WantedCopy]) -> dict[Partition, int]:
    """Partition of the source → its first offset to copy."""
    return {
        (copy.topic, number): start_offset(flow.begins_at, looked.get((copy.topic, number)), copy.topic_id)
        for copy in copies
        for number in range(copy.partitions)
    }


def first_look(
    flow: FlowConfig,
    key: str,
    clusters: tuple[Admin, Admin],
    settings: Mapping[str, Any],
    producer: InternalProducer,
    leads: Callable[[], bool],
    known: FirstLook | None = None,
) -> FirstLook:
    """Read the flow's first look; if there is none yet, take it now and store it.

    :param key: the flow's key, with the ids of both clusters.
    :param clusters: source and target.
    :param settings: librdkafka's settings for the target.
    :param producer: writes to the target.
    :param leads: whether this worker may take the first look for all workers.
    :param known: the flow's first look, which this worker has read before the topic was deleted.
    :raises NotReadyError: another worker has to take it.
    """
    source, target = clusters
    if not target.topics([TOPIC], offsets=False):
        target.create_topics([TopicSpec(TOPIC, 1, _REPLICATION, _CONFIG)])
    looked = _read(settings, key.encode())
    if looked is None:
        if not leads():
            raise NotReadyError(target.cluster.name, f"{flow.name} waits for the worker that takes its first look.")
        # Brokers before 2.8 have no topic ids: a look at another cluster would count for its topics of these names.
        looked = known if known and all(seen.topic_id for seen in known.values()) else _look(flow, source)
        producer.write([InternalRecord(TOPIC, key.encode(), _encoded(looked))])
        return _read(settings, key.encode()) or looked
    return looked


def _look(flow: FlowConfig, source: Admin) -> FirstLook:
    listed = source.list_topics()
    keys = [(topic, number) for topic, its in listed.items() for number in range(its.partitions)]
    return {
        (topic, number): SeenLog(
            ends.start, flow.isolation.end(ends.last_stable, ends.high_watermark), listed[topic].topic_id
        )
        for (topic, number), ends in source.ends(keys).items()
    }


def _encoded(looked: FirstLook) -> bytes:
    topics: dict[str, tuple[str, list[tuple[int, int, int]]]] = {}
    for (topic, number), seen in sorted(looked.items()):
        topics.setdefault(topic, (seen.topic_id, []))[1].append((number, seen.start, seen.end))
    return zlib.compress(json.dumps(topics, separators=(",", ":")).encode())


def _decoded(value: bytes) -> FirstLook:
    """:raises MirrorClientError: the value is not a first look."""
    try:
        topics = json.loads(zlib.decompress(value))
        return {
            (topic, number): SeenLog(start, end, topic_id)
            for topic, (topic_id, its) in topics.items()
            for number, start, end in its
        }
    except (ValueError, TypeError, AttributeError, zlib.error) as error:
        raise MirrorClientError(f"a record of topic {TOPIC} cannot be read: {error}") from None


def _read(settings: Mapping[str, Any], key: bytes) -> FirstLook | None:
    """The flow's stored first look; None: the flow has none yet.

    If there are several records, the first one counts: two workers may have looked and written at the same time, and
    one of them may already copy by the first record. Compaction keeps only the last one, long after both have read the
    first.
    """
    fixed = {"enable.auto.commit": False, "enable.partition.eof": True, "isolation.level": "read_committed"}
    consumer = Consumer({"group.id": "switchyard-first-looks", "log_level": 3} | dict(settings) | fixed)
    try:
        consumer.assign([TopicPartition(TOPIC, 0, 0)])
        for _ in range(int(_READ_S / _POLL_S)):
            message = consumer.poll(_POLL_S)
            if message is None:
                continue
            if (error := message.error()) is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    return None
                if stops_reading(error):
                    raise MirrorClientError(f"topic {TOPIC} cannot be read: {error.str()}")
                continue
            if message.key() == key:
                return _decoded(message.value() or b"")
    except KafkaException as error:
        raise MirrorClientError(f"topic {TOPIC} cannot be read: {error.args[0].str()}") from None
    finally:
        consumer.close()
    raise MirrorClientError(f"topic {TOPIC} was not read to its end in {_READ_S:.0f} s")
