"""Cuts a byte stream into frames: a 4-byte size, then as many bytes."""

from enum import Enum
from struct import Struct
from typing import Any, Final, Literal

from ha_core.wire.errors import ForeignProtocolError, RemoteProtocolError
from ha_core.wire.limits import DEFAULT_LIMITS
from ha_core.wire.protocol_detection import HEAD_BYTES, WITHOUT_TLS, speech
from ha_core.wire.protocol_detection import LEAST as LEAST_FOREIGN

_SIZE = Struct(">i").unpack_from

MIN_RESPONSE_BYTES = 4
"""A correlation id."""


class Event(Enum):
    """Result of a reader without a frame."""

    NEED_DATA = "need data"
    CLOSED = "closed"


NEED_DATA: Final = Event.NEED_DATA
CLOSED: Final = Event.CLOSED


def frame_size(buf: Any, pos: int, max_size: int, least: int) -> int:
    """The size at `pos`, 4 bytes that must be there.

    :raises ForeignProtocolError: these are the first bytes of TLS, HTTP or a PROXY header.
    :raises RemoteProtocolError: out of bounds.
    """
    size: int = _SIZE(buf, pos)[0]
    if least <= size <= max_size and size < LEAST_FOREIGN:
        return size
    spoken = speech(bytes(buf[pos : pos + HEAD_BYTES]))
    if spoken in WITHOUT_TLS:
        raise ForeignProtocolError(spoken, WITHOUT_TLS[spoken])
    if least <= size <= max_size:
        return size
    raise RemoteProtocolError(f"frame of {size} bytes: {least} to {max_size} are allowed")


class FrameReader:
    """Bytes in, answers out: pass bytes to `receive_data`, then call `next_event` until it is NEED_DATA or CLOSED.

    After an invalid size, every further call fails.
    """

    def __init__(self, max_bytes: int = DEFAULT_LIMITS.max_response_bytes) -> None:
        self._most = max_bytes
        self._buffer = bytearray()
        self._frame: bytes | memoryview | None = None
        self._closed = False

    @property
    def wanted(self) -> int:
        """Bytes missing for the next frame, as far as is known. RemoteProtocolError like `next_event`."""
        have = len(self._buffer)
        return 4 - have if have < 4 else 4 + frame_size(self._buffer, 0, self._most, MIN_RESPONSE_BYTES) - have

    def receive_data(self, data: bytes | bytearray | memoryview) -> None:
        """Takes bytes from the peer; b"" means that it has closed the connection."""
        if not data:
            self._closed = True
        elif type(data) is bytes and self._frame is None and len(self._buffer) == 4 and len(data) == self.wanted:
            self._frame = data  # a long answer is not copied
        else:
            self._buffer += data

    def receive_frame(self, frame: memoryview) -> None:
        """Like `receive_data`, but a complete frame after its size is not copied: the memory then belongs to the frame.
        RemoteProtocolError like `next_event`.
        """
        if self._frame is None and len(self._buffer) == 4 and len(frame) == self.wanted:
            self._frame = frame
        else:
            self.receive_data(frame)

    def next_event(self) -> bytes | memoryview | Literal[Event.NEED_DATA, Event.CLOSED]:
        """The next frame without its size; a view if it came by `receive_frame`.

        RemoteProtocolError for a size out of bounds or a close inside a frame.
        """
        if self._frame is not None:
            frame, self._frame = self._frame, None
            del self._buffer[:4]  # bytes after the frame stay
            return frame
        have = len(self._buffer)
        if have >= 4:
            stop = 4 + frame_size(self._buffer, 0, self._most, MIN_RESPONSE_BYTES)
            if have >= stop:
                frame = bytes(memoryview(self._buffer)[4:stop])
                del self._buffer[:stop]
                return frame
        if not self._closed:
            return NEED_DATA
        if have:
            raise RemoteProtocolError(f"the peer closed inside a frame, {have} bytes into it")
        return CLOSED
