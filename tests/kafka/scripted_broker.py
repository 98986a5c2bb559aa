"""Servers with scripted answers: brokers of a few APIs, and servers that are no brokers."""

import socket
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from ha_core.wire.codec import encode
from ha_core.wire.codes import ApiKey
from ha_core.wire.header import RequestHeader, encode_response, read_request_header

Answer = Callable[[bytes], bytes | None]


def _exactly(client: socket.socket, count: int) -> bytes:
    """Reads `count` bytes, fewer at the end. Works over TLS too, which has no MSG_WAITALL."""
    found = b""
    while len(found) < count and (more := client.recv(count - len(found))):
        found += more
    return found


@contextmanager
def listening(answer: Answer, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server that passes each request frame to `answer` and sends its result; None hangs up.

    :param context: for TLS; None: without TLS.
    """
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            # A client that gives up resets the connection; the next one is still served
            with client, suppress(ConnectionError, ssl.SSLError):
                peer = client if context is None else context.wrap_socket(client, server_side=True)
                with peer:
                    while head := _exactly(peer, 4):
                        said = answer(_exactly(peer, int.from_bytes(head, "big")))
                        if said is None:
                            break
                        peer.sendall(said)

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
