"""A producer that pauses in the middle of a request, for a limited time, and then sends the rest.

Libraries send a request at once, but networks, garbage collectors and stopped machines cut it anywhere, and a
streaming proxy has forwarded a part of it by then. One request with one record is in flight at a time. A rejected
record is sent again; one without an answer is not, because its fate is unknown.

The second half begins with a complete request, hidden in the record: a server that parses it as one creates the
`canary` topic.
"""

import random
import socket
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import google_crc32c

from ha_core.wire import ApiKey, ErrorCode, decode, encode, encode_request, response_body_at
from ha_core.wire.varint import write_uvarint
from stack.clients.options import Options
from stack.clients.recorder import Ending, EventRecorder, value_of
from stack.clients.start_point import started_producer
from stack.history.events import Acked, ClientStopped, Failed, LibraryRemark, Sent

_METADATA, _PRODUCE, _CREATE_TOPICS = 1, 7, 2
"""Versions that are not flexible, so that the records of a single partition are the end of the request."""
_REQUEST_S = 20.0
"""Maximum wait for an answer, beyond the pause."""
_RETRY_S = 0.1
_ACKS = {"0": 0, "1": 1, "all": -1}
_MIN_BYTES = 64_000
"""Minimum part of a request that is sent, so that a proxy forwards it without waiting for the rest."""
_REFUSED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.NOT_ENOUGH_REPLICAS,
    }
)
"""Nothing was appended: send the record again."""
_DAMAGED = frozenset({ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD, ErrorCode.INVALID_REQUEST})
"""The request was intact when it was sent."""


class NoAnswerError(Exception):
    """The outcome of the request is unknown."""


def _signed(value: int) -> bytes:
    """A zigzag varint, as in records."""
    return write_uvarint(((value << 1) ^ (value >> 31)) & 0xFFFFFFFF)


def batch(value: bytes, now_ms: int) -> bytes:
    """One record, without a key, in a batch of version 2 with a valid checksum."""
    record = b"\0" + _signed(0) + _signed(0) + _signed(-1) + _signed(len(value)) + value + b"\0"
    records = _signed(len(record)) + record
    tail = struct.pack(">hiqqqhii", 0, 0, now_ms, now_ms, -1, -1, -1, 1) + records
    return struct.pack(">qiibI", 0, 9 + len(tail), -1, 2, google_crc32c.value(tail)) + tail


class _Broker:
    """A connection with one request in flight at a time."""

    def __init__(self, address: tuple[str, int], client_id: str) -> None:
        self._client_id = client_id
        self._correlation_id = 0
        self._socket = socket.create_connection(address, timeout=_REQUEST_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def request(self, api_key: int, version: int, body: dict[str, Any]) -> bytes:
        self._correlation_id += 1
        encoded = encode(api_key, version, "request", body)
        return bytes(encode_request(api_key, version, self._correlation_id, self._client_id, encoded))

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def answer(self, api_key: int, version: int) -> dict[str, Any]:
        (size,) = struct.unpack(">i", self._read(4))
        frame = self._read(size)
        if struct.unpack_from(">i", frame)[0] != self._correlation_id:
            raise NoAnswerError("an answer to another request")
        return decode(
            api_key, version, "response", memoryview(frame)[response_body_at(api_key, version, frame, 0, size) :]
        )

    def _read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            chunk = self._socket.recv(count - len(data))
            if not chunk:
                raise NoAnswerError("the connection was closed")
            data += chunk
        return bytes(data)

    def close(self) -> None:
        self._socket.close()


class HaltingSender:
    """Sends records one after the other, each in two halves."""

    def __init__(self, options: Options, recorder: EventRecorder) -> None:
        self._options, self._recorder = options, recorder
        self._chance = random.Random(options.seed or zlib.crc32(options.client.encode()))
        self._bootstrap = [_address(one) for one in options.bootstrap.split(",")]
        self._leaders: dict[int, tuple[str, int]] = {}
        self._open: dict[tuple[str, int], _Broker] = {}

    def send(self, number: int) -> None:
        """Send one record until it is accepted, or its outcome is unknown.

        With acks `mixed` it is sent with acks=0, or with acks=1 after a complete one with acks=0, which may still be in
        flight when the halves are.
        """
        acks = _ACKS.get(self._options.acks, -1)
        if self._options.acks == "mixed":
            acks = self._chance.choice((0, 1))
            if acks == 1:
                self._send(f"{number}s", 0, halves=False)
        self._send(str(number), acks)

    def _send(self, number: str, acks: int, halves: bool = True) -> None:
        name, value = self._value(number)
        partition = self._chance.randrange(max(self._leaders or self._find_leaders(), default=0) + 1)
        self._recorder.write(Sent(self._options.client, time.time(), self._options.topic, name, None, partition))
        self._recorder.flush()
        while not self._attempt(name, value, partition, acks, halves):
            time.sleep(_RETRY_S)
            self._find_leaders()

    def _attempt(self, name: str, value: bytes, partition: int, acks: int, halves: bool) -> bool:
        address = self._leaders.get(partition)
        if address is None:
            return False
        try:
            found = self._ask(address, value, partition, acks, halves)
        except (OSError, NoAnswerError) as error:
            self._close(address)
            self._leaders.clear()
            self._fail(name, str(error))
            return True
        if found is None:
            return True
        error_code = found["error_code"]
        if error_code in _REFUSED:
            self._leaders.clear()
            return False
        if error_code == ErrorCode.NONE:
            offset, topic = found["base_offset"], self._options.topic
            self._recorder.write(Acked(self._options.client, time.time(), topic, partition, offset, name))
        else:
            self._fail(name, f"error {error_code}")
            if error_code in _DAMAGED:
                text = f"{name}: a sound request was damaged on its way: error {error_code}"
                self._recorder.write(LibraryRemark(self._options.client, time.time(), text, fatal=True))
        return True

    def _ask(
        self, address: tuple[str, int], value: bytes, partition: int, acks: int, halves: bool
    ) -> dict[str, Any] | None:
        """The partition's answer; None if none is expected."""
        broker = self._open.get(address)
        if broker is None:
            broker = self._open[address] = _Broker(address, self._options.identifier)
        records = batch(value, int(time.time() * 1000))
        topic = {"name": self._options.topic, "partition_data": [{"index": partition, "records": records}]}
        body = {"transactional_id": None, "acks": acks, "timeout_ms": 10_000, "topic_data": [topic]}
        request = broker.request(ApiKey.PRODUCE, _PRODUCE, body)
        seam = len(request) - len(records) + records.index(value) + len(value) // 2
        broker.send(request[:seam])
        time.sleep(self._chance.random() * self._options.halt_s if halves else 0.0)
        broker.send(request[seam:])
        if acks == 0:
            return None
        answer = broker.answer(ApiKey.PRODUCE, _PRODUCE)
        found: dict[str, Any] = answer["responses"][0]["partition_responses"][0]
        return found

    def _value(self, number: str) -> tuple[str, bytes]:
        """The record's value, whose second half begins with a request."""
        half = max(self._options.size_bytes, _MIN_BYTES) // 2
        name, start = value_of(self._options.client, number, half)
        return name, start + self._canary().ljust(half, b".")

    def _canary(self) -> bytes:
        topic = {
            "name": self._options.canary,
            "num_partitions": 1,
            "replication_factor": 1,
            "assignments": [],
            "configs": [],
        }
        body = encode(
            ApiKey.CREATE_TOPICS,
            _CREATE_TOPICS,
            "request",
            {"topics": [topic], "timeout_ms": 10_000, "validate_only": False},
        )
        return bytes(encode_request(ApiKey.CREATE_TOPICS, _CREATE_TOPICS, 1, "canary", body))

    def _fail(self, name: str, error: str) -> None:
        self._recorder.write(Failed(self._options.client, time.time(), self._options.topic, name, False, error))

    def _find_leaders(self) -> dict[int, tuple[str, int]]:
        for address in self._chance.sample(self._bootstrap, len(self._bootstrap)):
            with suppress(OSError, NoAnswerError):
                found = dict(self._leaders_by(address))
                if found:
                    self._leaders = found
                    return found
        return self._leaders

    def _leaders_by(self, address: tuple[str, int]) -> Iterator[tuple[int, tuple[str, int]]]:
        broker = _Broker(address, self._options.identifier)
        try:
            broker.send(broker.request(ApiKey.METADATA, _METADATA, {"topics": [{"name": self._options.topic}]}))
            answer = broker.answer(ApiKey.METADATA, _METADATA)
        finally:
            broker.close()
        addresses = {one["node_id"]: (one["host"], one["port"]) for one in answer["brokers"]}
        for partition in answer["topics"][0]["partitions"]:
            if partition["leader_id"] in addresses:
                yield partition["partition_index"], addresses[partition["leader_id"]]

    def _close(self, address: tuple[str, int]) -> None:
        broker = self._open.pop(address, None)
        if broker is not None:
            broker.close()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host, int(port)


def run(options: Options) -> int:
    with EventRecorder(options.out) as recorder:
        recorder.write(started_producer(options, "halting"))
        producer, ending, number = HaltingSender(options, recorder), Ending(options), 0
        while not ending.reached(number):
            producer.send(number)
            recorder.flush()
            number += 1
        recorder.write(ClientStopped(options.client, time.time()))
        return 0
