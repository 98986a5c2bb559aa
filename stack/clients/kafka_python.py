"""kafka-python's producer and consumer."""

from __future__ import annotations

import time
from typing import Any

from stack.clients.options import Options
from stack.clients.recorder import Ending, Pace, Recorder, key_of, name_in, value_of
from stack.clients.start_point import StartPoint, started_consumer
from stack.history.events import (
    Acked,
    Assigned,
    Committed,
    Delivered,
    Failed,
    Noted,
    Positioned,
    Revoked,
    Sent,
    Started,
    Stopped,
)

_NOT_APPENDED = frozenset({"MessageSizeTooLargeError", "InvalidTopicError", "TopicAuthorizationFailedError"})
_FLUSH_S = 60.0
_POLL_MS = 100


def _common(options: Options) -> dict[str, Any]:
    settings: dict[str, Any] = {
        "bootstrap_servers": options.bootstrap.split(","),
        "client_id": options.identifier,
    }
    if options.user:
        settings |= {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": options.user,
            "sasl_plain_password": options.password,
        }
    return settings


def _producer_settings(options: Options) -> dict[str, Any]:
    settings = _common(options)
    if options.compression and options.compression != "none":
        settings["compression_type"] = options.compression
    if options.acks:
        settings["acks"] = "all" if options.acks == "all" else int(options.acks)
    if options.idempotence:
        settings["enable_idempotence"] = options.idempotence == "on"
    if options.linger_ms >= 0:
        settings["linger_ms"] = options.linger_ms
    return settings | options.own_numbers_and_settings


def produce(options: Options) -> int:
    from kafka import KafkaProducer
    from kafka.errors import KafkaError

    with Recorder(options.out) as recorder:
        settings = _producer_settings(options)
        idempotent = bool(settings.get("enable_idempotence", KafkaProducer.DEFAULT_CONFIG["enable_idempotence"]))
        recorder.write(
            Started(
                options.client,
                time.time(),
                "producer",
                "kafka-python",
                options.topics,
                idempotent=idempotent,
                ordered=idempotent,
                value_prefix=f"{options.client}-",
            )
        )
        producer, ending, pace, number = KafkaProducer(**settings), Ending(options), Pace(options.rate), 0
        while not ending.reached(number):
            for n in range(number, number + pace.due(options.count - number if options.count else None)):
                name, value = value_of(options.client, n, options.size_bytes)
                key = key_of(n, options.keys)
                recorder.write(Sent(options.client, time.time(), options.topic, name, key))
                recorder.flush()
                try:
                    future = producer.send(options.topic, value=value, key=key.encode() if key else None)
                except KafkaError as error:
                    _failed(recorder, options, name, error)
                    continue
                finally:
                    number = n + 1
                if options.acks != "0":
                    future.add_callback(_acked, recorder, options, name)
                    future.add_errback(_failed, recorder, options, name)
            recorder.flush()
            time.sleep(0.005)
        code = 0
        try:
            producer.flush(timeout=_FLUSH_S)
        except KafkaError as error:
            recorder.write(Noted(options.client, time.time(), f"flush at the end: {error!r}", fatal=True))
            code = 1
        producer.close(timeout=5)
        recorder.write(Stopped(options.client, time.time()))
        return code


def _acked(recorder: Recorder, options: Options, name: str, place: Any) -> None:
    offset = place.offset if place.offset is not None and place.offset >= 0 else -1
    recorder.write(Acked(options.client, time.time(), place.topic, place.partition, offset, name))


def _failed(recorder: Recorder, options: Options, name: str, error: BaseException) -> None:
    definite = type(error).__name__ in _NOT_APPENDED
    recorder.write(Failed(options.client, time.time(), options.topic, name, definite, repr(error)))


def consume(options: Options) -> int:
    from kafka import KafkaConsumer, TopicPartition

    with Recorder(options.out) as recorder:
        recorder.write(started_consumer(options, "kafka-python"))
        settings = _common(options) | {"auto_offset_reset": options.reset}
        if options.group:
            settings["group_id"] = options.group
            settings["default_offset_commit_callback"] = lambda offsets, answer: _auto_committed(
                recorder, options, offsets, answer
            )
        if options.commit == "batch" or not options.group:
            settings["enable_auto_commit"] = False
        if options.instance_id:
            settings["group_instance_id"] = options.instance_id
        if options.isolation:
            settings["isolation_level"] = options.isolation
        ending = Ending(options)
        consumer = KafkaConsumer(**(settings | options.own_numbers_and_settings))
        ends: dict[Any, int] = {}
        if options.seek:
            ends = _seek(consumer, options, recorder)
        else:
            # kafka-python 3.0.12 may join its group before it knows of its topics; it gets nothing then, joins again
            # when it does, and in one of some starts, without any gateway, waits in that second join for ever.
            for topic in options.topics:
                consumer.partitions_for_topic(topic)
            consumer.subscribe(list(options.topics), listener=_listener(recorder, options))
        count = 0
        while not ending.reached(count):
            batches = consumer.poll(timeout_ms=_POLL_MS)
            now = time.time()
            for part, records in batches.items():
                for record in records:
                    place = (part.topic, part.partition, record.offset)
                    epoch = getattr(record, "leader_epoch", None)
                    name = name_in(record.value)
                    recorder.write(Delivered(options.client, now, *place, name, options.group or None, epoch))
                count += len(records)
            recorder.flush()
            if batches and options.group and options.commit == "batch":
                _commit(consumer, recorder, options, batches)
            if options.to_end and all(consumer.position(TopicPartition(*part)) >= end for part, end in ends.items()):
                break
        consumer.close()
        recorder.write(Stopped(options.client, time.time()))
        return 0


def _commit(consumer: Any, recorder: Recorder, options: Options, batches: Any) -> None:
    from kafka.errors import KafkaError
    from kafka.structs import OffsetAndMetadata

    offsets = {part: OffsetAndMetadata(records[-1].offset + 1, "", -1) for part, records in batches.items()}
    try:
        consumer.commit(offsets)
    except KafkaError as error:
        recorder.write(Noted(options.client, time.time(), f"commit: {error!r}"))
        return
    _auto_committed(recorder, options, offsets, None)


def _auto_committed(recorder: Recorder, options: Options, offsets: Any, answer: Any) -> None:
    now = time.time()
    if isinstance(answer, Exception):
        recorder.write(Noted(options.client, now, f"commit: {answer!r}"))
        return
    for part, place in offsets.items():
        recorder.write(Committed(options.client, now, options.group, part.topic, part.partition, place.offset))


def _seek(consumer: Any, options: Options, recorder: Recorder) -> dict[Any, int]:
    from kafka import TopicPartition

    point = StartPoint.parse(options.seek)
    parts = [TopicPartition(t, p) for t in options.topics for p in sorted(consumer.partitions_for_topic(t) or ())]
    consumer.assign(parts)
    ends: dict[Any, int] = consumer.end_offsets(parts)
    if point.timestamp_ms is not None:
        found = consumer.offsets_for_times(dict.fromkeys(parts, point.timestamp_ms))
        for part in parts:
            consumer.seek(part, ends[part] if found[part] is None else found[part].offset)
    elif point.word == "beginning":
        consumer.seek_to_beginning(*parts)
    elif point.word == "end":
        consumer.seek_to_end(*parts)
    else:
        for part in parts:
            consumer.seek(part, point.offset)
    for part in parts:
        recorder.write(Positioned(options.client, time.time(), part.topic, part.partition, options.seek))
    return ends


def _listener(recorder: Recorder, options: Options) -> Any:
    from kafka import ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Any) -> None:
            recorder.write(Assigned(options.client, time.time(), _spots(assigned), options.group))

        def on_partitions_revoked(self, revoked: Any) -> None:
            recorder.write(Revoked(options.client, time.time(), _spots(revoked), options.group))

    return Listener()


def _spots(parts: Any) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((part.topic, part.partition) for part in parts))
