"""A connection that never blocks passes on the received records unchanged and without a copy."""

import gc
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import chain, repeat
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ha_core.kafka.connection import BlockingConnection, Deadline
from ha_core.kafka.errors import ConnectionLostError
from ha_core.kafka.stream import BufferPool, Stream
from ha_core.tls.contexts import Certificates, server_context
from ha_core.wire.client import Client
from ha_core.wire.codec import decode, encode
from ha_core.wire.codes import ApiKey
from ha_core.wire.header import encode_response
from ha_core.wire.sasl import SecurityProfile
from ha_core.wire.tls_files import TlsFiles
from stack.certificates import Authority
from tests.kafka.scripted_broker import Answer, answered, broker, header_of, listening

HOST = "127.0.0.1"
VERSIONS = {ApiKey.FETCH: (12, 12), ApiKey.PRODUCE: (9, 9)}
PARTITIONS = 3
PART_BYTES = 300_000
ROUNDS = 30
"""More than sockets buffer."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def part(number: int, index: int) -> bytes:
    """Bytes that are unique, and show where they were overwritten."""
    return b"%04d %04d " % (number, index) * (PART_BYTES // 10)


class Source:
    """Returns other records in each answer."""

    def __init__(self) -> None:
        self.answers = 0

    def __call__(self, frame: bytes) -> bytes:
        number, self.answers = self.answers, self.answers + 1
        parts = [{"partition_index": index, "records": part(number, index)} for index in range(PARTITIONS)]
        return answered(frame, {"responses": [{"topic": "orders", "partitions": parts}]})


class Target:
    """Takes nothing for a while, then everything."""

    def __init__(self) -> None:
        self.takes = threading.Event()
        self.taken: list[bytes] = []

    def __call__(self, frame: bytes) -> bytes:
        header = header_of(frame)
        message = decode(ApiKey.PRODUCE, header.api_version, "request", frame, header.body_at)
        self.taken += [one["records"] for one in message["topic_data"][0]["partition_data"]]
        self.takes.wait(30)
        return answered(frame, {"responses": []})


def answers(stream: Stream, count: int) -> list[Any]:
    found, until = list[Any](), time.monotonic() + 30
    while len(found) < count:
        assert time.monotonic() < until, f"{len(found)} of {count} answers have come"
        found += [answer.message() for answer in stream.read()]
        stream.write()
        time.sleep(0.001)
    return found


@pytest.mark.parametrize("tls", [False, True])
def test_records_waiting_to_be_sent_are_not_overwritten(authority: Authority, tls: bool) -> None:
    # Given a source, and a target that takes nothing
    source, target, rooms = Source(), Target(), BufferPool(64 << 20)
    profile, context = _security(authority, tls)
    with ExitStack() as until:
        open_ = _opener(until, profile, context, rooms)
        here, there = open_(source), open_(target)
        until.callback(target.takes.set)
        # When one answer after the other is received and passed on
        buffers = set[int]()
        for _ in range(ROUNDS):
            here.send(ApiKey.FETCH, {"topics": []})
            (message,) = answers(here, 1)
            entries = []
            for partition in message["responses"][0]["partitions"]:
                assert isinstance(partition["records"], memoryview)
                buffers.add(id(partition["records"].obj))
                entries.append({"index": partition["partition_index"], "records": partition["records"]})
            request = {"acks": -1, "timeout_ms": 1, "topic_data": [{"name": "orders", "partition_data": entries}]}
            there.send(ApiKey.PRODUCE, request)
            del message, partition, entries, request
        # Then what is not sent yet is in buffers of its own
        assert len(buffers) > 5
        # When the target takes it all
        target.takes.set()
        answers(there, ROUNDS)
    # Then it has what the source had
    assert target.taken == [part(number, index) for number in range(ROUNDS) for index in range(PARTITIONS)]


@pytest.mark.parametrize("tls", [False, True])
def test_buffer_is_reused_after_its_records_were_sent(authority: Authority, tls: bool) -> None:
    profile, context = _security(authority, tls)
    rooms, buffers = BufferPool(64 << 20), set[int]()
    with ExitStack() as until:
        here = _opener(until, profile, context, rooms)(Source())
        for _ in range(ROUNDS):
            here.send(ApiKey.FETCH, {"topics": []})
            (message,) = answers(here, 1)
            buffers.add(id(message["responses"][0]["partitions"][0]["records"].obj))
            del message
    assert len(buffers) == 1


def records_until_the_connection_is_lost(stream: Stream) -> Iterator[Any]:
    """The records received before the connection is lost."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        for answer in stream.read():
            yield from answer.message()["responses"][0]["partitions"]
        time.sleep(0.001)


CUTS = {
    "in its size": 3,
    "after its size": 4,
    "in its head": 9,
    "in the first records": 40_000,
    "between partitions": 4 + 40 + PART_BYTES,
    "before its last byte": -1,
}


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS.keys())
@pytest.mark.parametrize("tls", [False, True])
def test_incomplete_answer_yields_nothing_and_frees_its_buffer(authority: Authority, tls: bool, cut: int) -> None:
    # Given a source that hangs up in the middle of its second answer
    source, asked = Source(), list[bytes]()

    def then(frame: bytes) -> bytes | None:
        asked.append(frame)
        if len(asked) > 2:
            return None
        return source(frame) if len(asked) < 2 else source(frame)[:cut]

    rooms = BufferPool(64 << 20)
    with ExitStack() as until:
        here = _opener(until, *_security(authority, tls), rooms)(then)
        for _ in range(3):
            here.send(ApiKey.FETCH, {"topics": []})
        # When it is read, then the connection is lost
        found = list[Any]()
        with pytest.raises(ConnectionLostError):
            found.extend(records_until_the_connection_is_lost(here))
        # Then the first answer is delivered, and not the second
        assert [bytes(one["records"]) for one in found] == [part(0, index) for index in range(PARTITIONS)]
        found.clear()
    # And no buffer stays in use
    del here, until
    gc.collect()
    views = [rooms.allocate(PARTITIONS * PART_BYTES) for _ in range(2)]
    assert len(rooms._rooms) == len(views)


@given(
    st.lists(st.integers(0, 200_000), min_size=1, max_size=8), st.lists(st.integers(1, 90_000), max_size=40), st.data()
)
@settings(max_examples=40, deadline=None)
def test_answers_do_not_depend_on_the_arrival_of_bytes_or_kept_views(
    sizes: list[int], pieces: list[int], data: st.DataObject
) -> None:
    # Given answers of some sizes, which come in pieces of any sizes
    ours, theirs = socket.socketpair()
    rooms, kept = BufferPool(1 << 20), list[tuple[bytes | memoryview, bytes]]()
    with closing(ours), closing(theirs):
        stream = Stream(Connected(ours), rooms)  # type: ignore[arg-type]
        said, wanted = b"", list[bytes]()
        for number, size in enumerate(sizes):
            text = bytes([number + 1]) * size
            stream.send(ApiKey.FETCH, {"topics": []})
            request = header_of(theirs.recv(1000)[4:])
            parts = [{"partition_index": 0, "records": text}]
            body = encode(ApiKey.FETCH, 12, "response", {"responses": [{"topic": "orders", "partitions": parts}]})
            said += encode_response(ApiKey.FETCH, 12, request.correlation_id, body)
            wanted.append(text)
        # When they are read, and some of them kept
        found = list[bytes]()
        for size in chain(pieces, repeat(90_000)):
            theirs.sendall(said[:size])
            said = said[size:]
            for answer in stream.read():
                records = answer.message()["responses"][0]["partitions"][0]["records"]
                found.append(bytes(records))
                if data.draw(st.booleans()):
                    kept.append((records, bytes(records)))
            if not said and len(found) == len(wanted):
                break
        # Then they are what was sent, and stay so
        assert found == wanted
        assert all(bytes(records) == text for records, text in kept)


class Connected:
    """A connection after its handshake."""

    cluster, address = "east", "here"

    def __init__(self, ours: socket.socket) -> None:
        ours.setblocking(False)
        self._socket = ours

    def release(self) -> tuple[Client, socket.socket]:
        client = Client("test")
        client.versions = {int(key): span for key, span in VERSIONS.items()}
        return client, self._socket

    def close(self) -> None:
        self._socket.close()


def _security(authority: Authority, tls: bool) -> tuple[SecurityProfile, ssl.SSLContext | None]:
    if not tls:
        return SecurityProfile(), None
    own = authority.issue("broker", [HOST])
    context = server_context(TlsFiles(str(authority.file), str(own.certificate), str(own.key)), Certificates.NONE)
    context.sslsocket_class = ssl.SSLSocket
    return SecurityProfile(tls=TlsFiles(ca_file=str(authority.file))), context


def _opener(
    until: ExitStack, profile: SecurityProfile, context: ssl.SSLContext | None, rooms: BufferPool
) -> Callable[[Answer], Stream]:
    def opened(then: Answer) -> Stream:
        port = until.enter_context(listening(broker(VERSIONS, then), context))
        connection = BlockingConnection("east", HOST, port, profile, Deadline.after(10))
        return until.enter_context(closing(Stream(connection, rooms)))

    return opened
