"""The logs of a source as a flow saw them first, for flows that begin "from now on" (`auto.offset.reset=latest`).

They are written down in a compacted topic of the target before anything is copied. So a worker that is killed at any
moment begins each partition where the first worker of the flow meant to begin it (`ha_core.flows.starts`).
"""

import json
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.cimpl import KafkaError

from ha_core.flows.configuration import FlowConfig
from ha_core.flows.errors import MirrorClientError
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
) -> FirstLook:
    """The flow's first look, which is now if there was none.

    :param key: of the flow, with the ids of both clusters.
    :param clusters: source and target.
    :param settings: of librdkafka, for the target; likewise `producer`.
    :param leads: whether this worker may look for all.
    :raises NotReadyError: another worker has to look first.
    """
    source, target = clusters
    if not target.topics([TOPIC], offsets=False):
        target.create_topics([TopicSpec(TOPIC, 1, _REPLICATION, _CONFIG)])
    looked = _read(settings, key.encode())
    if looked is None:
        if not leads():
            raise NotReadyError(target.cluster.name, f"{flow.name} waits for the worker that takes its first look.")
        looked = _look(flow, source)
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
    """:raises MirrorClientError: it is no first look."""
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
    """None: the flow has not looked yet.

    The first of several records counts: two workers that looked at once have both written, and one may have begun by
    it. Compaction keeps the last one only, long after both have read the first.
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
