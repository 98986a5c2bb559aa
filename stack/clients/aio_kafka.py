"""aiokafka's producer and consumer."""

from __future__ import annotations

import asyncio
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
_POLL_MS = 100
_FLUSH_S = 60.0


def produce(options: Options) -> int:
    return asyncio.run(_produce(options))


def consume(options: Options) -> int:
    return asyncio.run(_consume(options))


def _common(options: Options) -> dict[str, Any]:
    settings: dict[str, Any] = {"bootstrap_servers": options.bootstrap, "client_id": options.identifier}
    if options.user:
        settings |= {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "PLAIN",
            "sasl_plain_username": options.user,
            "sasl_plain_password": options.password,
        }
    return settings


async def _produce(options: Options) -> int:
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import KafkaError

    settings = _common(options)
    if options.compression and options.compression != "none":
        settings["compression_type"] = options.compression
    if options.acks:
        settings["acks"] = "all" if options.acks == "all" else int(options.acks)
    if options.idempotence:
        settings["enable_idempotence"] = options.idempotence == "on"
    if options.linger_ms >= 0:
        settings["linger_ms"] = options.linger_ms
    settings |= options.own_numbers_and_settings
    with Recorder(options.out) as recorder:
        recorder.write(
            Started(
                options.client,
                time.time(),
                "producer",
                "aiokafka",
                options.topics,
                idempotent=bool(settings.get("enable_idempotence", False)),
                ordered=True,  # this library has one batch per partition in flight
                value_prefix=f"{options.client}-",
            )
        )
        producer, ending, pace, number = AIOKafkaProducer(**settings), Ending(options), Pace(options.rate), 0
        await producer.start()
        answers: set[asyncio.Future[Any]] = set()
        while not ending.reached(number):
            for n in range(number, number + pace.due(options.count - number if options.count else None)):
                name, value = value_of(options.client, n, options.size_bytes)
                key = key_of(n, options.keys)
                recorder.write(Sent(options.client, time.time(), options.topic, name, key))
                recorder.flush()
                number = n + 1
                try:
                    answer = await producer.send(options.topic, value=value, key=key.encode() if key else None)
                except KafkaError as error:
                    recorder.write(_failure(options, name, error))
                    continue
                answers.add(answer)
                answer.add_done_callback(answers.discard)
                if options.acks != "0":
                    answer.add_done_callback(lambda done, name=name: recorder.write(_outcome(options, name, done)))
            recorder.flush()
            await asyncio.sleep(0.005)
        left: set[Any] = set()
        if answers:
            _, left = await asyncio.wait(answers, timeout=_FLUSH_S)
        if left:
            text = f"{len(left)} records without an answer at the end"
            recorder.write(Noted(options.client, time.time(), text, fatal=True))
        await producer.stop()
        recorder.write(Stopped(options.client, time.time()))
        return 1 if left else 0


def _outcome(options: Options, name: str, done: asyncio.Future[Any]) -> Acked | Failed:
    if done.cancelled():
        return Failed(options.client, time.time(), options.topic, name, False, "cancelled")
    if (error := done.exception()) is not None:
        return _failure(options, name, error)
    place = done.result()
    return Acked(options.client, time.time(), place.topic, place.partition, max(-1, place.offset), name)


def _failure(options: Options, name: str, error: BaseException) -> Failed:
    definite = type(error).__name__ in _NOT_APPENDED
    return Failed(options.client, time.time(), options.topic, name, definite, repr(error))


async def _consume(options: Options) -> int:
    from aiokafka import AIOKafkaConsumer

    reset = "latest" if options.seek == "end" else options.reset  # assign() begins to reset before a seek can follow
    settings = _common(options) | {"auto_offset_reset": reset}
    if options.group:
        settings["group_id"] = options.group
    if options.commit == "batch" or not options.group:
        settings["enable_auto_commit"] = False
    if options.instance_id:
        settings["group_instance_id"] = options.instance_id
    if options.isolation:
        settings["isolation_level"] = options.isolation
    with Recorder(options.out) as recorder:
        recorder.write(started_consumer(options, "aiokafka"))
        ending = Ending(options)
        consumer = AIOKafkaConsumer(**(settings | options.own_numbers_and_settings))
        await consumer.start()
        ends: dict[Any, int] = {}
        if options.seek:
            ends = await _seek(consumer, options, recorder)
        else:
            consumer.subscribe(list(options.topics), listener=_listener(recorder, options))
        count = 0
        while not ending.reached(count):
            batches = await consumer.getmany(timeout_ms=_POLL_MS, max_records=500)
            now = time.time()
            for part, records in batches.items():
                for record in records:
                    place = (part.topic, part.partition, record.offset)
                    recorder.write(Delivered(options.client, now, *place, name_in(record.value), options.group or None))
                count += len(records)
            recorder.flush()
            if batches and options.group and options.commit == "batch":
                await _commit(consumer, recorder, options, batches)
            if options.to_end and await _at(consumer, ends):
                break
        await consumer.stop()
        recorder.write(Stopped(options.client, time.time()))
        return 0


async def _at(consumer: Any, ends: dict[Any, int]) -> bool:
    for part, end in ends.items():
        if await consumer.position(part) < end:
            return False
    return True


async def _commit(consumer: Any, recorder: Recorder, options: Options, batches: Any) -> None:
    from aiokafka.errors import KafkaError

    offsets = {part: records[-1].offset + 1 for part, records in batches.items()}
    try:
        await consumer.commit(offsets)
    except KafkaError as error:
        recorder.write(Noted(options.client, time.time(), f"commit: {error!r}"))
        return
    for part, offset in offsets.items():
        recorder.write(Committed(options.client, time.time(), options.group, part.topic, part.partition, offset))


async def _seek(consumer: Any, options: Options, recorder: Recorder) -> dict[Any, int]:
    from aiokafka import TopicPartition

    point = StartPoint.parse(options.seek)
    parts = []
    for topic in options.topics:
        await consumer._client.force_metadata_update() if consumer.partitions_for_topic(topic) is None else None
        parts += [TopicPartition(topic, p) for p in sorted(consumer.partitions_for_topic(topic) or ())]
    consumer.assign(parts)
    ends: dict[Any, int] = await consumer.end_offsets(parts)
    if point.timestamp_ms is not None:
        found = await consumer.offsets_for_times(dict.fromkeys(parts, point.timestamp_ms))
        for part in parts:
            consumer.seek(part, ends[part] if found[part] is None else found[part].offset)
    elif point.word == "beginning":
        await consumer.seek_to_beginning(*parts)
    elif point.word == "end":
        await consumer.seek_to_end(*parts)
    else:
        for part in parts:
            consumer.seek(part, point.offset)
    for part in parts:
        recorder.write(Positioned(options.client, time.time(), part.topic, part.partition, options.seek))
    return ends


def _listener(recorder: Recorder, options: Options) -> Any:
    from aiokafka import ConsumerRebalanceListener

    class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
        def on_partitions_assigned(self, assigned: Any) -> None:
            recorder.write(Assigned(options.client, time.time(), _spots(assigned), options.group))

        def on_partitions_revoked(self, revoked: Any) -> None:
            recorder.write(Revoked(options.client, time.time(), _spots(revoked), options.group))

    return Listener()


def _spots(parts: Any) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((part.topic, part.partition) for part in parts))
