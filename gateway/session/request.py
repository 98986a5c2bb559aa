"""One request of the client: its bytes while they are at hand, and what makes its answer afterwards."""

from __future__ import annotations

from typing import Any, NamedTuple

from gateway.model.rights import Gate
from ha_core.plan.access.rights import Verdicts
from ha_core.wire import (
    APIS,
    ApiKey,
    RequestHeader,
    WireLimits,
    decode,
    encode,
    encode_request,
    encode_response,
    inline,
    peek_group,
    response_body_at,
)
from ha_core.wire.apis import Api
from ha_core.wire.errors import TooManyElementsError
from ha_core.wire.limits import few
from ha_core.wire.throttle import say_throttle

Message = dict[str, Any]
"""A decoded body."""
LONG_ANSWER_BYTES = 32 << 10
"""A broker's answer that is longer is read beside the event loop."""


class NeedsPreparingError(Exception):
    """A request has more elements than are gone through on the event loop, or was judged by other rights than there are
    now: it is prepared beside the loop, and handled then (`beside`)."""


class Prepared(NamedTuple):
    """A long request that was read and judged beside the event loop."""

    message: Message
    verdicts: Verdicts | None
    """By which it was judged."""
    gate: Gate | None
    """None: nothing of it is judged by itself."""
    found: object = None
    """A fetch or produce request that was read already (`LongFetch`, `LongProduce`)."""


OWN_CORRELATION_ID = 0x7FFF_FFFF
"""Of the gateway's own questions on a client's connection to a broker."""
_NO_BYTES = bytearray()


def text(name: bytes) -> str:
    """A name from the wire, which may be anything."""
    return name.decode("utf-8", "replace")


class Request:
    """`buf[start:end]` is the frame, size first; `missing` bytes of it have not arrived.

    The buffer is used again, so a request that has been handled has to `forget` it.
    """

    __slots__ = (
        "api_key", "api_version", "body_at", "buf", "charged", "client_id", "correlation_id", "delayed_ms", "end",
        "held_until", "limits", "missing", "prepared", "start", "throttle_ms",
    )  # fmt: skip

    def __init__(
        self, header: RequestHeader, buf: bytearray, start: int, end: int, limits: WireLimits, missing: int = 0
    ) -> None:
        self.api_key, self.api_version, self.correlation_id, self.client_id, self.body_at = header
        self.buf = buf
        self.start = start
        self.end = end
        self.limits = limits
        self.missing = missing
        self.prepared: Prepared | None = None
        self.throttle_ms = 0
        """For how long its client is to wait behind it."""
        self.held_until = 0.0
        """When its answer may go, where the client would not wait by itself."""
        self.charged = False
        """What its answer uses is counted."""
        self.delayed_ms = 0
        """For how long it was delayed because its client asks more often than it may."""

    def again(self, correlation_id: int) -> Request:
        """One that is like it, whose bytes nobody needs."""
        one = Request.__new__(Request)
        one.api_key, one.api_version, one.client_id = self.api_key, self.api_version, self.client_id
        one.correlation_id = correlation_id
        one.body_at = one.start = one.end = one.missing = one.throttle_ms = one.delayed_ms = 0
        one.held_until, one.charged = 0.0, False
        one.buf, one.limits, one.prepared = _NO_BYTES, self.limits, None
        return one

    def kept(self, owned: bool = False) -> Request:
        """This request with a buffer of its own.

        :param owned: the buffer holds this frame alone, and nothing else uses it, so it is not copied: copying 100 MB
            would block other connections.
        """
        one = self.again(self.correlation_id)
        one.buf = self.buf if owned else bytearray(self.frame)
        one.body_at, one.end = self.body_at - self.start, len(one.buf)
        one.throttle_ms, one.delayed_ms = self.throttle_ms, self.delayed_ms
        one.held_until, one.charged = self.held_until, self.charged
        return one

    @classmethod
    def own(cls, api_key: ApiKey, api_version: int, limits: WireLimits) -> Request:
        """A question of the gateway itself."""
        return cls(RequestHeader(api_key, api_version, OWN_CORRELATION_ID, None, 0), _NO_BYTES, 0, 0, limits)

    def asking(self, api_key: ApiKey, api_version: int) -> Request:
        """A question that its exchange asks for it: brokers' answers are told by the correlation id of the request."""
        header = RequestHeader(api_key, api_version, self.correlation_id, None, 0)
        return Request(header, _NO_BYTES, 0, 0, self.limits)

    def forget(self) -> None:
        self.buf = _NO_BYTES

    @property
    def api(self) -> Api:
        return APIS[self.api_key]

    @property
    def frame(self) -> memoryview:
        return memoryview(self.buf)[self.start : self.end]

    @property
    def body(self) -> memoryview:
        return memoryview(self.buf)[self.body_at : self.end]

    def group(self) -> bytes:
        return peek_group(self.api_key, self.api_version, self.buf, self.body_at, self.end)

    def read(self) -> Message:
        """The body, where it has few elements or was read beside the event loop.

        :raises NeedsPreparingError: it has more.
        """
        if self.prepared is not None:
            return self.prepared.message
        try:
            return decode(self.api_key, self.api_version, "request", self.body, limits=few(self.limits))
        except TooManyElementsError:
            raise NeedsPreparingError from None

    def decode(self) -> Message:
        """The body, however many elements it has: for what bounds them by itself (`scan_produce`)."""
        return decode(self.api_key, self.api_version, "request", self.body, limits=inline(self.limits))

    def rewritten(self, message: Message) -> bytes:
        """The frame of the same request with another body, for a broker."""
        body = encode(self.api_key, self.api_version, "request", message)
        return encode_request(self.api_key, self.api_version, self.correlation_id, self.client_id, body)

    def answer(self, message: Message | bytes) -> bytes:
        """The frame of an answer; its body may be encoded already."""
        if not isinstance(message, bytes):
            message = encode(self.api_key, self.api_version, "response", message)
        frame = encode_response(self.api_key, self.api_version, self.correlation_id, message)
        if not self.delayed_ms:
            return frame
        told = bytearray(frame)
        say_throttle(told, 0, len(told), self.api_key, self.api_version, self.delayed_ms)
        return bytes(told)

    def decode_answer(self, frame: bytearray) -> Message:
        """The body of a broker's answer."""
        at = response_body_at(self.api_key, self.api_version, frame, 4, len(frame))
        return decode(self.api_key, self.api_version, "response", memoryview(frame)[at:], limits=self.limits)
