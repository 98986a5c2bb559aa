"""Writes records of internal topics; librdkafka does the I/O."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from confluent_kafka import KafkaException, Producer

from ha_core.flows.errors import MirrorClientError

_FLUSH_S = 30.0
_PARTITION = 0


class InternalRecord(NamedTuple):
    topic: str
    key: bytes
    value: bytes


class InternalProducer:
    """To the internal topics of one cluster, each of one partition."""

    def __init__(self, cluster: str, settings: dict[str, Any]) -> None:
        """:param settings: of librdkafka."""
        self._cluster = cluster
        fixed = {"acks": "all", "enable.idempotence": True, "linger.ms": 5, "log_level": 3}
        self._producer = Producer({**settings, **fixed, "message.timeout.ms": int(1000 * _FLUSH_S)})

    def write(self, records: Iterable[InternalRecord]) -> None:
        """Returns when all in-sync replicas have the records.

        :raises MirrorClientError: some are not acknowledged; they may have been written all the same.
        """
        failures: list[str] = []

        def delivered(error: object, _message: object) -> None:
            if error is not None:
                failures.append(str(error))

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
            raise MirrorClientError(f"{self._cluster} takes no record: {error.args[0].str()}") from None
        if failures or left:
            why = failures[0] if failures else f"{left} records were not acknowledged in {2 * _FLUSH_S:.0f} s"
            raise MirrorClientError(f"{self._cluster} takes no record: {why}")
