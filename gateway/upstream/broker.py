"""The gateway's own connections to the brokers of one cluster, opened when first needed and again when lost."""

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from gateway.composed.ask import Message
from gateway.model.topology import Address, ApiRange
from gateway.runtime.offload import heavy, offload
from gateway.upstream.decoding import Decoder
from gateway.upstream.dial import BrokerSocket, Dialling, converse
from gateway.upstream.socket_stream import SocketStream
from ha_core.tls.renewing import tls_fault
from ha_core.wire import codec
from ha_core.wire.apis import APIS, BrokerPace
from ha_core.wire.client import Answer, Client, learn_versions
from ha_core.wire.codes import ApiKey
from ha_core.wire.errors import WireError
from ha_core.wire.limits import WireLimits

Dial = Callable[[], Awaitable[BrokerSocket]]

_IN_FLIGHT = 64
_HELLO_S = 3.0
_READ_BYTES = 1 << 20
APART_S = 60.0
"""Time for which questions of an API use a connection of their own after the broker has hung up on one."""


class BrokerLostError(Exception):
    """A broker could not be asked, or its answer could not be read. If its connection is closed the next request dials
    again."""


class _BystanderError(BrokerLostError):
    """The connection ended on another question; the broker had not begun this one."""


class HangUp(NamedTuple):
    """A broker closed the connection instead of answering.

    Brokers work on one request of a connection at a time, in order: the oldest question is the one that was not
    answered. They close on requests that they cannot parse, and when they stop.
    """

    api_key: int
    bystanders: int
    """Questions that waited after it."""


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


OnHangUp = Callable[[HangUp], None]


class _Question(NamedTuple):
    api_key: int
    answered: asyncio.Future[Answer]

    def fail(self, error: BrokerLostError) -> None:
        if not self.answered.done():
            self.answered.set_exception(error)
            self.answered.exception()  # without a waiter asyncio would log an unretrieved exception


class _Pipe:
    """One opened connection: questions go out at once, and a task passes each answer to its waiter."""

    def __init__(self, stream: SocketStream, client: Client, on_hang_up: OnHangUp) -> None:
        self.client = client
        self.open = True
        self.retired = False
        """No more questions; it ends with its last answer."""
        self.unanswered_since = 0.0
        self._stream, self._on_hang_up = stream, on_hang_up
        self._waiting: deque[_Question] = deque()
        self.reading = asyncio.create_task(self._read())

    @property
    def busy(self) -> bool:
        return bool(self._waiting)

    async def ask(self, data: bytes, api_key: int = ApiKey.API_VERSIONS) -> Answer:
        """:param data: a request that the client has just encoded."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            self.unanswered_since = loop.time()
        future: asyncio.Future[Answer] = loop.create_future()
        self._waiting.append(_Question(api_key, future))
        self._stream.write(data)
        await self._stream.drain()
        return await future

    def end(self, why: str) -> None:
        """Fails questions in flight with `why`."""
        self.open = False
        self.reading.cancel()
        self._stream.close()
        waiting, self._waiting = self._waiting, deque()
        for question in waiting:
            question.fail(BrokerLostError(why))

    def _hung_up(self, why: str) -> None:
        """Fails the question that the broker did not answer; later ones may be asked again."""
        waiting, self._waiting = self._waiting, deque()
        self.end(why)
        for earlier, question in enumerate(waiting):
            question.fail(_BystanderError(why) if earlier else BrokerLostError(why))
        if waiting:
            self._on_hang_up(HangUp(waiting[0].api_key, len(waiting) - 1))

    async def _read(self) -> None:
        try:
            while self._waiting or not self.retired:
                event = self.client.next_event()
                if isinstance(event, Answer):
                    future = self._waiting.popleft().answered
                    self.unanswered_since = asyncio.get_running_loop().time()
                    if not future.done():
                        future.set_result(event)
                elif data := await self._stream.read(min(self.client.wanted, _READ_BYTES)):
                    self.client.receive_data(data)
                else:
                    self._hung_up("the broker closed the connection")
                    return
        except OSError as error:
            self._hung_up(tls_fault(error) or str(error))
        except WireError as error:
            self.end(str(error))
        finally:
            self.end("the connection was closed")


class BrokerConnection:
    """Requests to one broker, answered in order. Used on one event loop only."""

    def __init__(self, dial: Dial, client_id: str, decoder: Decoder, on_hang_up: OnHangUp = lambda _: None) -> None:
        self._dial, self._client_id, self._decoder, self._on_hang_up = dial, client_id, decoder, on_hang_up
        self._slots = asyncio.Semaphore(_IN_FLIGHT)
        self._opening = asyncio.Lock()
        self._pipe: _Pipe | None = None
        self._retired: set[_Pipe] = set()
        self.api_versions: Mapping[int, ApiRange] = {}
        """Versions that the broker offers; empty before the first connection, kept after the last."""

    @property
    def connected(self) -> bool:
        return self._pipe is not None and self._pipe.open

    def unanswered_s(self) -> float:
        """Seconds for which the broker has owed an answer without sending any."""
        pipe = self._pipe
        return asyncio.get_running_loop().time() - pipe.unanswered_since if pipe is not None and pipe.busy else 0.0

    async def connect(self) -> None:
        """Opens the connection unless it is open. Dial errors pass through."""
        async with self._opening:
            if self.connected:
                return
            dialled = await self._dial()
            client = Client(self._client_id, self._decoder.limits)
            pipe = self._pipe = _Pipe(SocketStream(dialled.sock), client, self._on_hang_up)
            if dialled.renew_after_s < math.inf:
                asyncio.get_running_loop().call_later(dialled.renew_after_s, self._retire, pipe)
            try:
                async with asyncio.timeout(_HELLO_S):
                    await converse(learn_versions(pipe.client), pipe.ask)
            except TimeoutError:
                raise BrokerLostError(f"connected, but no answer to ApiVersions within {_HELLO_S:.0f} s") from None
            except WireError as error:
                raise BrokerLostError(str(error)) from error
            finally:
                if not pipe.client.versions:
                    pipe.end("the broker did not answer ApiVersions")
            self.api_versions = pipe.client.versions

    async def request(
        self, api_key: int, message: Message, limit: asyncio.Timeout | None = None, ahead: bool = False
    ) -> Message:
        """Asks in the highest common version and waits for the answer; the caller bounds the time. A question that only
        reads is asked once more if the broker closed the connection on another client's earlier question.

        :param limit: the caller's; it bounds the broker's time, and excludes decoding the answer.
        :param ahead: do not wait until other requests free a slot.
        :raises BrokerLostError: the connection was lost, or the answer is not Kafka's protocol.
        :raises UnsupportedApiError: no common version. Dial errors pass through.
        """
        async with contextlib.nullcontext() if ahead else self._slots:
            await self.connect()
            try:
                answer = await self._exchange(api_key, message)
            except _BystanderError:
                if APIS[api_key].changes:
                    raise
                await self.connect()
                answer = await self._exchange(api_key, message)
        with _untimed(limit):
            try:
                # No bytes are received into this buffer later, so this is not a copy.
                return await self._decoder.decode(answer.api_key, answer.version, bytes(answer.frame))
            except WireError as error:
                # The frame came whole and in its turn, so other questions on this connection are not affected.
                raise BrokerLostError(str(error)) from error

    def when_lost(self, call: Callable[[], None]) -> None:
        """Has `call` called once, when the connection that is open now has ended, for any reason."""
        if self._pipe is not None:
            self._pipe.reading.add_done_callback(lambda _: call())

    def close(self, why: str) -> None:
        """Fails questions in flight with `why`."""
        for pipe in (self._pipe, *self._retired):
            if pipe is not None:
                pipe.end(why)

    def _retire(self, pipe: _Pipe) -> None:
        """The login expires soon: the next question uses another connection, this one ends with its last answer."""
        if self._pipe is not pipe or not pipe.open:
            return
        self._pipe = None
        if pipe.busy:
            pipe.retired = True
            self._retired.add(pipe)
            pipe.reading.add_done_callback(lambda _: self._retired.discard(pipe))
        else:
            pipe.end("its login has ended")

    async def _exchange(self, api_key: int, message: Message) -> Answer:
        pipe = self._pipe
        if pipe is not None and pipe.open:
            version = pipe.client.version(api_key)
            body: Message | bytes = message
            if heavy(message):
                body = await offload(codec.encode, api_key, version, "request", message)
            if self._pipe is pipe and pipe.open:
                return await pipe.ask(pipe.client.request(api_key, body, version), api_key)
        raise _BystanderError("the connection was closed")


class ConnectionLane(NamedTuple):
    """One connection to a broker: for the questions of a pace or, separately, for those of one API."""

    pace: BrokerPace
    apart: ApiKey | None = None


QUICK = ConnectionLane(BrokerPace.QUICK)
"""The connection that surveys use; it decides whether a broker counts as connected."""


class Lanes:
    """Connections to all brokers of a cluster: to each broker one per pace, and for a while one more for each API on
    which it hung up, so that further such questions break no others."""

    def __init__(
        self,
        dialling: Dialling,
        client_id: str,
        limits: WireLimits,
        on_hang_up: Callable[[Address, HangUp], None] = lambda *_: None,
    ) -> None:
        self._dialling, self._client_id, self._on_hang_up = dialling, client_id, on_hang_up
        self._decoder = Decoder(limits)
        self._connections: dict[tuple[Address, ConnectionLane], BrokerConnection] = {}
        self._apart_until: dict[tuple[Address, ApiKey], float] = {}

    def connection(self, address: Address, lane: ConnectionLane) -> BrokerConnection:
        if (address, lane) not in self._connections:
            dial = partial(self._dialling.dial, address)
            on_hang_up = partial(self._hung_up, address)
            self._connections[address, lane] = BrokerConnection(dial, self._client_id, self._decoder, on_hang_up)
        return self._connections[address, lane]

    def connection_for(self, address: Address, api_key: int) -> BrokerConnection:
        """The connection for questions of an API."""
        key = ApiKey(api_key)
        apart = self._apart_until.get((address, key), -math.inf) > asyncio.get_running_loop().time()
        return self.connection(address, ConnectionLane(APIS[key].pace, key if apart else None))

    def _hung_up(self, address: Address, hang_up: HangUp) -> None:
        until = asyncio.get_running_loop().time() + APART_S
        self._apart_until[address, ApiKey(hang_up.api_key)] = until
        self._on_hang_up(address, hang_up)

    def connected(self, address: Address) -> bool:
        """True if the broker can be asked for metadata without a new connection."""
        connection = self._connections.get((address, QUICK))
        return connection is not None and connection.connected

    def keep(self, addresses: Collection[Address], why: str) -> None:
        """Closes connections to all other brokers."""
        for key in [key for key in self._connections if key[0] not in addresses]:
            self._connections.pop(key).close(why)
        self._apart_until = {key: until for key, until in self._apart_until.items() if key[0] in addresses}

    def common_versions(self, addresses: Collection[Address]) -> dict[int, ApiRange]:
        """Versions that all of these brokers offer, as far as they have answered; empty if none has."""
        offers = [
            connection.api_versions
            for (address, lane), connection in self._connections.items()
            if lane == QUICK and address in addresses and connection.api_versions
        ]
        common: dict[int, ApiRange] = {}
        for key in set.intersection(*map(set, offers)) if offers else ():
            lows, highs = zip(*(offer[key] for offer in offers), strict=True)
            if max(lows) <= min(highs):
                common[key] = (max(lows), min(highs))
        return common
