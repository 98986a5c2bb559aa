"""A raw socket client: it connects from an address of its choice, logs in, and can stop in the middle of a request."""

import base64
import socket
import struct
import time
from types import TracebackType
from typing import Any, Self

from ha_core.wire import ApiKey, decode, encode, encode_request, response_body_at
from stack.clients.halting_sender import batch

HANDSHAKE, AUTHENTICATE, PRODUCE = 1, 1, 7
"""API versions, none of them flexible, so that a produce request of one partition ends with its records."""
PATIENCE_S = 30.0


class ClosedError(Exception):
    """The gateway has closed the connection."""


class RawClient:
    def __init__(self, port: int, address: str = "127.0.0.1") -> None:
        """:param address: the loopback address from which it connects."""
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S, (address, 0))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        """:raises ClosedError:"""
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise ClosedError from error

    def answer(self, api_key: int, version: int) -> dict[str, Any]:
        """:raises ClosedError: the gateway closed the connection first."""
        (size,) = struct.unpack(">i", self._read(4))
        frame = self._read(size)
        at = response_body_at(api_key, version, frame, 0)
        return decode(api_key, version, "response", frame[at:])

    def call(self, api_key: int, version: int, **body: Any) -> dict[str, Any]:
        self.send(frame(api_key, version, **body))
        return self.answer(api_key, version)

    def closes(self) -> bool:
        """Whether the gateway closes the connection without sending another byte."""
        try:
            return self._socket.recv(1) == b""
        except ConnectionError:
            return True

    def by_token(self, token: str) -> Self:
        return self.log_in("OAUTHBEARER", f"n,,\1auth=Bearer {token}\1\1".encode())

    def by_password(self, user: str, password: str) -> Self:
        return self.log_in("PLAIN", f"\0{user}\0{password}".encode())

    def log_in(self, mechanism: str, token: bytes) -> Self:
        """:raises ClosedError: the gateway closed without an answer. :raises PermissionError: it refused the login."""
        self.call(ApiKey.SASL_HANDSHAKE, HANDSHAKE, mechanism=mechanism)
        if self.prove(token):  # an error, which the client must acknowledge before the gateway refuses it (RFC 7628)
            self.prove(b"\1")
        return self

    def prove(self, token: bytes) -> bytes:
        """Sends one step of a login; returns the gateway's answer."""
        answer = self.call(ApiKey.SASL_AUTHENTICATE, AUTHENTICATE, auth_bytes=token)
        if answer["error_code"]:
            raise PermissionError(answer["error_code"])
        return bytes(answer["auth_bytes"])

    def guess(self, user: str) -> list[str]:
        """Tries a SCRAM login with a wrong proof; returns the gateway's answers, step by step."""
        told = []
        try:
            self.call(ApiKey.SASL_HANDSHAKE, HANDSHAKE, mechanism="SCRAM-SHA-256")
            first = dict(part.split("=", 1) for part in self.prove(f"n,,n={user},r=mine".encode()).decode().split(","))
            told.append(f"challenged {sorted(first)} i={first['i']}")
            proof = base64.b64encode(bytes(32)).decode()
            self.prove(f"c=biws,r={first['r']},p={proof}".encode())
            told.append("let in")
        except PermissionError as refused:
            told.append(f"refused {refused}")
        except ClosedError:
            told.append("closed")
        return told

    def _read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            try:
                chunk = self._socket.recv(count - len(data))
            except ConnectionError:
                chunk = b""
            if not chunk:
                raise ClosedError
            data += chunk
        return bytes(data)


def frame(api_key: int, version: int, *, client_id: str = "raw", **body: Any) -> bytes:
    return bytes(encode_request(api_key, version, 1, client_id, encode(api_key, version, "request", body)))


def record(topic: str, value: bytes = b"x", partition: int = 0, client_id: str = "raw") -> bytes:
    """A produce request of one record."""
    entry = {"index": partition, "records": batch(value, int(time.time() * 1000))}
    topics = [{"name": topic, "partition_data": [entry]}]
    body = {"transactional_id": None, "acks": -1, "timeout_ms": 5000, "topic_data": topics}
    return frame(ApiKey.PRODUCE, PRODUCE, client_id=client_id, **body)


def halves(data: bytes) -> tuple[bytes, bytes]:
    return data[: len(data) // 2], data[len(data) // 2 :]


def error_of(answer: dict[str, Any]) -> int:
    """The error code of the one partition in a produce answer."""
    (entry,) = answer["responses"][0]["partition_responses"]
    return int(entry["error_code"])
