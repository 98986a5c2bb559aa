"""Following an internal topic by a consumer that fails. Without a cluster."""

from typing import Any

import pytest
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.cimpl import KafkaError

from ha_core.flows.errors import MirrorClientError
from ha_core.flows.records import OffsetSync
from ha_core.mirror_client import followed_topic
from ha_core.mirror_client.followed_topic import FollowedTopic

SYNCS = [OffsetSync("orders", 0, offset, offset + 1) for offset in (5, 9)]


class Message:
    def __init__(self, at: int) -> None:
        self._at, self._sync = at, SYNCS[at]

    def error(self) -> None:
        return None

    def offset(self) -> int:
        return self._at

    def key(self) -> bytes:
        return self._sync.key

    def value(self) -> bytes:
        return self._sync.value


class Cluster:
    """:ivar end: of the topic.
    :ivar assigned: the offset at which each consumer began, in their order.
    """

    def __init__(self) -> None:
        self.end, self.away, self.assigned, self.closed = 1, False, list[int](), 0


class FailingConsumer:
    """Once it could not ask for the end, it knows of no partition any more, as librdkafka's does for minutes."""

    cluster: Cluster

    def __init__(self, _: object) -> None:
        self._at, self._lost = 0, False

    def assign(self, partitions: list[TopicPartition]) -> None:
        self._at = max(partitions[0].offset, 0)
        self.cluster.assigned.append(self._at)

    def get_watermark_offsets(self, _: TopicPartition, timeout: float) -> tuple[int, int]:
        self._lost |= self.cluster.away
        if self._lost:
            raise KafkaException(KafkaError(KafkaError._UNKNOWN_PARTITION))
        return 0, self.cluster.end

    def poll(self, _: float) -> Any:
        self._at += 1
        return Message(self._at - 1)

    def close(self) -> None:
        self.cluster.closed += 1


def test_after_a_failure_the_topic_is_read_on_by_another_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source hung for 70 s; more than two minutes after it was back no offset sync was written yet."""
    cluster = FailingConsumer.cluster = Cluster()
    monkeypatch.setattr(followed_topic, "Consumer", FailingConsumer)
    topic = FollowedTopic({"bootstrap.servers": "east:9092"}, "mm2-offset-syncs.west.internal", OffsetSync)
    assert list(topic.read().values()) == SYNCS[:1]
    cluster.away = True
    for _ in range(2):
        with pytest.raises(MirrorClientError):
            topic.read()
    cluster.away, cluster.end = False, 2
    assert list(topic.read().values()) == SYNCS[1:]
    assert cluster.assigned == [0, 1, 1]
    assert cluster.closed == 2
