"""Dials brokers and logs in: all connections from the gateway to a cluster are made here.

Each broker is dialled independently: one that drops every packet holds up no other. After a failed dial a broker is
left alone for a while, also by callers that waited for their turn.
"""

import asyncio
import errno
import math
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

from gateway.model.topology import Address
from gateway.runtime.descriptors import EXHAUSTED
from gateway.upstream.socket_stream import SocketStream
from ha_core.kafka.security import begin_login
from ha_core.tls.contexts import TlsFilesError
from ha_core.tls.renewing import context_of, tls_fault
from ha_core.wire.client import Answer, Client, Conversation, LoginRefusedError
from ha_core.wire.errors import WireError
from ha_core.wire.frames import CLOSED, NEED_DATA
from ha_core.wire.limits import WireLimits
from ha_core.wire.sasl import PLAIN, SecurityProfile
from ha_core.wire.tls_files import Tls

T = TypeVar("T")
_RENEW_AFTER = 0.8
_LIMITS = WireLimits(max_response_bytes=65_536)
"""Limits of a login."""
_AT_ONCE = (None, PLAIN)
"""Mechanisms that neither compute nor read files: all others run off the event loop."""


class BrokerSocket(NamedTuple):
    """A socket with the remaining validity of its login (`connections.max.reauth.ms`, KIP-368).

    Kafka's clients re-authenticate on it. Between a client's requests and their answers there is no place for that, so
    the gateway changes to another connection in time: a broker closes this one at the first request after its login
    expired.
    """

    sock: socket.socket
    renew_after_s: float = math.inf
    """Time after which it is replaced once nothing is in flight."""

    def close(self) -> None:
        self.sock.close()


class DialError(Exception):
    """No connection, or the broker refused the login; the text has the broker and the reason."""


async def dial(address: Address, profile: SecurityProfile, client_id: str, timeout_ms: int) -> BrokerSocket:
    """A connected, logged-in, non-blocking socket, TCP or TLS, without a reader; the caller closes it.

    :raises DialError: not in time, refused, or the login failed.
    """
    host, port = address
    awaited = "answer"
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            stream = SocketStream(await _connected(host, port))
            try:
                if profile.tls is not None:
                    stream, awaited = _over_tls(stream, host, profile.tls), "TLS handshake"
                    await stream.shake_hands()
                    awaited = "answer"
                renew_after_s = _RENEW_AFTER * await _log_in(stream, Client(client_id, _LIMITS), profile)
            except BaseException:
                stream.close()
                raise
            return BrokerSocket(stream.detach(), renew_after_s)
    except TimeoutError:
        raise DialError(f"{host}:{port}: no {awaited} within {timeout_ms} ms") from None
    except OSError as error:
        raise DialError(f"{host}:{port}: {tls_fault(error) or error.strerror or error}") from error
    except TlsFilesError as error:
        raise DialError(f"{host}:{port}: {error}") from error
    except LoginRefusedError as error:
        raise DialError(f"{host}:{port} {error}") from error
    except WireError as error:
        raise DialError(f"{host}:{port}: {error}") from error


async def _connected(host: str, port: int) -> socket.socket:
    """:raises OSError: no address of the host accepts a connection, or it is no host name: brokers may advertise
    anything."""
    try:
        return await _connected_to_one(host, port)
    except UnicodeError:
        raise OSError(f"{host!r} is no host name") from None


async def _connected_to_one(host: str, port: int) -> socket.socket:
    loop = asyncio.get_running_loop()
    failure: OSError = OSError(f"{host} has no address")
    for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(sock, address)
        except BaseException as error:
            sock.close()
            if not isinstance(error, OSError):
                raise
            failure = error
        else:
            return sock
    raise failure


def _over_tls(stream: SocketStream, host: str, files: Tls) -> SocketStream:
    """:raises OSError: the host name cannot be verified by any certificate."""
    context = context_of(files)
    try:
        return SocketStream(context.wrap_socket(stream.sock, server_hostname=host, do_handshake_on_connect=False))
    except ValueError as error:
        raise OSError(f"{host!r} cannot be verified by TLS: {error}") from None


async def _log_in(stream: SocketStream, client: Client, profile: SecurityProfile) -> float:
    """Logs in; returns the seconds for which the login is valid."""

    async def ask(data: bytes) -> Answer:
        stream.write(data)
        while (event := client.next_event()) is NEED_DATA:
            # Never reads ahead: bytes after the login belong to the next owner of the socket.
            client.receive_data(await stream.read(client.wanted))
        if event is CLOSED:
            raise OSError("the broker hung up during the login; it may expect TLS or another mechanism")
        return event

    beside = profile.mechanism not in _AT_ONCE
    conversation = await asyncio.to_thread(begin_login, client, profile) if beside else begin_login(client, profile)
    lifetime_s = await converse(conversation, ask, beside)
    return math.inf if lifetime_s is None else lifetime_s


async def converse(conversation: Conversation[T], ask: Callable[[bytes], Awaitable[Answer]], beside: bool = False) -> T:
    """Runs the conversation and returns its result; `ask` writes and waits for the answer.

    :param beside: run its steps in a thread, because they compute for long.
    """
    message: dict[str, Any] | None = None
    while True:
        step = await asyncio.to_thread(_step, conversation, message) if beside else _step(conversation, message)
        if isinstance(step, _DialEnd):
            return step.result
        message = (await ask(step)).message()


@dataclass(frozen=True, slots=True)
class _DialEnd(Generic[T]):
    result: T


def _step(conversation: Conversation[T], message: dict[str, Any] | None) -> bytes | _DialEnd[T]:
    """The next bytes to write. The end is a value, because a future accepts no StopIteration."""
    try:
        return next(conversation) if message is None else conversation.send(message)
    except StopIteration as done:
        return _DialEnd(done.value)


DIAL_MS = 10_000
"""As long as Kafka's own clients try (`socket.connection.setup.timeout.ms`): two lost SYNs are three seconds."""
MIN_PAUSE_S = 0.25
MAX_PAUSE_S = 2.0
_MAX_AT_ONCE = 64
_OWN_LIMITS = EXHAUSTED | {errno.EADDRNOTAVAIL}
"""Local limits: the broker is not at fault."""


@dataclass
class _Pause:
    """An address that could not be dialled: it is not tried again before `until` (loop time)."""

    until: float
    length_s: float
    why: str


class Dialling:
    """Dials the brokers of one cluster. Used on one event loop only."""

    def __init__(self, profile: SecurityProfile, client_id: str) -> None:
        self._profile, self._client_id = profile, client_id
        self._pauses: dict[Address, _Pause] = {}
        self._turns: dict[Address, asyncio.Semaphore] = {}
        self.begun = 0
        self.failed = 0

    def rests(self, address: Address) -> bool:
        """True while the address is left alone after a failure."""
        pause = self._pauses.get(address)
        return pause is not None and asyncio.get_running_loop().time() < pause.until

    def forgive(self, address: Address | None = None) -> None:
        """Allows the next dial at once; None: for all addresses."""
        if address is None:
            self._pauses.clear()
        else:
            self._pauses.pop(address, None)

    def keep(self, addresses: set[Address]) -> None:
        """Forgets all other addresses."""
        for known in (self._pauses, self._turns):
            for address in known.keys() - addresses:
                del known[address]

    async def for_client(self, address: Address) -> BrokerSocket:
        """A socket for a client's own connection: a limited number at once per broker, the others wait for their turn.

        :raises DialError: it could not be dialled, now or a moment ago.
        """
        self._demand_rested(address)
        async with self._turns.setdefault(address, asyncio.Semaphore(_MAX_AT_ONCE)):
            return await self.dial(address)

    async def dial(self, address: Address) -> BrokerSocket:
        """A socket for the gateway's own questions, without waiting for a turn.

        :raises DialError: it could not be dialled, now or a moment ago.
        """
        loop = asyncio.get_running_loop()
        self._demand_rested(address)
        self.begun += 1
        try:
            sock = await dial(address, self._profile, self._client_id, DIAL_MS)
        except DialError as error:
            self.failed += 1
            cause = error.__cause__
            if not (isinstance(cause, OSError) and cause.errno in _OWN_LIMITS):
                pause = self._pauses.get(address)
                length_s = min(MAX_PAUSE_S, pause.length_s * 2 if pause else MIN_PAUSE_S)
                self._pauses[address] = _Pause(loop.time() + length_s, length_s, str(error))
            raise
        self._pauses.pop(address, None)
        return sock

    def _demand_rested(self, address: Address) -> None:
        if self.rests(address):
            raise DialError(f"{self._pauses[address].why} (not tried again yet)")
