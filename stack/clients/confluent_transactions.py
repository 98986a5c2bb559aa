"""confluent-kafka's transactional producer: it commits, and sometimes aborts."""

import time
from typing import Any

from stack.clients import confluent_settings
from stack.clients.confluent_producer import produce, report, started
from stack.clients.options import Options
from stack.clients.recorder import Ending, EventRecorder, RecordPace, key_of, value_of
from stack.history.events import ClientStopped, LibraryRemark, Outcome, Sent, TransactionEnded

_TIMEOUT_S = 30.0
_FLUSH_S = 2.0


def run(options: Options) -> int:
    """Records wait until a whole transaction is due, unless the transaction is to stay open while they come due.

    A producer with an id that the coordinator has forgotten is replaced, as the library's documentation requires.
    """
    from confluent_kafka import KafkaException

    with EventRecorder(options.out) as recorder:
        settings = confluent_settings.producer(options, recorder) | {"transactional.id": options.client}
        recorder.write(started(options, "confluent-transactional", settings))
        ending, pace = Ending(options), RecordPace(options.rate)
        producer: Any = None
        number = due = transaction = 0
        while not ending.reached(number):
            if producer is None:
                producer = _new_producer(settings, options, recorder)
                continue
            if not options.transaction_open:
                due += pace.due(options.transaction_records - due)
                if due < options.transaction_records:
                    producer.poll(0.005)
                    continue
            numbers = range(number, number + options.transaction_records)
            transaction += 1
            try:
                producer.begin_transaction()
                if options.transaction_open:
                    _send_as_due(producer, options, recorder, numbers, transaction)
                else:
                    _send(producer, options, recorder, numbers, transaction)
                outcome = _end(producer, transaction, options)
            except KafkaException as error:
                recorder.write(LibraryRemark(options.client, time.time(), str(error)))
                outcome, keep = _give_up(producer, error, options, recorder)
                producer = producer if keep else None
            number, due = numbers.stop, 0
            recorder.write(TransactionEnded(options.client, time.time(), transaction, outcome))
            recorder.flush()
        if producer is not None:
            producer.flush(_FLUSH_S)
        recorder.write(ClientStopped(options.client, time.time()))
        return 0


def _new_producer(settings: dict[str, Any], options: Options, recorder: EventRecorder) -> Any:
    from confluent_kafka import KafkaException, Producer

    producer = Producer(settings)
    try:
        producer.init_transactions(_TIMEOUT_S)
    except KafkaException as error:
        recorder.write(LibraryRemark(options.client, time.time(), str(error)))
        recorder.flush()
        time.sleep(0.2)
        return None
    return producer


def _send(producer: Any, options: Options, recorder: EventRecorder, numbers: range, transaction: int) -> None:
    names = [(n, *value_of(options.client, n, options.size_bytes)) for n in numbers]
    for n, name, _ in names:
        key = key_of(n, options.keys)
        recorder.write(Sent(options.client, time.time(), options.topic, name, key, None, transaction))
    recorder.flush()
    for n, name, value in names:
        callback = report(recorder, options.client, options.topic, name, transaction)
        produce(producer, options.topic, value, key_of(n, options.keys), callback)


def _send_as_due(producer: Any, options: Options, recorder: EventRecorder, numbers: range, transaction: int) -> None:
    pace, at = RecordPace(options.rate), numbers.start
    while at < numbers.stop:
        due = pace.due(numbers.stop - at)
        _send(producer, options, recorder, range(at, at + due), transaction)
        at += due
        producer.poll(0.005)


def _end(producer: Any, transaction: int, options: Options) -> Outcome:
    if options.abort_every and transaction % options.abort_every == 0:
        producer.flush(_FLUSH_S)  # so that aborted records reach the log
        producer.abort_transaction(_TIMEOUT_S)
        return "aborted"
    while True:
        try:
            producer.commit_transaction(_TIMEOUT_S)
        except Exception as error:
            if not _retriable(error):
                raise
        else:
            return "committed"


def _retriable(error: Exception) -> bool:
    from confluent_kafka import KafkaException

    return isinstance(error, KafkaException) and bool(error.args[0].retriable())


def _give_up(producer: Any, error: Exception, options: Options, recorder: EventRecorder) -> tuple[Outcome, bool]:
    """(outcome, whether the producer can go on)."""
    from confluent_kafka import KafkaException

    if error.args[0].fatal():
        return "unknown", False
    try:
        producer.abort_transaction(_TIMEOUT_S)
    except KafkaException as failed:
        recorder.write(LibraryRemark(options.client, time.time(), f"abort: {failed}"))
        return "unknown", False
    return "aborted", True
