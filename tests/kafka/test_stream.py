"""A connection that never waits: what it passes on without a copy is what was received, however slow the others are."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from typing import Any

import pytest

from ha_core.kafka.connection import BlockingConnection
from ha_core.kafka.deadline import Deadline
from ha_core.kafka.rooms import Rooms
from ha_core.kafka.stream import Stream
from ha_core.tls.contexts import Certificates, server_context
from ha_core.wire.codec import decode
from ha_core.wire.codes import ApiKey
from ha_core.wire.sasl import SecurityProfile
from ha_core.wire.tls_files import TlsFiles
from stack.certificates import Authority
from tests.kafka.scripted_broker import Answer, answered, broker, header_of, listening

HOST = "127.0.0.1"
VERSIONS = {ApiKey.FETCH: (12, 12), ApiKey.PRODUCE: (9, 9)}
PARTITIONS = 3
PART_BYTES = 300_000
ROUNDS = 30
"""More than sockets hold."""


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def part(number: int, index: int) -> bytes:
    """Of which no two are alike, and that tell where they were overwritten."""
    return b"%04d %04d " % (number, index) * (PART_BYTES // 10)


class Source:
    """Each answer has other records."""

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
def test_records_that_wait_to_be_sent_are_not_overwritten_by_what_is_received_meanwhile(
    authority: Authority, tls: bool
) -> None:
    # Given a source, and a target that takes nothing
    source, target, rooms = Source(), Target(), Rooms(64 << 20)
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
            for one in message["responses"][0]["partitions"]:
                assert isinstance(one["records"], memoryview)
                buffers.add(id(one["records"].obj))
                entries.append({"index": one["partition_index"], "records": one["records"]})
            request = {"acks": -1, "timeout_ms": 1, "topic_data": [{"name": "orders", "partition_data": entries}]}
            there.send(ApiKey.PRODUCE, request)
            del message, one, entries, request
        # Then what is not sent yet is in buffers of its own
        assert len(buffers) > 5
        # When the target takes it all
        target.takes.set()
        answers(there, ROUNDS)
    # Then it has what the source had
    assert target.taken == [part(number, index) for number in range(ROUNDS) for index in range(PARTITIONS)]


@pytest.mark.parametrize("tls", [False, True])
def test_a_room_is_used_again_when_what_was_in_it_is_sent(authority: Authority, tls: bool) -> None:
    profile, context = _security(authority, tls)
    rooms, buffers = Rooms(64 << 20), set[int]()
    with ExitStack() as until:
        here = _opener(until, profile, context, rooms)(Source())
        for _ in range(ROUNDS):
            here.send(ApiKey.FETCH, {"topics": []})
            (message,) = answers(here, 1)
            buffers.add(id(message["responses"][0]["partitions"][0]["records"].obj))
            del message
    assert len(buffers) == 1


def _security(authority: Authority, tls: bool) -> tuple[SecurityProfile, ssl.SSLContext | None]:
    if not tls:
        return SecurityProfile(), None
    own = authority.issue("broker", [HOST])
    context = server_context(TlsFiles(str(authority.file), str(own.certificate), str(own.key)), Certificates.NONE)
    context.sslsocket_class = ssl.SSLSocket
    return SecurityProfile(tls=TlsFiles(ca_file=str(authority.file))), context


def _opener(
    until: ExitStack, profile: SecurityProfile, context: ssl.SSLContext | None, rooms: Rooms
) -> Callable[[Answer], Stream]:
    def opened(then: Answer) -> Stream:
        port = until.enter_context(listening(broker(VERSIONS, then), context))
        connection = BlockingConnection("east", HOST, port, profile, Deadline.after(10))
        return until.enter_context(closing(Stream(connection, rooms)))

    return opened
