"""Dials a broker and logs in: the one way in which a connection from the gateway to a cluster comes to be."""

from __future__ import annotations

import asyncio
import math
import socket
from typing import Any

from gateway.topology import Address
from ha_core.wire.client import Client, LoginRefusedError, log_in
from ha_core.wire.errors import WireError
from ha_core.wire.frames import CLOSED, NEED_DATA
from ha_core.wire.limits import Limits
from ha_core.wire.sasl import SecurityProfile

_RENEW_AFTER = 0.8
_LIMITS = Limits(max_response_bytes=65_536)
"""Of a login."""


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


async def dial(address: Address, profile: SecurityProfile, client_id: str, timeout_ms: int) -> BrokerSocket:
    """A connected, logged-in, non-blocking TCP socket that nothing reads yet; the caller closes it.

    :raises DialError: not in time, refused, or the login failed.
    """
    host, port = address
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            sock = await _connected(host, port)
            try:
                sock.good_for_s = await _log_in(sock, Client(client_id, _LIMITS), profile)
            except BaseException:
                sock.close()
                raise
            return sock
    except TimeoutError:
        raise DialError(f"{host}:{port}: no answer within {timeout_ms} ms") from None
    except OSError as error:
        raise DialError(f"{host}:{port}: {error.strerror or error}") from error
    except LoginRefusedError as error:
        raise DialError(f"{host}:{port} {error}") from error
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


async def _log_in(sock: socket.socket, client: Client, profile: SecurityProfile) -> float:
    """For how many seconds the login is good."""
    loop = asyncio.get_running_loop()
    conversation = log_in(client, profile)
    try:
        data = next(conversation)
        while True:
            await loop.sock_sendall(sock, data)
            while (event := client.next_event()) is NEED_DATA:
                # Never reads ahead: bytes after the login belong to whoever takes the socket over.
                client.receive_data(await loop.sock_recv(sock, client.wanted))
            if event is CLOSED:
                raise OSError("the broker hung up during the login; it may expect TLS or another mechanism")
            data = conversation.send(event.message())
    except StopIteration as done:
        return math.inf if done.value is None else done.value
