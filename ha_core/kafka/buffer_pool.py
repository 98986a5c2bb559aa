"""Reusable memory for long answers: allocating it anew costs more than receiving the data.

A buffer is in use while a view of it exists: first in the stream that fills it, then in the parser, then in batches
that wait to be sent and in the sockets that send them. It is reused when no view is left. No reference count is needed:
a bytearray with an exported view cannot change its size, so the interpreter itself prevents overwriting a batch.
"""

from __future__ import annotations

_GRAIN_BYTES = 64 << 10
_SLACK = 8
"""A reused buffer may be longer than its answer by this fraction (1/8) of the answer."""
_MOST_ROOMS = 32
"""Most buffers kept: the search for a free one checks all those in use first."""
SHORT_BYTES = 64 << 10
"""Answers up to this size need no buffer of the pool."""


def fitting(room_bytes: int) -> int:
    """Longest answer for which the pool hands out at most `room_bytes`."""
    return max((room_bytes - _GRAIN_BYTES) * _SLACK // (_SLACK + 1), min(room_bytes, SHORT_BYTES))


class BufferPool:
    """For one thread.

    :param kept_bytes: limit for the sum of all kept buffers. A buffer above it is allocated anew and freed with its
        last view.
    """

    def __init__(self, kept_bytes: int) -> None:
        self._kept_bytes = kept_bytes
        self._rooms: list[bytearray] = []
        """In order of use, the most recent last."""

    def take(self, size: int) -> memoryview:
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
