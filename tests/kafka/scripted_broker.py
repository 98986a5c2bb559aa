"""Servers that say to a client what a test wants: brokers of a few APIs, and what is no broker at all."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from ha_core.wire.codec import encode
from ha_core.wire.codes import ApiKey
from ha_core.wire.header import RequestHeader, encode_response, read_request_header

Answer = Callable[[bytes], bytes | None]


@contextmanager
def listening(answer: Answer) -> Iterator[int]:
    """A server that gives each request frame to `answer` and sends what it says; None hangs up."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            # A client that gives up resets the connection; the next one is served all the same
            with client, suppress(ConnectionError):
                while head := client.recv(4, socket.MSG_WAITALL):
                    said = answer(client.recv(int.from_bytes(head, "big"), socket.MSG_WAITALL))
                    if said is None:
                        break
                    client.sendall(said)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def header_of(frame: bytes) -> RequestHeader:
    header = read_request_header(frame, 0, len(frame))
    if header is None:
        raise AssertionError(f"{frame!r} has no whole request header")
    return header


def answered(frame: bytes, body: Mapping[str, Any], version: int | None = None) -> bytes:
    """The answer `body` to the request `frame`, in its own version or in `version`."""
    header = header_of(frame)
    key, version = ApiKey(header.api_key), header.api_version if version is None else version
    return encode_response(key, version, header.correlation_id, encode(key, version, "response", body))


def broker(versions: dict[ApiKey, tuple[int, int]], then: Answer = lambda _: None) -> Answer:
    """Answers ApiVersions as a broker, and everything else by `then`."""
    keys = [{"api_key": key, "min_version": low, "max_version": high} for key, (low, high) in versions.items()]

    def answer(frame: bytes) -> bytes | None:
        if header_of(frame).api_key != ApiKey.API_VERSIONS:
            return then(frame)
        return answered(frame, {"api_keys": keys})

    return answer
