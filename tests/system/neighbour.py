"""A client that other clients' moves must not disturb: it counts its library's retries, errors and reconnects."""

import json
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any, NamedTuple, Self

from confluent_kafka import Consumer, Producer

from stack.clients.process import PATIENCE_S
from tests.kit.waiting import until

_PAUSE_S = 0.01
_TROUBLES = ("txretries", "rxerrs", "txerrs", "req_timeouts", "connects", "disconnects")
"""librdkafka's statistics for each broker. A refused batch is sent again and counts in `txretries`."""


class Troubles(NamedTuple):
    """:ivar of_requests: sums of librdkafka's counters, by name.
    :ivar rebalances: of the consumer's group.
    """

    of_requests: Mapping[str, int]
    rebalances: int


class Neighbour:
    """An idempotent producer and a group of one consumer, in this process, with one client id, on one topic."""

    def __init__(self, settings: Mapping[str, Any], topic: str) -> None:
        self.topic = topic
        self._statistics: dict[str, dict[str, Any]] = {}
        common = {**settings, "statistics.interval.ms": 100, "log_level": 3}
        self._producer = Producer({**common, "enable.idempotence": True, "stats_cb": self._told})
        reading = {"group.id": f"{topic}-readers", "auto.offset.reset": "earliest", "stats_cb": self._told}
        self._consumer = Consumer({**common, **reading})
        self.sent = 0
        self.acknowledged = 0
        self.read: list[tuple[int | None, int | None]] = []
        """Partition and offset."""
        self.failed: list[str] = []
        self._ends = threading.Event()
        self._threads = [threading.Thread(target=self._write), threading.Thread(target=self._take)]

    def __enter__(self) -> Self:
        self._consumer.subscribe([self.topic])
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        for thread in self._threads:
            thread.join()
        self._producer.flush(10)
        self._consumer.close()

    def wait_for_more(self, records: int) -> None:
        """Waits until this many more records were read."""
        wanted = len(self.read) + records
        until(
            lambda: len(self.read) >= wanted,
            lambda: f"{len(self.read)} of {wanted} records read; {self.failed}",
            timeout_s=PATIENCE_S,
        )

    def troubles(self) -> Troubles:
        """Counts the troubles so far."""
        time.sleep(0.5)  # until the statistics include everything up to now
        known = [*self._statistics.values()]
        brokers = [broker for told in known for broker in told["brokers"].values()]
        counts = {name: sum(broker[name] for broker in brokers) for name in _TROUBLES}
        return Troubles(counts, sum(told.get("cgrp", {}).get("rebalance_cnt", 0) for told in known))

    def _told(self, text: str) -> None:
        told = json.loads(text)
        self._statistics[told["type"]] = told

    def _write(self) -> None:
        while not self._ends.wait(_PAUSE_S):
            self._producer.produce(self.topic, str(self.sent).encode(), on_delivery=self._answered)
            self.sent += 1
            self._producer.poll(0)

    def _answered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acknowledged += 1

    def _take(self) -> None:
        while not self._ends.is_set():
            for message in self._consumer.consume(100, 0.1):
                if (error := message.error()) is not None:
                    self.failed.append(str(error))
                else:
                    self.read.append((message.partition(), message.offset()))
