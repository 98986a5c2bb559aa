"""A connection that never waits: requests are queued, answers come as they come. For loops over many of them."""

from __future__ import annotations

import selectors
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from ha_core.kafka.connection import BlockingConnection
from ha_core.kafka.errors import ConnectionLostError
from ha_core.tls.sockets import TlsSocket
from ha_core.wire.client import NEWEST, Answer
from ha_core.wire.codes import ApiKey
from ha_core.wire.errors import RemoteProtocolError
from ha_core.wire.frames import CLOSED

_SHORT_BYTES = 1 << 16
_READS = 16
"""At most before the others have their turn."""


class Stream:
    """Takes an open connection over."""

    def __init__(self, connection: BlockingConnection) -> None:
        self.connection = connection
        self._client, self._socket = connection.release()
        self._out: deque[memoryview] = deque()
        self._room = bytearray()
        """For long frames, one after the other: memory that is new each time costs more than what is copied into it."""
        self._size = self._at = 0
        """Of the frame that comes into it, and what is there of it; 0: none."""

    @property
    def interest(self) -> int:
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._out else 0)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, api: ApiKey, message: Mapping[str, Any], most: int = NEWEST) -> None:
        """:raises ConnectionLostError: the broker has hung up."""
        data = self._client.request(api, message, self._client.version(api, most))
        self._out.append(memoryview(data))
        self.write()

    def write(self) -> None:
        """As much as the socket takes. :raises ConnectionLostError: the broker has hung up."""
        try:
            while self._out:
                head = self._out[0]
                sent = self._socket.send(head)
                if sent == len(head):
                    self._out.popleft()
                else:
                    self._out[0] = head[sent:]
        except BlockingIOError:
            return
        except OSError as error:
            raise self._lost(error.strerror or str(error)) from None

    def read(self) -> Iterator[Answer]:
        """The answers that are there whole. :raises ConnectionLostError: the broker has hung up, or talks nonsense."""
        reads = 0
        while reads < _READS or self._deciphered():
            reads += 1
            try:
                data = self._receive()
            except BlockingIOError:
                return
            except OSError as error:
                raise self._lost(error.strerror or str(error)) from None
            except RemoteProtocolError as error:
                raise self._lost(str(error)) from error
            if data is None:
                return
            self._client.receive_data(data)
            yield from self._answers()

    def _receive(self) -> bytes | None:
        """What the socket has of the next frame; None: less than all of a long one, which is not copied in pieces."""
        if not self._size:
            wanted = self._client.wanted
            if wanted <= _SHORT_BYTES:
                return self._socket.recv(wanted)
            if wanted > len(self._room):
                self._room = bytearray(wanted)
            self._size, self._at = wanted, 0
        count = self._socket.recv_into(memoryview(self._room)[self._at : self._size])
        self._at += count
        if count and self._at < self._size:
            return None
        data, self._size = bytes(memoryview(self._room)[: self._at]) if count else b"", 0
        return data

    def _deciphered(self) -> bool:
        """Whether TLS has bytes of which no selector tells: less than one record."""
        return isinstance(self._socket, TlsSocket) and self._socket.pending() > 0

    def _answers(self) -> Iterator[Answer]:
        while True:
            try:
                event = self._client.next_event()
            except RemoteProtocolError as error:
                raise self._lost(str(error)) from error
            if isinstance(event, Answer):
                yield event
            elif event is CLOSED:
                raise self._lost("it closed the connection")
            else:
                return

    def close(self) -> None:
        self.connection.close()

    def _lost(self, why: str) -> ConnectionLostError:
        self.close()
        connection = self.connection
        return ConnectionLostError(connection.cluster, connection.address, f"broke off ({why}).")
