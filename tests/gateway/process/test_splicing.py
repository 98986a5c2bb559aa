"""Long bodies that need no inspection are spliced from socket to socket inside the kernel."""

import asyncio
import random
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Any
from unittest.mock import patch

import pytest

from gateway.process.sockets import splicing
from gateway.process.sockets.splicing import LEAST_BYTES, Pipe
from gateway.runtime import clock
from gateway.session.commands import Cause
from gateway.session.fast import fast_path
from gateway.session.readiness import HalfSent
from gateway.session.snapshot import Lease
from ha_core.wire import encode, encode_request, encode_response
from tests.gateway.process.loopback import Loopback, answer, asked, frame, played, request
from tests.gateway.session.batch import batch
from tests.gateway.session.messages import FETCH, fetch, fetched

LONG = random.Random(1).randbytes(3_000_000)


@pytest.fixture
def sockets() -> Iterator[list[socket.socket]]:
    """Client → gateway, gateway → broker."""
    four = [*socket.socketpair(), *socket.socketpair()]
    for one in four:
        one.setblocking(False)
    yield four
    for one in four:
        one.close()


@pytest.fixture
def pipe() -> Iterator[Pipe]:
    made = Pipe()
    yield made
    made.close()


def fill(sock: socket.socket) -> None:
    with suppress(BlockingIOError):
        while True:
            sock.send(bytes(1 << 16))
    with suppress(BlockingIOError):
        while True:
            sock.send(b"a")


def empty(sock: socket.socket) -> None:
    with suppress(BlockingIOError):
        while True:
            sock.recv(1 << 20)


def test_bytes_that_the_receiver_does_not_take_are_returned_and_the_pipe_is_empty(
    sockets: list[socket.socket], pipe: Pipe
) -> None:
    client, gateway, out, broker = sockets
    client.sendall(b"a" * 1000)
    # Given a receiver that takes nothing more
    fill(out)
    # When bytes are taken, and given to it
    assert pipe.fill(gateway, 600) == 600
    assert pipe.empty(out) == b"a" * 600
    # Then the next bytes are others'
    empty(broker)
    assert pipe.fill(gateway, 1 << 20) == 400
    assert pipe.empty(out) == b""
    assert broker.recv(1 << 20) == b"a" * 400


def test_bytes_for_a_receiver_that_has_gone_are_discarded(sockets: list[socket.socket], pipe: Pipe) -> None:
    client, gateway, out, broker = sockets
    client.sendall(b"for nobody")
    broker.close()
    pipe.fill(gateway, 100)
    with pytest.raises(OSError, match="pipe"):
        pipe.empty(out)
    client.sendall(b"next")
    assert pipe.fill(gateway, 100) == 4
    pipe.drop()
    assert pipe.held == 0


def test_the_end_of_a_sender_is_reported(sockets: list[socket.socket], pipe: Pipe) -> None:
    client, gateway, _, _ = sockets
    with pytest.raises(BlockingIOError):
        pipe.fill(gateway, 100)
    client.close()
    assert pipe.fill(gateway, 100) == 0


def counting() -> tuple[list[int], object]:
    """Bytes that were spliced."""
    went: list[int] = []
    take = Pipe.fill

    def counted(pipe: Pipe, sock: socket.socket, most: int) -> int:
        count = take(pipe, sock, most)
        went.append(count)
        return count

    return went, patch.object(splicing.Pipe, "fill", counted)


@played
async def test_the_rest_of_a_long_request_arrives_byte_by_byte_as_it_was_sent(host: Loopback) -> None:
    # Given a client whose first request was passed
    broker = await asked(host, request(1))
    broker.setblocking(True)
    host.sock.setblocking(True)
    went, counted = counting()
    # When it sends a long one, to a broker that takes it slowly
    sent = request(2, LONG)
    with counted:  # type: ignore[attr-defined]
        sending = asyncio.create_task(asyncio.to_thread(host.sock.sendall, sent))
        await asyncio.sleep(0.2)
        received = await asyncio.to_thread(frame, broker)
        await sending
    # Then it is the same, and most of it was not copied
    assert received == sent
    assert sum(went) > LEAST_BYTES
    # And both are answered
    broker.sendall(answer(1) + answer(2, 9))
    assert await asyncio.to_thread(frame, host.sock) == answer(1)
    assert await asyncio.to_thread(frame, host.sock) == answer(2, 9)
    assert host.counts.bytes_from_clients == host.counts.bytes_to_brokers == len(request(1)) + len(sent)


@played
async def test_the_rest_of_a_long_answer_arrives_byte_by_byte_as_it_was_sent(host: Loopback) -> None:
    # Given a fetch
    body = encode(FETCH, 12, "request", fetch(("orders", 0, 5)))
    broker = await asked(host, encode_request(FETCH, 12, 1, "app", body))
    broker.setblocking(True)
    host.sock.setblocking(True)
    went, counted = counting()
    # When its answer is long, and the client takes it slowly
    records = batch(payload=LONG)
    given = encode_response(FETCH, 12, 1, encode(FETCH, 12, "response", fetched(("orders", 0, 6, records))))
    with counted:  # type: ignore[attr-defined]
        sending = asyncio.create_task(asyncio.to_thread(broker.sendall, given))
        await asyncio.sleep(0.2)
        assert await asyncio.to_thread(frame, host.sock) == given
        await sending
    # Then most of it was not copied
    assert sum(went) > LEAST_BYTES
    assert host.connection.session.idle
    assert host.counts.bytes_from_brokers == host.counts.bytes_to_clients == len(given)


@played
async def test_the_rest_of_a_write_is_not_spliced_after_the_lease_has_run_out(host: Loopback) -> None:
    # Given a process that is stopped while it moves the rest of a write, for longer than its lease
    broker = await asked(host, request(1))
    sent = request(2, LONG)
    host.sock.sendall(sent[:100_000])
    got = b""
    while len(got) < 100_000:
        got += await asyncio.to_thread(broker.recv, 100_000)
    take = Pipe.fill

    def stopped(pipe: Pipe, sock: socket.socket, most: int) -> int:
        count = take(pipe, sock, most)
        host.shared.lease.valid_until = clock.now()
        return count

    # When it continues
    with patch.object(splicing.Pipe, "fill", stopped):
        host.sock.sendall(sent[100_000:200_000])
        await host.until(lambda: bool(host.causes))
    # Then the broker gets no more of it, and the client asks again
    assert await asyncio.to_thread(broker.recv, 1) == b""
    assert host.causes == [Cause.LEASE_LOST]
    assert host.pipe.held == 0


@played
async def test_a_client_that_goes_away_in_the_middle_leaves_nothing_in_the_pipe(host: Loopback) -> None:
    broker = await asked(host, request(1))
    sent = request(2, LONG)
    sending = asyncio.create_task(asyncio.to_thread(host.sock.sendall, sent[:500_000]))
    got = b""
    while len(got) < 500_000:
        got += await asyncio.to_thread(broker.recv, 500_000)
    await sending
    host.sock.close()
    # The request before it is still answered; then no answer is awaited
    broker.sendall(answer(1))
    await host.until(lambda: host.connection.session.intake.reading is None)
    assert got == sent[:500_000]
    assert host.pipe.held == 0


class Stopping(socket.socket):
    """At the next read the process is stopped until its lease has run out; then the read is done."""

    lease: Lease | None = None

    def recv_into(self, *arguments: Any) -> int:
        self.stop()
        return super().recv_into(*arguments)

    def stop(self) -> None:
        if self.lease is not None:
            self.lease.valid_until = clock.now()


def stopping(host: Loopback) -> Stopping:
    """The broker's connection, at the gateway."""
    (broker,) = host.connection.brokers.values()
    assert broker.channel is not None
    sock = broker.channel.sock = Stopping(fileno=broker.channel.sock.detach())
    sock.setblocking(False)
    return sock


@played
async def test_an_answer_that_came_while_the_process_was_stopped_beyond_its_lease_is_held_back(
    host: Loopback,
) -> None:
    # Given a write, whose answer the gateway is about to read when it is stopped
    broker = await asked(host, request(1))
    stopping(host).lease = host.shared.lease
    # When it is executed meanwhile: perhaps above the end of the log that an operation has read
    broker.sendall(answer(1))
    # Then the client gets no answer before the lease is back
    await host.until(lambda: host.without_lease == [host.connection])
    assert nothing_comes(host.sock)


@played
async def test_the_rest_of_a_long_answer_is_held_back_after_the_lease_has_run_out(host: Loopback) -> None:
    # Given a write whose long answer has begun to come
    broker = await asked(host, request(1))
    given = (200_000).to_bytes(4, "big") + answer(1)[4:].ljust(200_000, b"a")
    broker.sendall(given[:1000])
    assert await asyncio.to_thread(host.sock.recv, 1000, socket.MSG_WAITALL) == given[:1000]
    # When the gateway is stopped before it reads more, for longer than its lease
    sock, take = stopping(host), Pipe.fill
    sock.lease = host.shared.lease

    def stopped(pipe: Pipe, taken: socket.socket, most: int) -> int:
        sock.stop()
        return take(pipe, taken, most)

    with patch.object(splicing.Pipe, "fill", stopped):
        broker.sendall(given[1000:100_000])
        # Then no more of it is given
        await host.until(lambda: host.without_lease == [host.connection])
        assert nothing_comes(host.sock)


@pytest.mark.parametrize(("where", "least"), [("requests", 1 << 30), ("answers", 1 << 30), ("rest_went", LEAST_BYTES)])
def test_a_fault_of_the_fast_path_ends_its_connection_and_no_other_one(where: str, least: int) -> None:
    @played
    async def scenario(host: Loopback) -> None:
        # Given a client in the middle of a long request
        broker = await asked(host, request(1))
        host.sock.send(request(2, LONG)[:100_000])
        await host.until(lambda: isinstance(host.connection.session.intake.reading, HalfSent))
        # When an unexpected error occurs
        fault = patch.object(fast_path, where, side_effect=RuntimeError)
        with fault, patch.object(splicing, "LEAST_BYTES", least):
            host.sock.send(LONG[:70_000])
            broker.send(answer(1))
            # Then its connection ends, since bytes of it may be lost
            await host.until(lambda: host.causes == [Cause.FAULT])
        # And nothing of it is left for others
        assert host.pipe.held == 0

    scenario()


def nothing_comes(sock: socket.socket) -> bool:
    sock.setblocking(False)
    with suppress(BlockingIOError):
        return not sock.recv(1)
    return True
