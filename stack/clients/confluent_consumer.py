"""confluent-kafka's consumer: a member of a group, or alone with a seek."""

import time
from typing import Any

from stack.clients import confluent_settings
from stack.clients.options import Options
from stack.clients.recorder import Ending, EventRecorder, RecordPace, name_in
from stack.clients.start_point import StartPoint, started_consumer
from stack.history.events import Assigned, ClientStopped, Committed, Delivered, LibraryRemark, Positioned, Revoked

_BATCH = 500
_POLL_S = 0.1
_PAUSE_S = 0.02


def run(options: Options) -> int:
    from confluent_kafka import Consumer

    with EventRecorder(options.out) as recorder:
        recorder.write(started_consumer(options, "confluent", isolation="read_committed"))
        ending = Ending(options)
        settings = confluent_settings.consumer(options, recorder)
        if options.group:
            settings["on_commit"] = lambda error, parts: _committed(recorder, options, error, parts)
        if options.to_end:
            settings["enable.partition.eof"] = True
        consumer = Consumer(settings)
        ends = _seek(consumer, options, recorder) if options.seek else _subscribe(consumer, options, recorder)
        count, pace = 0, RecordPace(options.pace)
        while not ending.reached(count):
            due = min(_BATCH, pace.due(None))
            if not due:
                time.sleep(_PAUSE_S)
                continue
            messages = consumer.consume(due, _POLL_S)
            fresh = [message for message in messages if _record(recorder, options, message, ends)]
            count += len(fresh)
            recorder.flush()
            if fresh and options.group and options.commit == "batch":
                _commit(consumer, recorder, options)
            if options.to_end and not ends:
                break
        consumer.close()
        recorder.write(ClientStopped(options.client, time.time()))
        return 0


def _subscribe(consumer: Any, options: Options, recorder: EventRecorder) -> dict[tuple[str, int], int]:
    def spots(parts: Any) -> tuple[tuple[str, int], ...]:
        return tuple((part.topic, part.partition) for part in parts)

    def assigned(_consumer: Any, parts: Any) -> None:
        recorder.write(Assigned(options.client, time.time(), spots(parts), options.group))

    def revoked(_consumer: Any, parts: Any) -> None:
        recorder.write(Revoked(options.client, time.time(), spots(parts), options.group))

    names = [options.pattern] if options.pattern else list(options.topics)
    consumer.subscribe(names, on_assign=assigned, on_revoke=revoked, on_lost=revoked)
    return {}


def _seek(consumer: Any, options: Options, recorder: EventRecorder) -> dict[tuple[str, int], int]:
    """Assign every partition at the option's position; returns the current log ends."""
    from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, TopicPartition

    point = StartPoint.parse(options.seek)
    found = consumer.list_topics(timeout=30).topics
    parts = [TopicPartition(topic, p) for topic in options.topics for p in sorted(found[topic].partitions)]
    ends = {(part.topic, part.partition): consumer.get_watermark_offsets(part, timeout=30)[1] for part in parts}
    if point.timestamp_ms is not None:
        positions = [TopicPartition(part.topic, part.partition, point.timestamp_ms) for part in parts]
        parts = consumer.offsets_for_times(positions, timeout=30)
    else:
        where = {"beginning": OFFSET_BEGINNING, "end": OFFSET_END}.get(point.word, point.offset)
        for part in parts:
            part.offset = where
    for part in parts:
        where_text = f"{options.seek} ({part.offset})"
        recorder.write(Positioned(options.client, time.time(), part.topic, part.partition, where_text))
    consumer.assign(parts)
    return ends


def _record(recorder: EventRecorder, options: Options, message: Any, ends: dict[tuple[str, int], int]) -> bool:
    """Whether it was a record. A partition whose end was reached is removed from `ends`."""
    now = time.time()
    if (error := message.error()) is not None:
        if error.name() == "_PARTITION_EOF":
            spot = (message.topic(), message.partition())
            if message.offset() >= ends.get(spot, 0):
                ends.pop(spot, None)
        else:
            recorder.write(LibraryRemark(options.client, now, str(error)))
        return False
    name, epoch = name_in(message.value()), message.leader_epoch()
    place = (message.topic(), message.partition(), message.offset())
    recorder.write(Delivered(options.client, now, *place, name, options.group or None, epoch))
    return True


def _commit(consumer: Any, recorder: EventRecorder, options: Options) -> None:
    from confluent_kafka import KafkaException

    try:
        _committed(recorder, options, None, consumer.commit(asynchronous=False))
    except KafkaException as error:
        recorder.write(LibraryRemark(options.client, time.time(), f"commit: {error}"))


def _committed(recorder: EventRecorder, options: Options, error: Any, parts: Any) -> None:
    now = time.time()
    if error is not None:
        recorder.write(LibraryRemark(options.client, now, f"commit: {error}"))
        return
    for part in parts:
        if part.error is None and part.offset >= 0:
            recorder.write(Committed(options.client, now, options.group, part.topic, part.partition, part.offset))
