"""Receivers of the history that answer slowly, or with bytes that people must not see."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress

import pytest

from ha_core.operations.audit import posting
from ha_core.operations.audit.posting import NotAcceptedError, Receiver


@contextmanager
def answering(answer: Callable[[socket.socket], None]) -> Iterator[Receiver]:
    """A receiver on this host, of one request."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            with suppress(OSError), closing(server.accept()[0]) as client:
                client.recv(65_536)
                answer(client)

        threading.Thread(target=serve, daemon=True).start()
        yield Receiver.read(f"http://127.0.0.1:{server.getsockname()[1]}/x", token="s3cret")


def drip(client: socket.socket) -> None:
    client.sendall(b"HTTP/1.1 204 No Content\r\nX: ")
    for _ in range(200):
        client.sendall(b"x")
        time.sleep(0.1)


def test_a_receiver_that_sends_a_byte_at_a_time_ends_a_push_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posting, "EXCHANGE_S", 0.5)
    began_s = time.monotonic()
    with answering(drip) as receiver, pytest.raises(NotAcceptedError) as refused:
        receiver.post(b"{}")

    assert time.monotonic() - began_s < 5
    assert refused.value.again


def test_no_bytes_of_a_receiver_are_in_the_error() -> None:
    echo = b"\x1b[31mBearer s3cret\x1b]0;x\x07 \r\n\r\n"
    with answering(lambda client: client.sendall(echo)) as receiver, pytest.raises(NotAcceptedError) as refused:
        receiver.post(b"{}")

    assert "s3cret" not in str(refused.value)
    assert str(refused.value).isprintable()
    assert "no answer of HTTP" in str(refused.value)
