"""A client of a drill's own: it writes numbered records through the gateways, and reads them in a group.

It is an ordinary client of librdkafka with its defaults for moves: acks=all and idempotence, endless retries.
"""

import json
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from confluent_kafka import Consumer, KafkaException, Producer

from ha_core.operations.drill.figures import CanaryLog
from ha_core.operations.engine.errors import unchanged

EVERY_S = 0.02
READY_RECORDS = 20
READY_S = 60.0
DRAIN_S = 60.0
_POLL_S = 0.1


class Canary:
    """Runs from `__enter__` to `__exit__`.

    :ivar topic: the topic that it writes, and reads in a group of the same name: two canaries never share a group,
        whose move would take both along.
    :ivar log: what was acknowledged and delivered so far.
    """

    def __init__(self, settings: Mapping[str, Any], topic: str, drill: str) -> None:
        """
        :param settings: of librdkafka, with `bootstrap.servers` of the gateways and the login of the canary's user.
        :param drill: marks its records: those of an earlier drill are passed over.
        """
        self._settings, self.topic = dict(settings), topic
        self._key = drill.encode()
        self.log = CanaryLog()
        self._writing, self._reading = threading.Event(), threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._write, self._read)]
        self._error = ""

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._writing.set()
        self._reading.set()
        for thread in self._threads:
            thread.join()

    def await_ready(self) -> None:
        """Wait until its records come and go.

        :raises RefusedError: they do not.
        """
        until = time.monotonic() + READY_S
        while min(len(self.log.acknowledged), len(self.log.delivered)) < READY_RECORDS:
            if time.monotonic() > until:
                raise unchanged(
                    f"The canary's records of topic {self.topic} do not go through: {len(self.log.acknowledged)} were "
                    f"acknowledged and {len(self.log.delivered)} delivered within {READY_S:.0f} s"
                    f"{f' ({self._error})' if self._error else ''}. Check the client's file, that the topic exists, "
                    "and that its user may write and read it."
                )
            time.sleep(_POLL_S)

    def finish(self) -> CanaryLog:
        """Stop writing, wait until all acknowledged records were delivered, for a minute at most; returns the log."""
        self._writing.set()
        self._threads[0].join()
        until = time.monotonic() + DRAIN_S
        while self.log.undelivered and time.monotonic() < until:
            time.sleep(_POLL_S)
        return self.log

    def _write(self) -> None:
        options = {"enable.idempotence": True, "linger.ms": 0, "message.timeout.ms": 600_000, "log_level": 3}
        producer = Producer({**self._settings, **options})
        number = 0
        while not self._writing.is_set():
            value = json.dumps({"number": number}).encode()
            try:
                producer.produce(self.topic, value, self._key, on_delivery=self._acknowledgement(number))
                number += 1
            except BufferError:
                pass  # the queue is full while the topic is fenced: as an application does, wait
            producer.poll(EVERY_S)
        producer.flush(DRAIN_S)

    def _acknowledgement(self, number: int) -> Any:
        def came(error: Any, _message: Any) -> None:
            if error is None:
                self.log.acknowledged[number] = time.monotonic()
            else:
                self._error = str(error)

        return came

    def _read(self) -> None:
        settings = {"group.id": self.topic, "auto.offset.reset": "earliest", "log_level": 3}
        consumer = Consumer({**self._settings, **settings})
        try:
            consumer.subscribe([self.topic])
            while not self._reading.is_set():
                message = consumer.poll(_POLL_S)
                if message is None or message.error() is not None or message.key() != self._key:
                    continue
                self.log.delivered[json.loads(message.value() or b"")["number"]] += 1
                self.log.delivered_at.append(time.monotonic())
        except KafkaException as error:
            self._error = str(error)
        finally:
            consumer.close()


def settings_of(file: Path) -> dict[str, str]:
    """librdkafka's settings, `key=value` lines with `#` comments.

    :raises RefusedError: it cannot be read, or lacks `bootstrap.servers`.
    """
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise unchanged(f"The canary's client file {file} cannot be read: {error}. Give a readable file.") from error
    found: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        key, sign, value = text.partition("=")
        if not sign:
            raise unchanged(f"{file}, line {number}: no `key=value`. Correct the line.")
        found[key.strip()] = value.strip()
    if not found.get("bootstrap.servers"):
        raise unchanged(f"{file} has no bootstrap.servers. Write those of the gateways into it.")
    return found
