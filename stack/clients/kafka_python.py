"""kafka-python's producer and consumer."""

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
from stack.history.events import Acked, ClientStopped, Delivered, LibraryRemark, Positioned, Sent


def produce(options: Options) -> int:
    from kafka import KafkaProducer
    from kafka.errors import KafkaError

    with EventRecorder(options.out) as recorder:
        settings = producer_settings(options)
        idempotent = bool(settings.get("enable_idempotence", KafkaProducer.DEFAULT_CONFIG["enable_idempotence"]))
        recorder.write(started_producer(options, "kafka-python", idempotent))
        producer, ending, pace, number = KafkaProducer(**settings), Ending(options), RecordPace(options.rate), 0
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
            producer.flush(timeout=FLUSH_S)
        except KafkaError as error:
            recorder.write(LibraryRemark(options.client, time.time(), f"flush at the end: {error!r}", fatal=True))
            code = 1
        producer.close(timeout=5)
        recorder.write(ClientStopped(options.client, time.time()))
        return code


def _acked(recorder: EventRecorder, options: Options, name: str, place: Any) -> None:
    offset = place.offset if place.offset is not None and place.offset >= 0 else -1
    recorder.write(Acked(options.client, time.time(), place.topic, place.partition, offset, name))


def _failed(recorder: EventRecorder, options: Options, name: str, error: BaseException) -> None:
    recorder.write(failure(options, name, error))


def consume(options: Options) -> int:
    from kafka import KafkaConsumer, TopicPartition

    with EventRecorder(options.out) as recorder:
        recorder.write(started_consumer(options, "kafka-python"))
        settings = consumer_settings(options, options.reset)
        if options.group:
            settings["default_offset_commit_callback"] = lambda offsets, answer: _committed(
                recorder, options, offsets, answer
            )
        ending = Ending(options)
        consumer = KafkaConsumer(**settings)
        ends = _seek(consumer, options, recorder) if options.seek else _subscribe(consumer, options, recorder)
        count = 0
        while not ending.reached(count):
            batches = consumer.poll(timeout_ms=POLL_MS)
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
        recorder.write(ClientStopped(options.client, time.time()))
        return 0


def _subscribe(consumer: Any, options: Options, recorder: EventRecorder) -> dict[Any, int]:
    from kafka import ConsumerRebalanceListener

    class Listener(Rebalances, ConsumerRebalanceListener):  # type: ignore[misc]
        pass

    if options.pattern:
        consumer.subscribe(pattern=options.pattern, listener=Listener(recorder, options))
    else:
        consumer.subscribe(list(options.topics), listener=Listener(recorder, options))
    # A leader that learns its topics only after it has joined sees them as a change, and joins again. kafka-python
    # 3.0.12 forgets this if a poll ends between its JOIN and its SYNC (KAFKA-9815 fixed that in Java): it stays a
    # member without heartbeats and without records, even without a gateway.
    consumer.topics()
    return {}


def _commit(consumer: Any, recorder: EventRecorder, options: Options, batches: Any) -> None:
    from kafka.errors import KafkaError
    from kafka.structs import OffsetAndMetadata

    offsets = {part: OffsetAndMetadata(records[-1].offset + 1, "", -1) for part, records in batches.items()}
    answer: Any = None
    try:
        consumer.commit(offsets)
    except KafkaError as error:
        answer = error
    _committed(recorder, options, offsets, answer)


def _committed(recorder: EventRecorder, options: Options, offsets: Any, answer: Any) -> None:
    if isinstance(answer, Exception):
        not_committed(recorder, options, answer)
    else:
        committed(recorder, options, {part: place.offset for part, place in offsets.items()})


def _seek(consumer: Any, options: Options, recorder: EventRecorder) -> dict[Any, int]:
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
