"""Whatever comes over a connection, the gateway lives, serves others as before, and keeps nothing of it."""

from __future__ import annotations

import random
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import yaml

from ha_core.wire import ApiKey, encode
from stack.harness import Stack
from tests.gateway.hostile.catalogue import (
    LOGIN,
    METADATA,
    PASSWORD,
    USER,
    VERSIONS,
    Input,
    Outcome,
    before,
    inside,
    raw,
    shaken,
    token,
)
from tests.kit.own_gateway import OwnGateway
from tests.kit.running import bootstrap, create_topic
from tests.kit.stacks import own_stack
from tests.kit.waiting import until

pytestmark = pytest.mark.stack

HEALTHY = (shaken(), token(b"\0healthy\0b-secret"))
PATIENCE_S = 12.0
CATALOGUE = [(one, ()) for one in before()] + [(one, LOGIN) for one in inside()]
CONNECTIONS = 2000


stack = own_stack({"east": "3.9.2"}, gateways=0, prepare=lambda up: create_topic(bootstrap(up, "east"), "orders", 1))


@pytest.fixture(scope="module")
def gateway(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnGateway]:
    folder = tmp_path_factory.mktemp("gateway")
    (folder / "users.yaml").write_text(yaml.safe_dump({USER: PASSWORD, "healthy": "b-secret"}))
    (folder / "phantoms").write_text("nobody is to see this secret")
    sections: dict[str, Any] = {
        "authentication": {
            "mechanisms": ["PLAIN", "SCRAM-SHA-256"],
            "users_file": str(folder / "users.yaml"),
            "phantom_secret_file": str(folder / "phantoms"),
            "failures_per_address": 100_000,
            "plain_without_tls": True,
        },
        "limits": {"login_ms": 2000, "frame_ms": 1000, "max_login_bytes": 100_000},
    }
    with OwnGateway(stack, folder, **sections) as running:
        yield running


def reads(sock: socket.socket) -> bytes | None:
    """The next frame; None: the connection has ended. TimeoutError: neither comes."""
    try:
        head = sock.recv(4, socket.MSG_WAITALL)
        if len(head) < 4:
            return None
        return sock.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)
    except ConnectionError:
        return None


class Healthy:
    """A client that sends requests all the time, over a connection of its own."""

    def __init__(self, port: int) -> None:
        self.took_s: list[float] = []
        self._sock = socket.create_connection(("127.0.0.1", port), 20)
        self._going = True
        for one in HEALTHY:
            self._sock.sendall(one)
            assert reads(self._sock)
        self._thread = threading.Thread(target=self._ask)
        self.failure: BaseException | None = None

    def __enter__(self) -> Healthy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._going = False
        self._thread.join(30)
        self._sock.close()
        assert self.failure is None

    def _ask(self) -> None:
        try:
            while self._going:
                since = time.monotonic()
                self._sock.sendall(METADATA)
                assert reads(self._sock), "a client of good will was cut off"
                self.took_s.append(time.monotonic() - since)
                time.sleep(0.02)
        except BaseException as error:
            self.failure = error

    @property
    def worst_s(self) -> float:
        return max(self.took_s)


def port_of(gateway: OwnGateway, one: Input) -> int:
    if not one.at_broker:
        return gateway.port
    if not hasattr(gateway, "broker_port"):
        with socket.create_connection(("127.0.0.1", gateway.port), 20) as sock:
            for piece in (*HEALTHY, METADATA):
                sock.sendall(piece)
                answer = reads(sock)
        assert answer
        # correlation id, throttle time, brokers: the gateway's own node comes first, then those of brokers
        at, ports = 12, list[int]()
        for _ in range(struct.unpack_from(">i", answer, 8)[0]):
            size = struct.unpack_from(">h", answer, at + 4)[0]
            at += 6 + size
            ports.append(struct.unpack_from(">i", answer, at)[0])
            at += 4
            rack = struct.unpack_from(">h", answer, at)[0]
            at += 2 + max(rack, 0)
        gateway.broker_port = next(port for port in ports if port != gateway.port)  # type: ignore[attr-defined]
    return int(gateway.broker_port)  # type: ignore[attr-defined]


def send(sock: socket.socket, one: Input) -> None:
    with suppress(ConnectionError):  # it may have been ended on the way
        for piece in one.pieces:
            if piece is None:
                sock.shutdown(socket.SHUT_WR)
            elif isinstance(piece, bytes):
                sock.sendall(piece)
            else:
                time.sleep(piece)


def log_in(sock: socket.socket, login: tuple[bytes, ...]) -> None:
    for piece in login:
        sock.sendall(piece)
        assert reads(sock) is not None


@pytest.mark.parametrize(("one", "login"), CATALOGUE, ids=lambda value: value.name if isinstance(value, Input) else "")
def test_each_hostile_input_ends_as_the_catalogue_says(
    gateway: OwnGateway, one: Input, login: tuple[bytes, ...]
) -> None:
    faults = gateway.metric("connections_ended", cause="fault")
    with socket.create_connection(("127.0.0.1", port_of(gateway, one)), PATIENCE_S) as sock:
        # Given
        log_in(sock, login)
        # When
        send(sock, one)
        # Then
        if one.outcome is Outcome.EITHER:
            reads(sock)
        elif one.outcome is Outcome.CLOSED:
            while reads(sock) is not None:
                pass
        else:
            for _ in range(one.answers):
                assert reads(sock) is not None, "the connection was ended"
            sock.sendall(VERSIONS)
            assert reads(sock) is not None, "the connection is not good for another request"
    assert gateway.metric("connections_ended", cause="fault") == faults
    assert "Traceback" not in gateway.said()


def test_the_whole_catalogue_repeated_costs_no_memory_and_delays_no_other_client(gateway: OwnGateway) -> None:
    def play() -> None:
        for one, login in CATALOGUE:
            with socket.create_connection(("127.0.0.1", port_of(gateway, one)), 5) as sock:
                log_in(sock, login)
                send(sock, one)

    # Given a gateway that has seen all of it
    with Healthy(gateway.port) as healthy:
        play()
        time.sleep(3)
        before_bytes = gateway.memory_bytes()
        # When it comes again and again
        for _ in range(8):
            play()
        time.sleep(3)
    # Then nothing of it is left, and other clients are answered
    grown = gateway.memory_bytes() - before_bytes
    assert grown < 16 << 20, f"{grown} bytes more"
    assert gateway.metric("held_request_bytes") == 0
    assert len(healthy.took_s) > 50
    assert healthy.worst_s < 2.0
    assert "Traceback" not in gateway.said()


def test_two_thousand_hostile_connections_at_once_leave_a_healthy_client_alone(gateway: OwnGateway) -> None:
    # Given
    chance = random.Random(7)
    quick = [one for one, login in CATALOGUE if not login and not one.at_broker]
    socks: list[socket.socket] = []
    with Healthy(gateway.port) as healthy:
        time.sleep(1)
        # When two thousand come, each with something else, and most of them stay
        for _ in range(CONNECTIONS):
            sock = socket.socket()
            sock.setblocking(False)
            with suppress(BlockingIOError):
                sock.connect(("127.0.0.1", gateway.port))
            socks.append(sock)
        for sock in socks:
            sock.setblocking(True)
            sock.settimeout(5)
            with suppress(OSError):
                send(sock, chance.choice(quick))
        time.sleep(4)
        # Then a healthy client is answered all the time
        assert len(healthy.took_s) > 50
        assert healthy.worst_s < 3.0
        for sock in socks:
            sock.close()
        until(lambda: gateway.metric("connections") <= 3, lambda: gateway.metric("connections"), timeout_s=20)
    assert gateway.metric("connections_ended", cause="fault") == 0
    assert "Traceback" not in gateway.said()


def test_made_up_names_of_a_client_do_not_fill_memory(gateway: OwnGateway) -> None:
    # Given a client that asks for names that do not exist, as long as they can be, and a healthy client
    beat = {"generation_id": 1, "member_id": "m", "group_instance_id": None}
    at_broker = port_of(gateway, next(one for one, _ in CATALOGUE if one.at_broker))

    def ask(sock: socket.socket, number: int, size: int) -> None:
        name = f"{number:08d}" + "x" * size
        sock.sendall(raw(ApiKey.HEARTBEAT, 3, encode(ApiKey.HEARTBEAT, 3, "request", {"group_id": name, **beat})))
        assert reads(sock)

    def play(first: int, count: int) -> None:
        with socket.create_connection(("127.0.0.1", at_broker), 20) as sock:
            log_in(sock, LOGIN)
            for number in range(first, first + count):
                ask(sock, number, 30_000)
            held.append(gateway.memory_bytes())

    held: list[int] = []
    with Healthy(gateway.port) as healthy:
        play(0, 300)
        # When it has sent a hundred megabytes of them
        play(1_000, 3_500)
    # Then the gateway has kept next to nothing, while it was connected
    assert held[1] - held[0] < 24 << 20, f"{held[1] - held[0]} bytes more"
    assert healthy.worst_s < 2.0
