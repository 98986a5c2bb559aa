"""Dials a broker and logs in: the one way in which a connection from the gateway to a cluster comes to be."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
from collections.abc import Callable, Generator, Mapping
from struct import Struct
from typing import Any

from gateway.composed.ask import Message
from gateway.config import SecurityProfile
from gateway.topology import Address
from ha_core.wire import codec
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.errors import WireError
from ha_core.wire.frames import MIN_RESPONSE_BYTES, frame_size
from ha_core.wire.header import encode_request, response_body_at

Exchange = Generator[bytes, bytes, None]
"""A SASL mechanism: yields what to send, is sent what the broker answered, ends when it is satisfied."""

_HANDSHAKE_VERSION = 1  # v0 would switch the connection to bare SASL bytes without Kafka's frames
_AUTHENTICATE_VERSION = 1
_MAX_LOGIN_BYTES = 65_536
_RENEW_AFTER = 0.8
_CORRELATION = Struct(">i").unpack_from


class BrokerSocket(socket.socket):
    """One that knows for how long its login is good (`connections.max.reauth.ms`, KIP-368).

    Kafka's clients log in anew on it. Between the client's requests and their answers there is no place for that, so
    gateways change to another connection in time: a broker closes this one at the first request after its time.
    """

    __slots__ = ("good_for_s",)

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.good_for_s = math.inf

    @property
    def renew_after_s(self) -> float:
        """From when on it is to be left when nothing is under way on it."""
        return self.good_for_s * _RENEW_AFTER


class DialError(Exception):
    """No connection, or none that the broker lets in; the text says which and why."""


def _plain(profile: SecurityProfile) -> Exchange:
    yield b"\0".join((b"", profile.username.encode(), profile.password.encode()))


_MECHANISMS: Mapping[str, Callable[[SecurityProfile], Exchange]] = {"PLAIN": _plain}


async def dial(address: Address, profile: SecurityProfile, client_id: str, timeout_ms: int) -> BrokerSocket:
    """A connected, logged-in, non-blocking TCP socket that nothing reads yet; the caller closes it.

    :raises DialError: not in time, refused, or the login failed.
    """
    host, port = address
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            sock = await _connected(host, port)
            try:
                if profile.mechanism is not None:
                    await _login(sock, profile, profile.mechanism, client_id)
            except BaseException:
                sock.close()
                raise
            return sock
    except TimeoutError:
        raise DialError(f"{host}:{port}: no answer within {timeout_ms} ms") from None
    except OSError as error:
        raise DialError(f"{host}:{port}: {error.strerror or error}") from error
    except WireError as error:
        raise DialError(f"{host}:{port}: {error}") from error


async def _connected(host: str, port: int) -> BrokerSocket:
    loop = asyncio.get_running_loop()
    failure: OSError = OSError(f"{host} has no address")
    for family, kind, protocol, _, place in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        sock = BrokerSocket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(sock, place)
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise failure


async def _login(sock: BrokerSocket, profile: SecurityProfile, mechanism: str, client_id: str) -> None:
    where = f"login of {profile.username} by {mechanism}"
    answer = await _ask(sock, ApiKey.SASL_HANDSHAKE, _HANDSHAKE_VERSION, {"mechanism": mechanism}, client_id)
    if answer["error_code"]:
        offered = ", ".join(answer["mechanisms"]) or "none"
        raise DialError(f"{where}: the broker offers {offered}; correct the cluster's security profile")
    exchange = _MECHANISMS[mechanism](profile)
    with contextlib.suppress(StopIteration):
        token = next(exchange)
        while True:
            answer = await _ask(sock, ApiKey.SASL_AUTHENTICATE, _AUTHENTICATE_VERSION, {"auth_bytes": token}, client_id)
            if answer["error_code"]:
                why = answer["error_message"] or ErrorCode(answer["error_code"]).name
                raise DialError(f"{where}: the broker refuses it ({why}); correct user or password of the profile")
            if answer["session_lifetime_ms"] > 0:
                sock.good_for_s = answer["session_lifetime_ms"] / 1000
            token = exchange.send(answer["auth_bytes"])


async def _ask(sock: socket.socket, api_key: int, version: int, message: Message, client_id: str) -> Message:
    loop = asyncio.get_running_loop()
    body = codec.encode(api_key, version, "request", message)
    await loop.sock_sendall(sock, encode_request(api_key, version, 0, client_id, body))
    size = frame_size(await _exactly(sock, 4), 0, _MAX_LOGIN_BYTES, MIN_RESPONSE_BYTES)
    frame = await _exactly(sock, size)
    return codec.decode(api_key, version, "response", frame, response_body_at(api_key, version, frame, 0))


async def _exactly(sock: socket.socket, count: int) -> bytes:
    # Never reads ahead: bytes behind the login belong to whoever takes the socket over.
    loop = asyncio.get_running_loop()
    data = b""
    while len(data) < count:
        part = await loop.sock_recv(sock, count - len(data))
        if not part:
            raise OSError("the broker closed the connection during the login; it may expect TLS or another mechanism")
        data += part
    return data
