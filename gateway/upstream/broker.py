"""One pipelined connection to one broker, opened when first needed and again when it was lost."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping

from gateway.composed.ask import Message
from gateway.heavy import beside, heavy
from gateway.topology import ApiRange
from gateway.upstream.decoding import Decoder
from gateway.upstream.dial import BrokerSocket
from ha_core.wire import codec
from ha_core.wire.codes import ApiKey
from ha_core.wire.errors import RemoteProtocolError, WireError
from ha_core.wire.frames import MIN_RESPONSE_BYTES, frame_size
from ha_core.wire.header import encode_request
from ha_core.wire.limits import Limits

Dial = Callable[[], Awaitable[BrokerSocket]]

_IN_FLIGHT = 64
_HELLO_S = 3.0
_READ_AHEAD_BYTES = 1 << 20
_API_VERSIONS = 0  # v0 is the one that every broker answers as asked (KIP-511)


class BrokerLostError(Exception):
    """A broker could not be asked, or its answer could not be read. If its connection is closed the next request dials
    again."""


class UnsupportedApiError(Exception):
    """Broker and codec have no version of an API in common."""


def choose_version(api_key: int, offered: Mapping[int, ApiRange]) -> int:
    """The highest version that both sides know.

    :raises UnsupportedApiError: there is none.
    """
    own, theirs = codec.supported(api_key), offered.get(api_key)
    if own is None or theirs is None or max(own[0], theirs[0]) > min(own[1], theirs[1]):
        raise UnsupportedApiError(f"{ApiKey(api_key).name}: the gateway speaks {own}, the broker {theirs}")
    return min(own[1], theirs[1])


@contextlib.contextmanager
def _untimed(limit: asyncio.Timeout | None) -> Iterator[None]:
    at = None if limit is None or limit.expired() else limit.when()
    if limit is None or at is None:
        yield
        return
    loop = asyncio.get_running_loop()
    left_s = at - loop.time()
    limit.reschedule(None)
    try:
        yield
    finally:
        limit.reschedule(loop.time() + left_s)


class BrokerConnection:
    """Requests to one broker, answered in order. Used on one event loop only."""

    def __init__(self, dial: Dial, client_id: str, limits: Limits, decoder: Decoder) -> None:
        self._dial = dial
        self._client_id = client_id
        self._limits = limits
        self._decoder = decoder
        self._slots = asyncio.Semaphore(_IN_FLIGHT)
        self._opening = asyncio.Lock()
        self._writer: asyncio.StreamWriter | None = None
        self._reading: asyncio.Task[None] | None = None
        self._waiting: deque[tuple[int, asyncio.Future[bytes]]] = deque()
        self._retired: set[asyncio.Task[None]] = set()
        """Readers of connections on which nothing is asked any more."""
        self._correlation = 0
        self._silent_since = 0.0
        self.api_versions: Mapping[int, ApiRange] = {}
        """What the broker offers; empty before the first connection, kept after the last."""

    @property
    def connected(self) -> bool:
        return self._writer is not None

    def silent_s(self) -> float:
        """For how long the broker has owed an answer without giving any."""
        return asyncio.get_running_loop().time() - self._silent_since if self._waiting else 0.0

    async def connect(self) -> None:
        """Opens the connection unless it is open. Dial errors pass through."""
        async with self._opening:
            if self._writer is not None:
                return
            sock = await self._dial()
            try:
                reader, self._writer = await asyncio.open_connection(sock=sock, limit=_READ_AHEAD_BYTES)
            except BaseException:
                sock.close()
                raise
            self._reading = asyncio.create_task(self._read(reader, self._writer, self._waiting))
            if sock.renew_after_s < math.inf:
                asyncio.get_running_loop().call_later(sock.renew_after_s, self._retire, self._writer)
            try:
                async with asyncio.timeout(_HELLO_S):
                    frame = await self._exchange(ApiKey.API_VERSIONS, _API_VERSIONS, {})
                    answer = await self._read_answer(ApiKey.API_VERSIONS, _API_VERSIONS, frame)
            except TimeoutError:
                self.close("the broker did not answer ApiVersions")
                raise BrokerLostError(f"connected, but no answer to ApiVersions within {_HELLO_S:.0f} s") from None
            except BaseException:
                self.close("the broker did not answer ApiVersions")
                raise
            self.api_versions = {k["api_key"]: (k["min_version"], k["max_version"]) for k in answer["api_keys"]}

    async def request(self, api_key: int, message: Message, limit: asyncio.Timeout | None = None) -> Message:
        """Asks in the highest common version and waits for the answer; the caller bounds the time.

        :param limit: of the caller; it is the broker's time, and what the answer takes to be read does not count.

        :raises BrokerLostError: the connection was lost, or what came is not Kafka's protocol.
        :raises UnsupportedApiError: no common version. Dial errors pass through.
        """
        async with self._slots:
            await self.connect()
            version = choose_version(api_key, self.api_versions)
            frame = await self._exchange(api_key, version, message)
        with _untimed(limit):
            return await self._read_answer(api_key, version, frame)

    def close(self, why: str) -> None:
        """Closes the connection; what is in flight fails with `why`."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.transport.abort()
        if self._reading is not None:
            self._reading.cancel()
            self._reading = None
        waiting, self._waiting = self._waiting, deque()
        _fail(waiting, why)
        for reading in tuple(self._retired):
            reading.cancel()

    def _retire(self, writer: asyncio.StreamWriter) -> None:
        """A login ends soon: the next question goes by another connection, this one ends with its last answer."""
        if self._writer is not writer or self._reading is None:
            return
        reading, self._reading, self._writer = self._reading, None, None
        waiting, self._waiting = self._waiting, deque()
        if waiting:
            self._retired.add(reading)
            reading.add_done_callback(self._retired.discard)
        else:
            writer.transport.abort()
            reading.cancel()

    async def _exchange(self, api_key: int, version: int, message: Message) -> bytes:
        writer = self._writer
        if writer is None:
            raise BrokerLostError("the connection was closed")
        if heavy(message):
            body = await beside(codec.encode, api_key, version, "request", message)
            if self._writer is not writer:
                raise BrokerLostError("the connection was closed")
        else:
            body = codec.encode(api_key, version, "request", message)
        self._correlation = (self._correlation + 1) & 0x7FFFFFFF
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        if not self._waiting:
            self._silent_since = asyncio.get_running_loop().time()
        self._waiting.append((self._correlation, future))
        writer.write(encode_request(api_key, version, self._correlation, self._client_id, body))
        with contextlib.suppress(ConnectionError):  # the reader says what happened
            await writer.drain()
        return await future

    async def _read_answer(self, api_key: int, version: int, frame: bytes) -> Message:
        try:
            return await self._decoder.decode(api_key, version, frame)
        except WireError as error:
            # It came whole and in its turn, so what others wait for on this connection is not touched by it.
            raise BrokerLostError(str(error)) from error

    async def _read(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        waiting: deque[tuple[int, asyncio.Future[bytes]]],
    ) -> None:
        why = "the broker closed the connection"
        try:
            while waiting or self._writer is writer:
                head = await reader.readexactly(4)
                size = frame_size(head, 0, self._limits.max_response_bytes, MIN_RESPONSE_BYTES)
                frame = await reader.readexactly(size)
                correlation = int.from_bytes(frame[:4], "big", signed=True)
                if not waiting or waiting[0][0] != correlation:
                    raise RemoteProtocolError(f"answer {correlation} was not asked for, or came out of order")
                _, future = waiting.popleft()
                self._silent_since = asyncio.get_running_loop().time()
                if not future.done():
                    future.set_result(frame)
        except asyncio.IncompleteReadError:
            pass
        except (OSError, WireError) as error:
            why = str(error)
        finally:
            if self._writer is writer:
                self._reading = None
                self.close(why)
            else:
                writer.transport.abort()
                _fail(waiting, why)


def _fail(waiting: deque[tuple[int, asyncio.Future[bytes]]], why: str) -> None:
    for _, future in waiting:
        if not future.done():
            future.set_exception(BrokerLostError(why))
            future.exception()  # nobody may wait for it any more; asyncio would complain
