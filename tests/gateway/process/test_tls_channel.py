"""A connection reads and writes equally with TLS below it."""

import asyncio
import socket
import ssl
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import pytest

from gateway.process.sockets.channel import BUFFER, Channel, TlsChannel, channel
from gateway.process.sockets.connection import ClientConnection
from gateway.process.sockets.lingering_close import LingeringClose
from gateway.session.commands import Cause
from gateway.session.session import Session
from gateway.session.snapshot import Port
from ha_core.tls.sockets import MAX_RECORDS
from tests.gateway.process.host import FakeHost
from tests.gateway.process.loopback import frame, request
from tests.gateway.process.tls_port import TlsPort, tls_port
from tests.gateway.session.messages import state

_VIEW = memoryview(BUFFER)


class Reader:
    """Reads as a connection does, at most so much at once."""

    def __init__(self, port: TlsPort, sock: socket.socket, room: int) -> None:
        self.room, self.data, self.ended = room, bytearray(), False
        self.channel = channel(port.loop, sock, self.read, self.write)
        self.channel.want(True)

    def read(self) -> None:
        try:
            count = self.channel.sock.recv_into(_VIEW[: self.room])
        except BlockingIOError:
            return
        self.data += BUFFER[:count]
        self.ended = count == 0
        self.channel.want(not self.ended)

    def write(self) -> None:
        self.channel.flush()
        self.channel.want(True)


async def connected(port: TlsPort, room: int = len(BUFFER)) -> tuple[Reader, ssl.SSLSocket]:
    client = await port.shake(port.trusting())
    await port.until(lambda: port.came)
    return Reader(port, port.came[0].sock, room), client


@pytest.mark.parametrize("room", [1000, 16_384, 20_000, 262_144])
async def test_decrypted_bytes_are_read_without_further_input_from_the_client(tmp_path: Path, room: int) -> None:
    with tls_port(tmp_path) as port:
        reader, client = await connected(port, room)
        assert isinstance(reader.channel, TlsChannel)
        data = bytes(range(256)) * 1000
        # When records come that are longer than a single read, and then nothing more
        await asyncio.to_thread(client.sendall, data)
        # Then all of it is read
        await port.until(lambda: len(reader.data) == len(data))
        assert reader.data == data
        client.close()


async def test_a_connection_that_stops_reading_gets_no_decrypted_bytes(tmp_path: Path) -> None:
    with tls_port(tmp_path) as port:
        reader, client = await connected(port, room=100)
        original: Callable[[], None] = reader.channel.on_readable

        def once() -> None:
            original()
            reader.channel.want(False)

        reader.channel.on_readable = once
        reader.channel.want(False)
        reader.channel.want(True)
        # Given a record of which a part was read
        await asyncio.to_thread(client.sendall, b"x" * 1000)
        await port.until(lambda: len(reader.data) == 100)
        # When reading was ended meanwhile
        await asyncio.sleep(0.05)
        # Then nothing is read, until it is wanted again
        assert len(reader.data) == 100
        reader.channel.on_readable = original
        reader.channel.want(True)
        await port.until(lambda: len(reader.data) == 1000)
        client.close()


async def test_a_slow_client_gets_everything_later_and_in_order(tmp_path: Path) -> None:
    with tls_port(tmp_path) as port:
        reader, client = await connected(port)
        # Given much more than the sockets hold, from the buffer that everybody shares
        data = b"".join(number.to_bytes(4, "big") for number in range(2_000_000))
        for at in range(0, len(data), 200_000):
            piece = data[at : at + 200_000]
            BUFFER[: len(piece)] = piece
            reader.channel.send(_VIEW[: len(piece)])
        BUFFER[:] = bytes(len(BUFFER))
        reader.channel.want(True)
        assert reader.channel.pending

        def read_all() -> bytes:
            found = bytearray()
            while len(found) < len(data):
                found += client.recv(65_536)
            return bytes(found)

        # When the client reads
        found = await asyncio.to_thread(read_all)
        # Then it has all of it
        assert found == data
        assert not reader.channel.pending
        client.close()


async def test_a_client_that_takes_a_little_counts_as_one_that_takes_something(tmp_path: Path) -> None:
    with tls_port(tmp_path) as port:
        reader, client = await connected(port)
        # Given one long answer
        reader.channel.send(bytes(30_000_000))
        reader.channel.want(True)
        stuck: Callable[[float], float] = reader.channel.stuck_s
        assert stuck(1.0) == 0.0

        # When the client takes a tenth of it
        def read_some() -> None:
            count = 0
            while count < 3_000_000:
                count += len(client.recv(65_536))

        await asyncio.to_thread(read_some)
        await asyncio.sleep(0.05)
        # Then it is not stuck
        assert stuck(100.0) == 0.0
        assert stuck(101.0) == 1.0
        client.close()


async def test_close_notify_is_sent_and_the_clients_last_bytes_are_read(tmp_path: Path) -> None:
    with tls_port(tmp_path) as port:
        reader, client = await connected(port)
        # Given a last answer, and the end of this direction
        reader.channel.send(b"last")
        lingering = LingeringClose(port.loop)
        lingering.linger(reader.channel.release())

        def go() -> tuple[bytes, bytes]:
            last, end = client.recv(100), client.recv(100)  # an end that is not said in TLS raises an error
            client.sendall(b"not read any more")
            return last, end

        client.context.options &= ~ssl.OP_IGNORE_UNEXPECTED_EOF if hasattr(ssl, "OP_IGNORE_UNEXPECTED_EOF") else -1
        # Then the client sees both
        assert await asyncio.to_thread(go) == (b"last", b"")
        client.close()
        await port.until(lambda: not len(lingering))


async def test_a_client_that_ends_and_one_that_is_cut_off_are_both_seen(tmp_path: Path) -> None:
    with tls_port(tmp_path) as port:
        # Given a client that says the end
        reader, client = await connected(port)
        await asyncio.to_thread(client.sendall, b"word")
        ended = asyncio.create_task(asyncio.to_thread(client.unwrap))
        await port.until(lambda: reader.ended)
        reader.channel.close()
        await asyncio.gather(ended, return_exceptions=True)
        assert reader.data == b"word"
        port.came.clear()
        # And one that is torn away
        other, torn = await connected(port)
        raw = socket.socket(fileno=torn.detach())
        raw.close()
        # Then both ends are seen
        await port.until(lambda: other.ended)


async def test_without_tls_the_channel_behaves_equally() -> None:
    ours, theirs = socket.socketpair()
    assert type(channel(asyncio.get_running_loop(), ours, lambda: None, lambda: None)) is Channel
    ours.close()
    theirs.close()


async def test_records_that_hold_little_are_read_together_up_to_a_bound(tmp_path: Path) -> None:
    with tls_port(tmp_path) as port:
        reader, client = await connected(port)
        counts: list[int] = []
        original: Callable[[], None] = reader.channel.on_readable

        def counted() -> None:
            before = len(reader.data)
            original()
            counts.append(len(reader.data) - before)

        reader.channel.want(False)
        reader.channel.on_readable = counted
        # Given many records of one byte, which have come
        many = 3 * MAX_RECORDS
        for _ in range(many):
            await asyncio.to_thread(client.send, b"x")
        await port.until(lambda: waiting(reader.channel.sock) >= many * 20)
        # When they are read
        reader.channel.want(True)
        await port.until(lambda: len(reader.data) == many)
        # Then a few calls were enough, and none held up others for all of them
        assert max(counts) == MAX_RECORDS
        assert len(counts) <= 10
        client.close()


async def test_the_end_is_seen_also_where_it_came_together_with_the_last_bytes(tmp_path: Path) -> None:
    with tls_port(tmp_path) as port:
        reader, client = await connected(port)
        reader.channel.want(False)
        # Given last bytes, and the word of TLS that nothing more comes, of a client that leaves the connection open
        await asyncio.to_thread(client.send, b"last")
        client.setblocking(False)
        with suppress(ssl.SSLWantReadError):
            client.unwrap()
        await asyncio.sleep(0.05)
        # When they are read
        reader.channel.want(True)
        # Then both are seen
        await port.until(lambda: reader.ended)
        assert reader.data == b"last"
        client.close()


def waiting(sock: socket.socket) -> int:
    """How many bytes have come and were not read, enciphered."""
    return len(socket.socket.recv(sock, 1 << 20, socket.MSG_PEEK))


async def test_decrypted_bytes_of_a_forwarded_request_reach_its_broker(tmp_path: Path) -> None:
    with tls_port(tmp_path) as port:
        # Given a client whose first request was passed
        client = await port.shake(port.trusting())
        await port.until(lambda: port.came)
        host = FakeHost(state=state())
        connection = ClientConnection(host, port.came[0].sock, Session(Port("east", 1), host.shared, host.snapshot))
        await asyncio.to_thread(client.sendall, request(1))
        await port.until(lambda: host.brokers and connection.session.decisions.newest_first)
        (broker,) = host.brokers
        broker.setblocking(True)
        broker.settimeout(5)
        assert await asyncio.to_thread(frame, broker) == request(1)
        # When the last record of the next one is longer than the room that is left to read into
        sent = request(2, b"y" * 20_000)
        connection.client.want(False)
        await asyncio.to_thread(client.sendall, sent)
        with patch.object(ClientConnection, "_room", lambda _, kept: _VIEW[kept:20_000]):
            connection.client.want(True)
            await port.until(lambda: connection.session.intake.headers_read == 2)
        # Then all of it is forwarded
        received = bytearray()
        while len(received) < len(sent):
            received += await asyncio.to_thread(broker.recv, len(sent))
        assert received == sent
        connection.end(Cause.SHUTDOWN)
        host.lingering.close()
        host.pipe.close()
        broker.close()
        client.close()
