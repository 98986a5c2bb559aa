"""What the gateway looks at in a fetch request, and writes into it."""

from collections.abc import Iterator
from dataclasses import dataclass
from struct import Struct
from struct import error as struct_error
from typing import Any, NamedTuple

from ha_core.wire.errors import RemoteProtocolError
from ha_core.wire.header import skip_tags
from ha_core.wire.limits import DEFAULT_LIMITS
from ha_core.wire.varint import read_uvarint

_SHORT = Struct(">h").unpack_from
_INT = Struct(">i")
_TWO_INTS = Struct(">ii")
_VERSIONS = (4, 12)
_SESSION_AT = 17
"""In the body: id and epoch of the fetch session."""
_FLEXIBLE = 12


class TopicEntries(NamedTuple):
    """Where the partitions of a topic are: so many entries, one behind the other."""

    at: int
    partitions: int


class FetchScan(NamedTuple):
    """session_id 0 and session_epoch -1 (no session) before version 7. entries: of each topic; None if one has tags.
    forgets: whether topics are taken out of the fetch session.

    A rack id (`rack_at`, `rack_bytes`; no bytes before version 11) lets a broker send the consumer to a replica by the
    broker's own node id. Overwriting it with other bytes of that length keeps the consumer at the leader.
    """

    replica_id: int
    session_id: int
    session_epoch: int
    topics: list[bytes]
    entries: list[TopicEntries] | None
    forgets: bool
    rack_at: int
    rack_bytes: int
    max_wait_ms: int


def scan_fetch_request(buf: Any, body_at: int, end: int, version: int) -> FetchScan:
    """Reads the body of a whole fetch request. RemoteProtocolError for anything wrong in it."""
    if not _VERSIONS[0] <= version <= _VERSIONS[1]:
        raise RemoteProtocolError(f"Fetch version {version}: {_VERSIONS[0]} to {_VERSIONS[1]} are read")
    cursor = _FetchCursor(buf, body_at, end, version, version >= _FLEXIBLE)
    try:
        found = _read(cursor)
    except (struct_error, IndexError):
        raise RemoteProtocolError(f"fetch request of {end - body_at} bytes ends inside a field") from None
    if cursor.at != end:
        raise RemoteProtocolError(f"fetch request of {end - body_at} bytes: its fields take {cursor.at - body_at}")
    return found


def topics_named(buf: Any, body_at: int, end: int, version: int) -> int:
    """How many topics a whole fetch request says that it names: what it really names has to be read. 0 where not even
    that has come."""
    at = body_at + _SESSION_AT + (8 if version >= 7 else 0)
    if end - at < 4:
        return 0
    return read_uvarint(buf, at)[0] - 1 if version >= _FLEXIBLE else int(_INT.unpack_from(buf, at)[0])


@dataclass(slots=True)
class _FetchCursor:
    """A position in the body, moved by what is read. The bytes after `end` may be anything: `read` checks last."""

    buf: Any
    at: int
    end: int
    version: int
    tagged: bool
    left: int = 2 * DEFAULT_LIMITS.max_partitions  # and as many topics

    def size(self, classic: Any, width: int) -> int:
        """A length or count, -1 for null."""
        if self.tagged:
            value, self.at = read_uvarint(self.buf, self.at)
            return value - 1
        at, self.at = self.at, self.at + width
        return int(classic(self.buf, at)[0])

    def count(self, least: int) -> int:
        count = self.size(_INT.unpack_from, 4)
        self.left -= count
        if count < 0 or count * least > self.end - self.at or self.left < 0:
            raise RemoteProtocolError(f"fetch request: {count} elements in the last {self.end - self.at} bytes")
        return count

    def string(self) -> tuple[int, int]:
        """(position, length)"""
        size = self.size(_SHORT, 2)
        if not 0 <= size <= min(self.end - self.at, DEFAULT_LIMITS.max_string):
            raise RemoteProtocolError(f"fetch request: string of {size} in the last {self.end - self.at} bytes")
        at, self.at = self.at, self.at + size
        return at, size

    def name(self) -> bytes:
        at, size = self.string()
        return bytes(self.buf[at : at + size])

    def tags(self) -> None:
        if self.tagged:
            self.at = skip_tags(self.buf, self.at, self.end)


def _read(cursor: _FetchCursor) -> FetchScan:
    replica_id, max_wait_ms = _TWO_INTS.unpack_from(cursor.buf, cursor.at)
    cursor.at += _SESSION_AT  # and times, sizes, isolation
    session_id, session_epoch = 0, -1
    if cursor.version >= 7:
        session_id, session_epoch = _TWO_INTS.unpack_from(cursor.buf, cursor.at)
        cursor.at += 8
    topics = list[bytes]()
    entries = list[TopicEntries]()
    for _ in range(cursor.count(2)):
        topics.append(cursor.name())
        found = _pass_partitions(cursor)
        if found is not None:
            entries.append(found)
        cursor.tags()
    forgotten = 0
    if cursor.version >= 7:
        forgotten = cursor.count(2)
        for _ in range(forgotten):
            cursor.string()
            numbers = cursor.count(4)
            cursor.at += 4 * numbers
            cursor.tags()
    rack_at, rack_bytes = cursor.string() if cursor.version >= 11 else (0, 0)
    cursor.tags()
    without_tags = entries if len(entries) == len(topics) else None
    return FetchScan(
        replica_id, session_id, session_epoch, topics, without_tags, forgotten > 0, rack_at, rack_bytes, max_wait_ms
    )


def _pass_partitions(cursor: _FetchCursor) -> TopicEntries | None:
    """None: one has tags."""
    version = cursor.version
    # partition, (epoch), offset, (epoch of the last fetched), (start of the log), size
    fixed = 16 + 4 * (version >= 9) + 4 * cursor.tagged + 8 * (version >= 5)
    count = cursor.count(fixed)
    found = TopicEntries(cursor.at, count)
    if not cursor.tagged:
        cursor.at += count * fixed
        return found
    buf, at = cursor.buf, cursor.at
    for _ in range(count):
        at += fixed
        at = at + 1 if buf[at] == 0 else skip_tags(buf, at, cursor.end)
    cursor.at = at
    return found if at == found.at + count * (fixed + 1) else None


def leave_session(buf: bytearray, body_at: int, version: int) -> None:
    """Lets a full fetch be one outside of any fetch session. That which it names ends."""
    if version >= 7:
        _INT.pack_into(buf, body_at + _SESSION_AT + 4, -1)


class FetchEntries:
    """The partitions of a fetch request of one version, without tags: what each asks for, read and written in place."""

    def __init__(self, version: int) -> None:
        has_epoch, tagged = version >= 9, version >= _FLEXIBLE
        tail = 4 + 8 * (version >= 5) + tagged  # the start of a follower's log, the size, and tags
        self._offset = Struct(f">i{'4x' if has_epoch else ''}q{'4x' if tagged else ''}{tail}x")
        self.read_one = self._offset.unpack_from
        """(partition, offset) of the entry at a position of a buffer."""
        self.bytes = self._offset.size
        """Of each."""
        self._write = Struct(">iqi" if tagged else ">iq" if has_epoch else ">q").pack_into
        self._epochs, self._last_epochs = (-1,) * has_epoch, (-1,) * tagged

    def read(self, buf: bytearray, at: int, count: int) -> Iterator[tuple[int, int]]:
        """(partition, offset) of each."""
        return self._offset.iter_unpack(memoryview(buf)[at : at + count * self.bytes])

    def write(self, buf: bytearray, at: int, offset: int) -> None:
        """Lets the entry at `at` ask for another offset, and of no epoch: those that the client knows are not the
        cluster's."""
        self._write(buf, at + 4, *self._epochs, offset, *self._last_epochs)
