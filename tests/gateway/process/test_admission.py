"""Admission: how many connections at once, how long without a login, and what the log shows of it."""

import asyncio
import errno
import os
import socket
from collections.abc import Callable
from typing import Any

import pytest

from gateway.process.sockets.admission import HURRY_S, ConnectionShares, Logins, share
from gateway.process.sockets.listeners import ACCEPTS_PER_TURN, EXHAUSTED_PAUSE_S, Listeners
from gateway.process.workers.ports import SharedPorts, inherited
from gateway.runtime import descriptors
from gateway.runtime.log_rate_limiter import LogRateLimiter
from gateway.session.snapshot import Port
from ha_core.wire import encode, encode_request
from tests.gateway.process.lone_gateway import lone_gateway
from tests.kit.own_gateway import free_port


class Loop:
    """Records the readers, and calls callbacks when the test allows it."""

    def __init__(self) -> None:
        self.read: dict[int, Callable[[], None]] = {}
        self.later: list[Callable[[], None]] = []

    def add_reader(self, fd: int, call: Callable[..., None], *arguments: Any) -> None:
        self.read[fd] = lambda: call(*arguments)

    def remove_reader(self, fd: int) -> None:
        self.read.pop(fd, None)

    def call_later(self, _: float, call: Callable[[], None]) -> Any:
        self.later.append(call)
        return self


class Full:
    """A listening socket of a process that has no descriptor left."""

    def fileno(self) -> int:
        return 7

    def setblocking(self, _: bool) -> None: ...

    def accept(self) -> Any:
        raise OSError(errno.EMFILE, "Too many open files")


def test_without_a_descriptor_left_the_listeners_rest_and_few_lines_say_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Given a listener that has clients waiting, and no descriptor for them
    monkeypatch.setattr(socket, "create_server", lambda *_, **__: Full())
    loop = Loop()
    listeners = Listeners(loop, lambda: True, lambda: False, lambda *_: None, LogRateLimiter())  # type: ignore[arg-type]
    listeners.listen("", 1, Port())
    # When it is looked at as long as it is read
    looks = 0
    for _ in range(1000):
        if call := loop.read.get(7):
            looks += 1
            call()
        elif looks == 50:
            break
        else:
            loop.later.pop()()
    # Then each look was followed by a rest, and the log is short
    assert looks == 50
    assert listeners.paused
    assert len(caplog.records) == 10


async def test_clients_wait_in_the_kernel_while_there_is_no_room() -> None:
    room, came = [3], list[socket.socket]()

    def arrived(sock: socket.socket, port: Port, host: str) -> None:
        assert (port, host) == (Port("east", 1), "127.0.0.1")
        room[0] -= 1
        came.append(sock)

    listeners = Listeners(asyncio.get_running_loop(), lambda: room[0] > 0, lambda: False, arrived, LogRateLimiter())
    listeners.listen("127.0.0.1", 0, Port("east", 1))
    address = next(iter(listeners._open)).getsockname()
    clients = [socket.create_connection(address) for _ in range(5)]
    await asyncio.sleep(0.2)
    assert len(came) == 3
    room[0] += 2
    await asyncio.sleep(0.2)
    assert len(came) == 5
    listeners.close()
    for sock in (*clients, *came):
        sock.close()


async def test_new_clients_wait_in_the_kernel_while_many_wait_to_be_read() -> None:
    # Given newcomers of whom as many wait as may
    busy, came = [True], list[socket.socket]()
    loop, arrived = asyncio.get_running_loop(), lambda sock, _port, _host: came.append(sock)
    listeners = Listeners(loop, lambda: True, lambda: busy[0], arrived, LogRateLimiter())
    listeners.listen("127.0.0.1", 0, Port("east", 1))
    address = next(iter(listeners._open)).getsockname()
    # When more of them connect
    clients = [socket.create_connection(address) for _ in range(40)]
    await asyncio.sleep(0.05)
    assert not came
    # Then they are accepted when those before them were read
    busy[0] = False
    await asyncio.sleep(0.2)
    assert len(came) == len(clients)
    listeners.close()
    for sock in (*clients, *came):
        sock.close()


def test_clients_that_do_not_log_in_make_room_for_others() -> None:
    logins = Logins[str](2, 30.0)
    logins.came("idle", 100.0)
    logins.came("app", 100.5)
    # Many wait, and the first is ended as soon as it has overstayed
    assert logins.room(100.6) == (False, None)
    logins.entered("app")
    assert logins.room(100.6) == (True, None)
    logins.came("other", 100.7)
    assert logins.room(100.0 + HURRY_S) == (True, "idle")
    # All are ended in time, however few there are
    assert logins.overdue(129.9) == []
    assert logins.overdue(130.0) == ["idle"]


def test_suppressed_log_lines_are_counted_by_kind() -> None:
    log_rate_limiter = LogRateLimiter(burst=3, per_s=10.0)
    assert [log_rate_limiter.lets("a", 100.0 + n) for n in range(5)] == [True, True, True, False, False]
    assert log_rate_limiter.lets("b", 104.0)
    assert list(log_rate_limiter.left_out(105.0)) == []
    assert list(log_rate_limiter.left_out(110.0)) == [("a", 2)]
    assert log_rate_limiter.lets("a", 110.1)


def test_a_client_takes_two_descriptors_and_the_gateway_needs_some_itself() -> None:
    assert descriptors.connections(descriptors.needed(10_000)) == 10_000
    assert descriptors.connections(1024) == 384
    assert ACCEPTS_PER_TURN < descriptors.RESERVED


@pytest.mark.parametrize(("limit", "wanted"), [(1024, 10_000), (20_512, 10_000), (65_536, 10_000), (7, 1)])
def test_clients_and_their_further_sockets_leave_descriptors_for_the_gateway(limit: int, wanted: int) -> None:
    clients = min(wanted, descriptors.connections(limit))
    left = descriptors.divide(limit, clients)
    own = limit - 2 * clients - sum(left)
    assert own >= min(256, limit // 8)
    assert left.brokers >= 3 * left.leaving > 0 or limit < 64


async def test_a_gateway_fits_its_limits_and_ends_clients_that_do_not_log_in(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Any
) -> None:
    # Given a gateway that may open few files
    monkeypatch.setattr(descriptors, "raised", lambda: 1024)
    (tmp_path / "users.yaml").write_text("app: secret\n")
    users = {"users_file": "users.yaml"}
    async with lone_gateway(tmp_path, authentication=users, limits={"login_ms": 1000}) as gateway:
        # When a client connects, and sends nothing
        _, writer = await asyncio.open_connection("127.0.0.1", gateway.config.listen.port)
        await asyncio.sleep(0.1)
        assert len(gateway.clients.logins) == len(gateway.clients.open) == 1
        async with asyncio.timeout(5):
            while gateway.clients.open:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        # Then its connection is ended, and the limit fits the process
        assert gateway.clients.ended == {"not_authenticated": 1}
        assert gateway.clients.max_connections == 384
        assert (gateway.clients.brokers.limit, gateway.clients.max_leaving) == (96, 32)
        assert any("may open 1024 files, so 384 clients are served" in text for text in caplog.messages)
        writer.close()


def test_a_user_has_no_more_connections_than_the_share_and_half_is_kept_for_others() -> None:
    shares = ConnectionShares()
    # Given a user with as many connections as allowed
    assert [shares.admit(name, "greedy", 2) for name in ("a", "b", "c")] == [True, True, False]
    # Then another user still gets in, and so does the first one when a connection has ended
    assert shares.admit("d", "modest", 2)
    shares.release("c")
    assert not shares.admit("c", "greedy", 2)
    shares.release("a")
    assert shares.admit("c", "greedy", 2)
    # And a user who logs in later is no longer counted as anonymous
    assert shares.admit("e", "anonymous", 1)
    assert shares.admit("e", "modest", 2)
    assert shares.admit("f", "anonymous", 1)
    assert (share(10_000, users=2), share(10_000, users=1), share(1, users=9)) == (5000, 10_000, 1)


async def test_one_user_cannot_take_all_connections_of_a_gateway(tmp_path: Any) -> None:
    # Given a gateway that serves five connections to two users
    (tmp_path / "users.yaml").write_text("greedy: secret\nmodest: secret\n")
    users = {"users_file": "users.yaml"}
    async with lone_gateway(tmp_path, authentication=users, limits={"max_connections": 5}) as gateway:
        clients = []

        async def stays(user: str) -> bool:
            """Whether a connection is still open when its user has logged in by it."""
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.config.listen.port)
            clients.append(writer)
            for key, body in (
                (17, {"mechanism": "PLAIN"}),
                (36, {"auth_bytes": f"\0{user}\0secret".encode()}),
            ):
                writer.write(encode_request(key, 1, key, "app", encode(key, 1, "request", body)))
                size = int.from_bytes(await reader.readexactly(4), "big")
                await reader.readexactly(size)
            try:
                await asyncio.wait_for(reader.read(1), 0.2)
            except TimeoutError:
                return True
            return False

        # When one of them connects again and again
        greedy = [await stays("greedy") for _ in range(5)]
        # Then that user has half of them, and there is room for the other
        assert greedy == [True, True, False, False, False]
        assert [await stays("modest") for _ in range(3)] == [True, True, False]
        assert gateway.clients.ended == {"too_many": 4}
        # And when one of those has ended another may be opened
        clients[0].close()
        async with asyncio.timeout(5):
            while len(gateway.clients.open) == 4:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert await stays("greedy")
        for writer in clients:
            writer.close()


async def test_a_worker_whose_parent_sends_clients_away_too_early_listens_again() -> None:
    # Given one that has just begun to listen at the socket of all workers
    came = list[socket.socket]()
    listeners = Listeners(
        asyncio.get_running_loop(),
        lambda: True,
        lambda: False,
        lambda sock, *_: came.append(sock),
        LogRateLimiter(),
    )
    address = ("127.0.0.1", free_port())
    shared = SharedPorts([("listen.port", *address)])
    listeners.join(inherited(os.dup(*shared.numbers)), Port())
    clients = [socket.create_connection(address)]
    # When the parent, which has not heard of it yet, sees the last of the others end
    shared.refuse()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)
    await asyncio.sleep(EXHAUSTED_PAUSE_S + 0.2)
    # Then it serves clients a moment later
    clients.append(socket.create_connection(address))
    await asyncio.sleep(0.1)
    assert came
    listeners.close()
    shared.close()
    for sock in (*clients, *came):
        sock.close()
