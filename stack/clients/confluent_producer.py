"""confluent-kafka's producer, idempotent or not."""

import time
from typing import Any

from stack.clients import confluent_settings
from stack.clients.options import Options
from stack.clients.recorder import Ending, EventRecorder, RecordPace, key_of, value_of
from stack.clients.start_point import started_producer
from stack.history.events import Acked, ClientStarted, ClientStopped, Failed, LibraryRemark, Sent

_NOT_APPENDED = frozenset(
    {
        "MSG_SIZE_TOO_LARGE",
        "INVALID_RECORD",
        "INVALID_MSG",
        "TOPIC_AUTHORIZATION_FAILED",
        "_UNKNOWN_TOPIC",
        "_UNKNOWN_PARTITION",
    }
)
"""Errors after which the record cannot be in any log."""
_FLUSH_S = 60.0


def started(options: Options, kind: str, settings: dict[str, Any]) -> ClientStarted:
    idempotent = str(settings.get("enable.idempotence", False)).lower() == "true" or "transactional.id" in settings
    return started_producer(options, kind, idempotent)


def report(recorder: EventRecorder, client: str, topic: str, name: str, transaction: int | None = None) -> Any:
    """A delivery callback for one record."""

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            definite = error.name() in _NOT_APPENDED
            recorder.write(Failed(client, time.time(), topic, name, definite, str(error)))
            return
        offset = -1 if message.offset() is None else max(message.offset(), -1)
        recorder.write(Acked(client, time.time(), topic, message.partition(), offset, name, transaction))

    return delivered


def run(options: Options) -> int:
    from confluent_kafka import Producer

    with EventRecorder(options.out) as recorder:
        settings = confluent_settings.producer(options, recorder)
        recorder.write(started(options, "confluent", settings))
        producer, ending, pace, number = Producer(settings), Ending(options), RecordPace(options.rate), 0
        unanswered = options.acks == "0"  # then the library reports success without the broker
        while not ending.reached(number):
            due = pace.due(options.count - number if options.count else None)
            batch = [(n, *value_of(options.client, n, options.size_bytes)) for n in range(number, number + due)]
            now = time.time()
            for n, name, _ in batch:
                recorder.write(Sent(options.client, now, options.topic, name, key_of(n, options.keys)))
            recorder.flush()
            for n, name, value in batch:
                callback = None if unanswered else report(recorder, options.client, options.topic, name)
                produce(producer, options.topic, value, key_of(n, options.keys), callback)
            number += due
            producer.poll(0.005)
        left = producer.flush(_FLUSH_S)
        if left:
            recorder.write(
                LibraryRemark(options.client, time.time(), f"{left} records without an answer at the end", True)
            )
        recorder.write(ClientStopped(options.client, time.time()))
        return 1 if left else 0


def produce(producer: Any, topic: str, value: bytes, key: str | None, callback: Any) -> None:
    """Enqueue one record; waits while the library's queue is full."""
    while True:
        try:
            producer.produce(topic, value=value, key=key, on_delivery=callback)
        except BufferError:
            producer.poll(0.05)
        else:
            return
