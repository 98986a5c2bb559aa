"""A hand-made transactional producer, and the records of read_committed readers."""

import struct
import time
from collections.abc import Callable
from typing import Any

import google_crc32c

from ha_core.kafka.connection import BlockingConnection, Deadline
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.security import NO_SECURITY
from ha_core.mirror.split import Record, pack
from ha_core.wire.codes import RETRIABLE, ApiKey, ErrorCode
from ha_core.wire.copied_batch import TRANSACTIONAL, claim
from stack.harness import Stack
from tests.kit.consumed import value_of
from tests.kit.waiting import until

RETRIES_S = 5.0
"""Far shorter than the move waits for transactions."""


class Transactional:
    """A hand-made transactional producer. Each request uses the newest connection."""

    def __init__(self, stack: Stack, name: str, own: str = "") -> None:
        self._stack, self._name, self._id = stack, name, f"{name}{own}"
        self._client_id = f"HA#{name}#{name}"
        self._sequence = dict.fromkeys(range(2), 0)
        self._connection = self._at_coordinator()
        self._producer = {"producer_id": -1, "producer_epoch": -1}
        until(self._initialised, "its coordinator gives it an id")

    def _initialised(self) -> bool:
        given = self._call(ApiKey.INIT_PRODUCER_ID, transaction_timeout_ms=60_000, **self._producer)
        self._producer = {key: given[key] for key in self._producer}
        return not given["error_code"]

    def leave(self) -> None:
        """Break its connection, and open another one."""
        self._connection.close()
        self._connection = self._at_coordinator()

    def take_in(self, partition: int) -> int:
        topics = [{"name": self._name, "partitions": [partition]}]
        answer = self._call(ApiKey.ADD_PARTITIONS_TO_TXN, **self._producer, topics=topics)
        code: int = answer["results_by_topic"][0]["results_by_partition"][0]["partition_error_code"]
        return code

    def write(self, partition: int, value: str) -> int:
        made = pack([Record.of(0, int(time.time() * 1000), None, value.encode())], 0)
        sequence, self._sequence[partition] = self._sequence[partition], self._sequence[partition] + 1
        claim(made, 0, self._producer["producer_id"], self._producer["producer_epoch"], sequence)
        made[22] |= TRANSACTIONAL
        struct.pack_into(">I", made, 17, google_crc32c.value(bytes(made[21:])))
        data = [{"name": self._name, "partition_data": [{"index": partition, "records": bytes(made)}]}]
        answer = self._call(ApiKey.PRODUCE, acks=-1, timeout_ms=5000, topic_data=data)
        code: int = answer["responses"][0]["partition_responses"][0]["error_code"]
        return code

    def end(self, *, commits: bool) -> int:
        code: int = self._call(ApiKey.END_TXN, **self._producer, committed=commits)["error_code"]
        return code

    def ends_anew(self, *, commits: bool, timeout_s: float = 20.0) -> int:
        """Request the end on new connections until the answer is not retriable."""
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                self.leave()
                code = self.end(commits=commits)
            except KafkaAdminError:
                code = ErrorCode.COORDINATOR_NOT_AVAILABLE
            if code not in RETRIABLE or time.monotonic() > deadline:
                return code
            time.sleep(0.2)

    def begin_anew(self) -> None:
        """Start a new transaction like libraries that have given one up (KIP-360)."""
        self._sequence = dict.fromkeys(self._sequence, 0)
        until(self._initialised, "its coordinator gives it an id")

    def close(self) -> None:
        self._connection.close()

    def _call(self, api: ApiKey, **fields: Any) -> dict[str, Any]:
        self._connection.until = Deadline.after(20.0)
        return self._connection.call(api, {"transactional_id": self._id, **fields}, 7)

    def _at_coordinator(self) -> BlockingConnection:
        """A connection to the only broker of the user's cluster, which leads the partitions, too."""
        host, port = self._stack.gateways[0]["bootstrap"].rsplit(":", 1)
        first = self._open(host, int(port))
        while (found := first.call(ApiKey.FIND_COORDINATOR, {"key": self._id, "key_type": 1}, 3))["error_code"]:
            time.sleep(0.1)
        first.close()
        return self._open(found["host"], found["port"])

    def _open(self, host: str, port: int) -> BlockingConnection:
        return BlockingConnection("gateways", host, port, NO_SECURITY, Deadline.after(20.0), client_id=self._client_id)


def again(ask: Callable[[], int], timeout_s: float = RETRIES_S) -> int:
    """The first answer that is not retriable; CONCURRENT_TRANSACTIONS: it stayed that."""
    deadline = time.monotonic() + timeout_s
    while (code := ask()) == ErrorCode.CONCURRENT_TRANSACTIONS and time.monotonic() < deadline:
        time.sleep(0.05)
    return code


def committed(stack: Stack, name: str, partitions: int = 2) -> list[str]:
    """Records of a read_committed reader, through the gateways."""
    from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

    settings = {"bootstrap.servers": stack.bootstrap, "client.id": f"HA#{name}#{name}", "group.id": name}
    settings |= {"isolation.level": "read_committed", "enable.auto.commit": "false", "log_level": "3"}
    reader = Consumer({**settings, "enable.partition.eof": True})
    reader.assign([TopicPartition(name, partition, OFFSET_BEGINNING) for partition in range(partitions)])
    found, ended = [], 0
    deadline = time.monotonic() + 60
    while ended < partitions and time.monotonic() < deadline:
        record = reader.poll(1.0)
        if record is None:
            continue
        if record.error():
            ended += 1
        else:
            found.append(value_of(record).decode())
    reader.close()
    assert ended == partitions
    return sorted(found)
