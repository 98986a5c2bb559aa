"""Receivers of the history that answer slowly, or with bytes that people must not see."""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from ha_core.operations.audit import posting
from ha_core.operations.audit.posting import NotAcceptedError, Receiver
from ha_core.operations.engine.errors import RefusedError


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


@pytest.mark.parametrize("host", ["a..b", "a" * 70 + ".example"])
def test_a_host_that_cannot_be_looked_up_is_refused_at_once(host: str) -> None:
    with pytest.raises(RefusedError, match="no host name"):
        Receiver.read(f"https://{host}/x")


def test_authorities_that_cannot_be_read_are_no_fault_of_the_receiver(tmp_path: Path) -> None:
    (tmp_path / "empty").write_text("no certificate")

    for file, why in (("missing", "cannot be read: No such file"), ("empty", "has no certificate")):
        with pytest.raises(RefusedError, match=why):
            Receiver.read("https://localhost/x", ca_file=str(tmp_path / file))
