"""One request of a client: its bytes until it is handled, and the fields that its answer needs afterwards."""

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
"""A longer answer of a broker is decoded off the event loop."""


class NeedsPreparingError(Exception):
    """A request has too many elements for the event loop, or was judged by rights that have changed since: it is
    prepared off the event loop, and handled then (`preparing`)."""


class Prepared(NamedTuple):
    """A long request that was decoded and judged off the event loop."""

    message: Message
    verdicts: Verdicts | None
    """Rights by which it was judged."""
    gate: Gate | None
    """None: no part of it is judged separately."""
    found: object = None
    """A fetch or produce request that was decoded already (`LongFetch`, `LongProduce`)."""


OWN_CORRELATION_ID = 0x7FFF_FFFF
"""Correlation id of the gateway's own questions on a client's connection to a broker."""
_NO_BYTES = bytearray()


def text(name: bytes) -> str:
    """Decodes a name from the wire, which may be any bytes."""
    return name.decode("utf-8", "replace")


class Request:
    """`buf[start:end]` is the frame, size first; `missing` bytes of it have not arrived.

    The buffer is reused, so a request that was handled has to `forget` it.
    """

    __slots__ = (
        "api_key", "api_version", "body_at", "buf", "came_at", "charged", "client_id", "correlation_id", "delayed_ms",
        "end", "held_until", "limits", "missing", "prepared", "start", "throttle_ms",
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
        """Time for which its client has to wait afterwards."""
        self.held_until = 0.0
        """When its answer may go, if the client would not wait by itself."""
        self.charged = False
        """True once its answer is charged to quotas."""
        self.came_at = 0.0
        """When the gateway began to handle it, and all of it was there; 0: it is a question of the gateway."""
        self.delayed_ms = 0
        """Time for which a discovery limit delayed it."""

    def again(self, correlation_id: int) -> Request:
        """A similar request without its bytes."""
        one = Request.__new__(Request)
        one.api_key, one.api_version, one.client_id = self.api_key, self.api_version, self.client_id
        one.correlation_id = correlation_id
        one.body_at = one.start = one.end = one.missing = one.throttle_ms = one.delayed_ms = 0
        one.held_until = one.came_at = 0.0
        one.charged = False
        one.buf, one.limits, one.prepared = _NO_BYTES, self.limits, None
        return one

    def kept(self, owned: bool = False) -> Request:
        """This request with its own buffer.

        :param owned: the buffer holds only this frame, and no other request uses it, so it is not copied: copying 100
            MB would block other connections.
        """
        request = self.again(self.correlation_id)
        request.buf = self.buf if owned else bytearray(self.frame)
        request.body_at, request.end = self.body_at - self.start, len(request.buf)
        request.throttle_ms, request.delayed_ms = self.throttle_ms, self.delayed_ms
        request.held_until, request.charged = self.held_until, self.charged
        request.came_at = self.came_at
        return request

    @classmethod
    def own(cls, api_key: ApiKey, api_version: int, limits: WireLimits) -> Request:
        """A question of the gateway itself."""
        return cls(RequestHeader(api_key, api_version, OWN_CORRELATION_ID, None, 0), _NO_BYTES, 0, 0, limits)

    def asking(self, api_key: ApiKey, api_version: int) -> Request:
        """A question that the request's exchange asks; brokers' answers are matched by the request's correlation id."""
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
        """The body, if it has few elements or was decoded off the event loop.

        :raises NeedsPreparingError: it has more.
        """
        if self.prepared is not None:
            return self.prepared.message
        try:
            return decode(self.api_key, self.api_version, "request", self.body, limits=few(self.limits))
        except TooManyElementsError:
            raise NeedsPreparingError from None

    def decode(self) -> Message:
        """The body, however many elements it has; for callers that bound them themselves (`scan_produce`)."""
        return decode(self.api_key, self.api_version, "request", self.body, limits=inline(self.limits))

    def rewritten(self, message: Message) -> bytes:
        """The frame of this request with another body, for a broker."""
        body = encode(self.api_key, self.api_version, "request", message)
        return encode_request(self.api_key, self.api_version, self.correlation_id, self.client_id, body)

    def answer(self, message: Message | bytes) -> bytes:
        """The frame of an answer; its body may be encoded already."""
        if not isinstance(message, bytes):
            message = encode(self.api_key, self.api_version, "response", message)
        frame = encode_response(self.api_key, self.api_version, self.correlation_id, message)
        if not self.delayed_ms:
            return frame
        throttled = bytearray(frame)
        say_throttle(throttled, 0, len(throttled), self.api_key, self.api_version, self.delayed_ms)
        return bytes(throttled)

    def decode_answer(self, frame: bytearray) -> Message:
        """The body of a broker's answer."""
        at = response_body_at(self.api_key, self.api_version, frame, 4, len(frame))
        return decode(self.api_key, self.api_version, "response", memoryview(frame)[at:], limits=self.limits)
