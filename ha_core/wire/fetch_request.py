"""Reads the parts of a fetch request that the gateway needs, and patches them."""

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
"""Position in the body of id and epoch of the fetch session."""
_FLEXIBLE = 12


class TopicEntries(NamedTuple):
    """Position and number of the partition entries of a topic, which are contiguous."""

    at: int
    partitions: int


class FetchScan(NamedTuple):
    """session_id 0 and session_epoch -1 (no session) before version 7. entries: per topic; None if one has tags.
    forgets: True if topics are removed from the fetch session.

    A rack id (`rack_at`, `rack_bytes`; no bytes before version 11) lets a broker send the consumer to a replica, by the
    broker's own node id. Overwriting it with other bytes of equal length keeps the consumer at the leader.
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
    """Reads the body of a whole fetch request. RemoteProtocolError for anything invalid."""
    if not _VERSIONS[0] <= version <= _VERSIONS[1]:
        raise RemoteProtocolError(f"Fetch version {version}: {_VERSIONS[0]} to {_VERSIONS[1]} are read")
    cursor = _FetchCursor(buf, body_at, end, version, version >= _FLEXIBLE)
    try:
        scan = _read(cursor)
    except (struct_error, IndexError):
        raise RemoteProtocolError(f"fetch request of {end - body_at} bytes ends inside a field") from None
    if cursor.at != end:
        raise RemoteProtocolError(f"fetch request of {end - body_at} bytes: its fields take {cursor.at - body_at}")
    return scan


def topics_named(buf: Any, body_at: int, end: int, version: int) -> int:
    """Number of topics claimed by a whole fetch request: the real number requires reading it. 0 if that field is
    missing."""
    at = body_at + _SESSION_AT + (8 if version >= 7 else 0)
    if end - at < 4:
        return 0
    return read_uvarint(buf, at)[0] - 1 if version >= _FLEXIBLE else int(_INT.unpack_from(buf, at)[0])


@dataclass(slots=True)
class _FetchCursor:
    """A position in the body, advanced by reads. Bytes after `end` may be anything: `read` checks the position last."""

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
    cursor.at += _SESSION_AT  # skips times, sizes, isolation
    session_id, session_epoch = 0, -1
    if cursor.version >= 7:
        session_id, session_epoch = _TWO_INTS.unpack_from(cursor.buf, cursor.at)
        cursor.at += 8
    topics = list[bytes]()
    entries = list[TopicEntries]()
    for _ in range(cursor.count(2)):
        topics.append(cursor.name())
        topic_entries = _pass_partitions(cursor)
        if topic_entries is not None:
            entries.append(topic_entries)
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
    # partition, (leader epoch), offset, (last fetched epoch), (log start), size
    fixed = 16 + 4 * (version >= 9) + 4 * cursor.tagged + 8 * (version >= 5)
    count = cursor.count(fixed)
    entries = TopicEntries(cursor.at, count)
    if not cursor.tagged:
        cursor.at += count * fixed
        return entries
    buf, at = cursor.buf, cursor.at
    for _ in range(count):
        at += fixed
        at = at + 1 if buf[at] == 0 else skip_tags(buf, at, cursor.end)
    cursor.at = at
    return entries if at == entries.at + count * (fixed + 1) else None


def leave_session(buf: bytearray, body_at: int, version: int) -> None:
    """Turns a full fetch into one outside of any fetch session. The session that it names ends."""
    if version >= 7:
        _INT.pack_into(buf, body_at + _SESSION_AT + 4, -1)


class FetchEntries:
    """The partitions of a fetch request of one version, without tags: reads and patches them in place."""

    def __init__(self, version: int) -> None:
        has_epoch, tagged = version >= 9, version >= _FLEXIBLE
        tail = 4 + 8 * (version >= 5) + tagged  # a follower's log start, the size, and tags
        self._offset = Struct(f">i{'4x' if has_epoch else ''}q{'4x' if tagged else ''}{tail}x")
        self.read_one = self._offset.unpack_from
        """(partition, offset) of the entry at a position of a buffer."""
        self.bytes = self._offset.size
        """Size of each entry."""
        self._write = Struct(">iqi" if tagged else ">iq" if has_epoch else ">q").pack_into
        self._epochs, self._last_epochs = (-1,) * has_epoch, (-1,) * tagged

    def read(self, buf: bytearray, at: int, count: int) -> Iterator[tuple[int, int]]:
        """(partition, offset) of each entry."""
        return self._offset.iter_unpack(memoryview(buf)[at : at + count * self.bytes])

    def write(self, buf: bytearray, at: int, offset: int) -> None:
        """Replaces the offset of the entry at `at`, and removes its epochs: those that the client knows are another
        cluster's."""
        self._write(buf, at + 4, *self._epochs, offset, *self._last_epochs)
