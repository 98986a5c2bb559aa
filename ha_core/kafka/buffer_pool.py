"""Memory for long answers, used again and again: what is new each time costs more than what is received into it.

A room belongs to whoever has a view of it: to the stream that fills it, then to those who take the answer apart, then
to the batches that wait to be sent, and to the sockets that send them. It is given out again when no view of it is left
at all. That nobody has to remember: a bytearray that somebody looks into does not change its size, so the interpreter
itself says whether a batch could be overwritten.
"""

from __future__ import annotations

_GRAIN_BYTES = 64 << 10
_SLACK = 8
"""A room that is used again may be longer than what comes into it by this part of it."""
_MOST_ROOMS = 32
"""That are remembered: each that is in use is looked at before a free one is found."""
SHORT_BYTES = 64 << 10
"""An answer of so many bytes needs no room."""


def fitting(room_bytes: int) -> int:
    """How long an answer may be for which no room of more than so many bytes is given out."""
    return max((room_bytes - _GRAIN_BYTES) * _SLACK // (_SLACK + 1), min(room_bytes, SHORT_BYTES))


class BufferPool:
    """For one thread.

    :param kept_bytes: of the rooms that are remembered, together. One that would be more is new, and gone when its last
        view is.
    """

    def __init__(self, kept_bytes: int) -> None:
        self._kept_bytes = kept_bytes
        self._rooms: list[bytearray] = []
        """Those that were used last come last."""

    def take(self, size: int) -> memoryview:
        """So many bytes, of which nobody else has a view. What is in them is of earlier answers."""
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
        """So many from now on."""
        self._kept_bytes = kept_bytes
        self._forget(0)

    def _forget(self, size: int) -> None:
        """Free ones, the longest unused first, until there is a place for one of this size."""
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
    """Whether no view of it is left."""
    try:
        last = room.pop()
    except BufferError:
        return False
    room.append(last)
    return True
