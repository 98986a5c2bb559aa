"""The service over a network: clients that hold connections neither lock others out nor exhaust memory."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from ha_core.platform.serving import connections
from tests.registry.rest import GATEWAY, served

HEADERS = {"Authorization": f"Bearer {GATEWAY}"}
BEGUN = b"GET /v1/gateway/settings HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    with served(f"sqlite:///{tmp_path}/platform.db") as found:
        yield found


def asked(port: int) -> int:
    return httpx.get(f"http://127.0.0.1:{port}/v1/gateway/settings", headers=HEADERS, trust_env=False).status_code


REFUSED = BEGUN + b"\r\n"


@pytest.mark.parametrize("begun", [b"", BEGUN, REFUSED], ids=["silent", "half a request", "a request without a token"])
def test_idle_connections_above_the_limit_lock_no_gateway_out(port: int, begun: bytes) -> None:
    with ExitStack() as held:
        for _ in range(connections.MAX_CONNECTIONS + 50):
            sock = held.enter_context(socket.create_connection(("127.0.0.1", port)))
            with suppress(ConnectionError):
                sock.sendall(begun)
        assert asked(port) == 200


def test_an_unfinished_request_ends_its_connection(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_S", 0.3)
    with socket.create_connection(("127.0.0.1", port), 20) as sock:
        since = time.monotonic()
        with suppress(ConnectionError):
            # A byte from time to time is no progress
            while time.monotonic() - since < 20 and sock.send(b"GET"[:1]):
                time.sleep(0.05)
        assert time.monotonic() - since < 10


def test_each_request_on_a_connection_has_its_own_deadline(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_S", 1.0)
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=HEADERS, trust_env=False) as client:
        for _ in range(3):
            assert client.get("/v1/gateway/settings").status_code == 200
            time.sleep(0.8)


def test_headers_without_an_end_are_not_kept(port: int) -> None:
    line = b"X-Much: " + b"x" * 1000 + b"\r\n"
    sent = 0
    with socket.create_connection(("127.0.0.1", port), 20) as sock, suppress(ConnectionError):
        sock.sendall(BEGUN)
        while sent < 64 << 20:
            sock.sendall(line * 64)
            sent += len(line) * 64
    assert sent < 16 << 20


def test_an_answer_that_the_client_does_not_read_ends_its_connection(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "ANSWER_S", 0.5)
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        sock.settimeout(20)
        sock.connect(("127.0.0.1", port))
        ended = False
        with suppress(TimeoutError):
            try:
                for _ in range(20_000):
                    sock.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n")
                    time.sleep(0.001)
            except ConnectionError:
                ended = True
        assert ended
