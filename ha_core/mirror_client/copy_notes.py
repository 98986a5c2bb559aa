"""Reads the notes of flows' copiers (`ha_core.mirror.notes`) in a target, by librdkafka."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.cimpl import KafkaError

from ha_core.flows.errors import MirrorClientError
from ha_core.mirror.notes import CopyId, Notes, copy_of
from ha_core.mirror.progress import CopyDamagedError
from ha_core.mirror_client.reading import stops_reading

COPIES_LOG = "mm2-copies.internal"
"""Topic in the target with the copiers' notes. By its name MirrorMaker 2 takes it for an internal topic, and never
copies it."""
_POLL_S = 0.2


def read_copy_notes(
    settings: Mapping[str, Any], chosen: Callable[[CopyId], bool], timeout_s: float = 60.0
) -> dict[CopyId, Notes]:
    """The notes of the chosen copies, with their whole maps; none if the topic does not exist.

    :param settings: librdkafka's settings for the target.
    :raises MirrorClientError: the notes cannot be read, or their end is not reached in time.
    """
    fixed = {"enable.auto.commit": False, "enable.partition.eof": True, "isolation.level": "read_committed"}
    consumer = Consumer({"group.id": "switchyard-copy-notes", "log_level": 3} | dict(settings) | fixed)
    found: dict[CopyId, Notes] = {}
    deadline = time.monotonic() + timeout_s
    try:
        topic = consumer.list_topics(COPIES_LOG, timeout=timeout_s).topics[COPIES_LOG]
        left = {number for number in topic.partitions if topic.error is None}
        consumer.assign([TopicPartition(COPIES_LOG, number, 0) for number in left])
        while left:
            if time.monotonic() > deadline:
                raise MirrorClientError(f"topic {COPIES_LOG} was not read to its end in {timeout_s:.0f} s")
            message = consumer.poll(_POLL_S)
            if message is None:
                continue
            if (error := message.error()) is not None:
                if error.code() == KafkaError._PARTITION_EOF:
                    left.discard(int(message.partition() or 0))
                elif stops_reading(error):
                    raise MirrorClientError(f"topic {COPIES_LOG} cannot be read: {error.str()}")
                continue
            key, value = message.key(), message.value()
            if isinstance(key, bytes) and isinstance(value, bytes) and chosen(copy := copy_of(key)):
                found.setdefault(copy, Notes(copy, whole_map=True)).add(key, value)
    except KafkaException as error:
        raise MirrorClientError(f"topic {COPIES_LOG} cannot be read: {error.args[0].str()}") from None
    except CopyDamagedError as error:
        raise MirrorClientError(str(error)) from error
    finally:
        consumer.close()
    return found
