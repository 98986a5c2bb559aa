"""Decodes brokers' answers: long ones off the event loop, and an unchanged METADATA answer only once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from gateway.composed.ask import Message
from gateway.runtime.offload import LARGE_BYTES, DeferredFreeList, offload
from ha_core.wire import codec
from ha_core.wire.codes import ApiKey
from ha_core.wire.header import response_body_at
from ha_core.wire.limits import WireLimits

_INT = 4


class Decoder:
    """Shared by all brokers of a cluster, which return the same topics.

    Decoding a list of fifty thousand topics takes seconds, and between two surveys it has mostly not changed. So the
    last long METADATA answer is kept as bytes, and an answer with the same bytes gets the same list object: callers
    that have processed that list see by identity that it is unchanged. Only the controller may differ, since KRaft
    brokers name any of their brokers at random.
    """

    def __init__(self, limits: WireLimits) -> None:
        self.limits = replace(limits, max_string=limits.max_response_bytes)
        """A broker's string may be as long as its answer, which has arrived already."""
        self._version = -1
        self._head = self._tail = b""
        """Bytes before and after the controller in the known answer."""
        self._known: Message = {}
        self._reading = asyncio.Lock()

    async def decode(self, api_key: int, version: int, frame: bytes) -> Message:
        """:raises WireError: the answer is malformed."""
        at = response_body_at(api_key, version, frame, 0)
        if len(frame) < LARGE_BYTES:
            return codec.decode(api_key, version, "response", frame, at, self.limits)
        if api_key != ApiKey.METADATA:
            return await offload(codec.decode, api_key, version, "response", frame, at, self.limits)
        async with self._reading:  # of twenty equal answers that arrive together only the first is decoded
            if not self._same(version, frame, at):
                found = await offload(codec.decode, api_key, version, "response", frame, at, self.limits)
                controller_at = at + _controller_at(version, found)
                self._head, self._tail = frame[at:controller_at], frame[controller_at + _INT :]
                self._version, self._known = version, {**found, "topics": DeferredFreeList(found["topics"])}
            controller = frame[at + len(self._head) :][:_INT]
            return {**self._known, "controller_id": int.from_bytes(controller, "big", signed=True)}

    def _same(self, version: int, frame: bytes, at: int) -> bool:
        length = len(self._head) + _INT + len(self._tail)
        same = version == self._version and len(frame) == at + length
        return same and frame.startswith(self._head, at) and frame.endswith(self._tail)


def _controller_at(version: int, message: Message) -> int:
    """Position of the controller in the body of a METADATA answer: the first byte in which two answers differ that have
    only different controllers."""
    one, other = (
        codec.encode(ApiKey.METADATA, version, "response", {**message, "topics": [], "controller_id": controller})
        for controller in (0, -1)
    )
    return next(at for at, (a, b) in enumerate(zip(one, other, strict=True)) if a != b)
