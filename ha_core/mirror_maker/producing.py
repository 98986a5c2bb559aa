"""Writes records to internal topics, by librdkafka."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from confluent_kafka import KafkaException, Producer
from confluent_kafka.cimpl import KafkaError

from ha_core.flows.errors import MirrorClientError

_FLUSH_S = 30.0
_PARTITION = 0
_DENIED = {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED}
"""Errors of missing rights. A producer that may write to no topic at all gets the second one, since it gets no id."""


class InternalRecord(NamedTuple):
    topic: str
    key: bytes
    value: bytes


class InternalProducer:
    """A producer for the internal topics of one cluster, each with one partition."""

    def __init__(self, cluster: str, settings: dict[str, Any]) -> None:
        """:param settings: librdkafka's settings for the cluster."""
        fixed = {"acks": "all", "enable.idempotence": True, "linger.ms": 5, "log_level": 3}
        times = {"message.timeout.ms": int(1000 * _FLUSH_S)}
        self._cluster, self._settings = cluster, {**settings, **fixed, **times, "error_cb": self._heard}
        self._producer: Producer | None = None
        self._fatal: KafkaError | None = None

    def write(self, records: Iterable[InternalRecord]) -> None:
        """Write the records; returns once all in-sync replicas have them.

        :raises MirrorClientError: some records are not acknowledged; they may still have been written.
        """
        if self._producer is None:
            self._producer, self._fatal = Producer(self._settings), None
        failures: list[tuple[str, KafkaError]] = []

        def delivered(error: KafkaError | None, message: Any) -> None:
            if error is not None:
                failures.append((message.topic(), error))

        topic = ""
        try:
            for topic, key, value in records:
                while True:
                    try:
                        self._producer.produce(topic, value, key, _PARTITION, on_delivery=delivered)
                        break
                    except BufferError:
                        self._producer.poll(0.1)
            left = self._producer.flush(2 * _FLUSH_S)
        except KafkaException as error:
            raise self._refused(topic, error.args[0]) from None
        if failures:
            raise self._refused(*failures[0])
        if left:
            raise MirrorClientError(
                f"{self._cluster}: {left} records of topic {topic} were not acknowledged in {2 * _FLUSH_S:.0f} s"
            )

    def _heard(self, error: KafkaError) -> None:
        if error.fatal():
            self._fatal = error

    def _refused(self, topic: str, error: KafkaError) -> MirrorClientError:
        cause = self._fatal or error
        if self._fatal is not None or error.fatal():
            self._producer = None  # after a fatal error it would refuse for ever, even once the cause is gone
        right = f". Give the account the right Write on topic {topic}" if cause.code() in _DENIED else ""
        return MirrorClientError(f"{self._cluster}: topic {topic} accepts no records: {cause.str()}{right}")
