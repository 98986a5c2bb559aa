"""Follows an internal topic of MirrorMaker 2: the newest record of each key. librdkafka does the I/O."""

import time
from collections.abc import Mapping
from typing import Any, Generic, TypeVar

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, TopicPartition
from confluent_kafka.cimpl import KafkaError

from ha_core.flows.errors import FlowError, MirrorClientError
from ha_core.flows.records import Checkpoint, OffsetSync
from ha_core.mirror_client.reading import stops_reading

_TIMEOUT_S = 30.0
_POLL_S = 0.2
Followed = TypeVar("Followed", Checkpoint, OffsetSync)


class FollowedTopic(Generic[Followed]):
    """Partition 0 of a topic.

    :ivar newest: by the bytes of the key; as of the last `read`.
    """

    def __init__(self, settings: Mapping[str, Any], topic: str, kind: type[Followed]) -> None:
        """:param settings: of librdkafka, for the cluster that has the topic."""
        fixed = {
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
        self.newest: dict[bytes, Followed] = {}
        self._kind: type[Followed] = kind
        self._topic, self._at = topic, 0
        self._settings = {"group.id": "switchyard-mirror-maker", "log_level": 3} | dict(settings) | fixed
        self._consumer = Consumer(self._settings)
        self._from_start()

    def close(self) -> None:
        self._consumer.close()

    def read(self) -> dict[bytes, Followed]:
        """Read up to the topic's present end.

        :raises MirrorClientError: the topic cannot be read, or its end is not reached in time. The next call goes on
            where this one stopped.
        """
        deadline = time.monotonic() + _TIMEOUT_S
        try:
            _, end = self._consumer.get_watermark_offsets(TopicPartition(self._topic, 0), timeout=_TIMEOUT_S)
            if end < self._at:  # the topic was deleted and created again
                self._from_start()
            while self._at < end:
                if time.monotonic() > deadline:
                    raise MirrorClientError(
                        f"topic {self._topic} was read up to offset {self._at} of {end} in {_TIMEOUT_S:.0f} s; the "
                        "next round goes on there"
                    )
                self._poll()
        except KafkaException as error:
            self._connect_again()
            raise MirrorClientError(f"topic {self._topic} cannot be read: {error.args[0].str()}") from None
        return self.newest

    def _connect_again(self) -> None:
        """A consumer that saw its broker hang may take the partition for unknown long after the broker is back: until
        it reads the metadata of all topics, by default each five minutes."""
        self._consumer.close()
        self._consumer = Consumer(self._settings)
        self._consumer.assign([TopicPartition(self._topic, 0, self._at)])

    def _from_start(self) -> None:
        self.newest.clear()
        self._at = 0
        self._consumer.assign([TopicPartition(self._topic, 0, OFFSET_BEGINNING)])

    def _poll(self) -> None:
        message = self._consumer.poll(_POLL_S)
        if message is None:
            return
        if (error := message.error()) is not None:
            if error.code() == KafkaError._PARTITION_EOF:
                self._at = max(self._at, int(message.offset() or 0))  # only markers can be above it
            elif stops_reading(error):
                raise MirrorClientError(f"topic {self._topic} cannot be read: {error.str()}")
            return
        self._at = int(message.offset() or 0) + 1
        try:
            found = self._kind.decode(message.key(), message.value())
        except FlowError:
            return  # as Kafka's client leaves records of another kind out
        self.newest[found.key] = found
