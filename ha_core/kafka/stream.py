"""A connection that never blocks, for loops over many: requests are queued, answers are returned as they arrive."""

from __future__ import annotations

import selectors
from collections import deque
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from ha_core.kafka.connection import BlockingConnection
from ha_core.kafka.errors import ConnectionLostError
from ha_core.tls.sockets import TlsSocket
from ha_core.wire.client import NEWEST, Answer
from ha_core.wire.codes import ApiKey
from ha_core.wire.errors import RemoteProtocolError
from ha_core.wire.frames import CLOSED

_READS = 16
"""Most reads before other connections have their turn."""
_PIECES = 64
"""Most pieces per send call."""
_GRAIN_BYTES = 64 << 10
_SLACK = 8
"""A reused buffer may be longer than its answer by this fraction (1/8) of the answer."""
_MOST_ROOMS = 32
"""Most buffers kept: the search for a free one checks all those in use first."""
SHORT_BYTES = 64 << 10
"""Answers up to this size need no buffer of the pool."""


class Stream:
    """Takes over an open connection.

    Records are never copied: those of a long answer are views of its receive buffer, and those of a request are sent
    from their own memory.

    :param rooms: buffers for long answers.
    """

    def __init__(self, connection: BlockingConnection, rooms: BufferPool) -> None:
        self.connection = connection
        self._client, self._socket = connection.release()
        self._rooms = rooms
        self._out: deque[memoryview] = deque()
        self._room: memoryview | None = None
        """Buffer of the long frame that is being received, and `_at` its length so far."""
        self._at = 0

    @property
    def interest(self) -> int:
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._out else 0)

    def fileno(self) -> int:
        return self._socket.fileno()

    def send(self, api: ApiKey, message: Mapping[str, Any], max_version: int = NEWEST) -> None:
        """:raises ConnectionLostError: the broker has hung up."""
        pieces = self._client.request_in_pieces(api, message, self._client.version(api, max_version))
        self._out += [memoryview(piece) for piece in pieces if piece]
        self.write()

    def write(self) -> None:
        """Sends as much as the socket takes. :raises ConnectionLostError: the broker has hung up."""
        try:
            while self._out:
                self._written(self._send())
        except BlockingIOError:
            return
        except OSError as error:
            raise self._lost(error.strerror or str(error)) from None

    def _send(self) -> int:
        if isinstance(self._socket, TlsSocket):
            return self._socket.send(self._out[0])
        return self._socket.sendmsg(islice(self._out, _PIECES))

    def _written(self, count: int) -> None:
        while count:
            head = self._out[0]
            if count < len(head):
                self._out[0] = head[count:]
                return
            count -= len(head)
            self._out.popleft()

    def read(self) -> Iterator[Answer]:
        """Complete answers so far. :raises ConnectionLostError: the broker has hung up, or sent an invalid answer."""
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
            if isinstance(data, memoryview):
                self._client.receive_frame(data)
                del data  # only the answer's own views keep the buffer alive
            else:
                self._client.receive_data(data)
            yield from self._answers()

    def _receive(self) -> bytes | memoryview | None:
        """Available bytes of the next frame, or a view of a buffer for a long one; None: a long frame is incomplete."""
        if self._room is None:
            wanted = self._client.wanted
            if wanted <= SHORT_BYTES:
                return self._socket.recv(wanted)
            self._room, self._at = self._rooms.allocate(wanted), 0
        count = self._socket.recv_into(self._room[self._at :])
        self._at += count
        if count and self._at < len(self._room):
            return None
        frame, self._room = self._room, None
        return frame if count else b""

    def _deciphered(self) -> bool:
        """True if TLS has deciphered bytes, which selectors do not report: less than one record."""
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


def fitting(room_bytes: int) -> int:
    """Longest answer for which the pool hands out at most `room_bytes`."""
    return max((room_bytes - _GRAIN_BYTES) * _SLACK // (_SLACK + 1), min(room_bytes, SHORT_BYTES))


class BufferPool:
    """Reusable memory for long answers, for one thread: allocating it anew costs more than receiving the data.

    A buffer is in use while a view of it exists: first in the stream that fills it, then in the parser, then in batches
    that wait to be sent and in the sockets that send them. It is reused when no view is left. No reference count is
    needed: a bytearray with an exported view cannot change its size, so the interpreter itself prevents overwriting a
    batch.

    :param kept_bytes: limit for the sum of all kept buffers. A buffer above it is allocated anew and freed with its
        last view.
    """

    def __init__(self, kept_bytes: int) -> None:
        self._kept_bytes = kept_bytes
        self._rooms: list[bytearray] = []
        """In order of use, the most recent last."""

    def allocate(self, size: int) -> memoryview:
        """A view of `size` bytes that no other view shares. It contains bytes of earlier answers."""
        fitting = (room for room in self._rooms if size <= len(room) <= size + size // _SLACK + _GRAIN_BYTES)
        room = next(filter(_free, fitting), None)
        if room is None:
            room = bytearray(-(-size // _GRAIN_BYTES) * _GRAIN_BYTES)
            self._forget(len(room))
        else:
            self._rooms = [one for one in self._rooms if one is not room]
        if len(self._rooms) < _MOST_ROOMS and sum(map(len, self._rooms)) + len(room) <= self._kept_bytes:
            self._rooms.append(room)
        return memoryview(room)[:size]

    def keep(self, kept_bytes: int) -> None:
        """Changes the limit of kept bytes."""
        self._kept_bytes = kept_bytes
        self._forget(0)

    def _forget(self, size: int) -> None:
        """Frees unused buffers, the least recently used first, until one of this size fits."""
        over = sum(map(len, self._rooms)) + size - self._kept_bytes
        many = len(self._rooms) + bool(size) - _MOST_ROOMS
        left = list[bytearray]()
        for room in self._rooms:
            if (over > 0 or many > 0) and _free(room):
                over -= len(room)
                many -= 1
            else:
                left.append(room)
        self._rooms = left


def _free(room: bytearray) -> bool:
    """True if no view of it is left."""
    try:
        last = room.pop()
    except BufferError:
        return False
    room.append(last)
    return True
