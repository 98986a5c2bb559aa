"""aiokafka's producer and consumer."""

import asyncio
import time
from typing import Any

from stack.clients.options import Options
from stack.clients.python_clients import (
    FLUSH_S,
    POLL_MS,
    Rebalances,
    committed,
    consumer_settings,
    failure,
    not_committed,
    producer_settings,
)
from stack.clients.recorder import Ending, EventRecorder, RecordPace, key_of, name_in, value_of
from stack.clients.start_point import StartPoint, started_consumer, started_producer
from stack.history.events import Acked, ClientStopped, Delivered, Failed, LibraryRemark, Positioned, Sent


def produce(options: Options) -> int:
    return asyncio.run(_produce(options))


def consume(options: Options) -> int:
    return asyncio.run(_consume(options))


async def _produce(options: Options) -> int:
    from aiokafka import AIOKafkaProducer
    from aiokafka.errors import KafkaError

    settings = producer_settings(options)
    with EventRecorder(options.out) as recorder:
        idempotent = bool(settings.get("enable_idempotence", False))
        # This library has one batch per partition in flight.
        recorder.write(started_producer(options, "aiokafka", idempotent, ordered=True))
        producer, ending, pace, number = AIOKafkaProducer(**settings), Ending(options), RecordPace(options.rate), 0
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
                    recorder.write(failure(options, name, error))
                    continue
                answers.add(answer)
                answer.add_done_callback(answers.discard)
                if options.acks != "0":
                    answer.add_done_callback(lambda done, name=name: recorder.write(_outcome(options, name, done)))
            recorder.flush()
            await asyncio.sleep(0.005)
        left: set[Any] = set()
        if answers:
            _, left = await asyncio.wait(answers, timeout=FLUSH_S)
        if left:
            text = f"{len(left)} records without an answer at the end"
            recorder.write(LibraryRemark(options.client, time.time(), text, fatal=True))
        await producer.stop()
        recorder.write(ClientStopped(options.client, time.time()))
        return 1 if left else 0


def _outcome(options: Options, name: str, done: asyncio.Future[Any]) -> Acked | Failed:
    if done.cancelled():
        return Failed(options.client, time.time(), options.topic, name, False, "cancelled")
    if (error := done.exception()) is not None:
        return failure(options, name, error)
    place = done.result()
    return Acked(options.client, time.time(), place.topic, place.partition, max(-1, place.offset), name)


async def _consume(options: Options) -> int:
    from aiokafka import AIOKafkaConsumer

    reset = "latest" if options.seek == "end" else options.reset  # assign() starts the reset before a seek is possible
    with EventRecorder(options.out) as recorder:
        recorder.write(started_consumer(options, "aiokafka"))
        ending = Ending(options)
        consumer = AIOKafkaConsumer(**consumer_settings(options, reset))
        await consumer.start()
        ends: dict[Any, int] = {}
        if options.seek:
            ends = await _seek(consumer, options, recorder)
        else:
            _subscribe(consumer, options, recorder)
        count = 0
        while not ending.reached(count):
            batches = await consumer.getmany(timeout_ms=POLL_MS, max_records=500)
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
        recorder.write(ClientStopped(options.client, time.time()))
        return 0


async def _at(consumer: Any, ends: dict[Any, int]) -> bool:
    for part, end in ends.items():
        if await consumer.position(part) < end:
            return False
    return True


def _subscribe(consumer: Any, options: Options, recorder: EventRecorder) -> None:
    from aiokafka import ConsumerRebalanceListener

    class Listener(Rebalances, ConsumerRebalanceListener):  # type: ignore[misc]
        pass

    if options.pattern:
        consumer.subscribe(pattern=options.pattern, listener=Listener(recorder, options))
    else:
        consumer.subscribe(list(options.topics), listener=Listener(recorder, options))


async def _commit(consumer: Any, recorder: EventRecorder, options: Options, batches: Any) -> None:
    from aiokafka.errors import KafkaError

    offsets = {part: records[-1].offset + 1 for part, records in batches.items()}
    try:
        await consumer.commit(offsets)
    except KafkaError as error:
        not_committed(recorder, options, error)
        return
    committed(recorder, options, offsets)


async def _seek(consumer: Any, options: Options, recorder: EventRecorder) -> dict[Any, int]:
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
