"""What the gateway looks at in a fetch request before it is passed on. `fetch_patch` does the answers."""

from struct import Struct
from struct import error as struct_error
from typing import Any, NamedTuple

from ha_core.wire.errors import RemoteProtocolError
from ha_core.wire.fetch_patch import FetchPatcher, FetchShift
from ha_core.wire.header import skip_tags
from ha_core.wire.limits import DEFAULT_LIMITS
from ha_core.wire.varint import read_uvarint

__all__ = ["FetchPatcher", "FetchScan", "FetchShift", "scan_fetch_request"]

_SHORT = Struct(">h").unpack_from
_INT = Struct(">i").unpack_from
_SESSION = Struct(">ii").unpack_from
_VERSIONS = (4, 12)
_FLEXIBLE = 12


class FetchScan(NamedTuple):
    """session_id 0 and session_epoch -1 (no session) before version 7.

    A rack id (`rack_at`, `rack_bytes`; no bytes before version 11) lets a broker send the consumer to a replica by the
    broker's own node id. Overwriting it with other bytes of that length keeps the consumer at the leader.
    """

    replica_id: int
    session_id: int
    session_epoch: int
    topics: list[bytes]
    rack_at: int
    rack_bytes: int


def scan_fetch_request(buf: Any, body_at: int, end: int, version: int) -> FetchScan:
    """Reads the body of a whole fetch request. RemoteProtocolError for anything wrong in it."""
    if not _VERSIONS[0] <= version <= _VERSIONS[1]:
        raise RemoteProtocolError(f"Fetch version {version}: {_VERSIONS[0]} to {_VERSIONS[1]} are read")
    cursor = _Cursor(buf, body_at, end, version)
    try:
        found = _read(cursor)
    except (struct_error, IndexError):
        raise RemoteProtocolError(f"fetch request of {end - body_at} bytes ends inside a field") from None
    if cursor.at != end:
        raise RemoteProtocolError(f"fetch request of {end - body_at} bytes: its fields take {cursor.at - body_at}")
    return found


class _Cursor:
    """A position in the body, moved by what is read. The bytes after `end` may be anything: `read` checks last."""

    def __init__(self, buf: Any, at: int, end: int, version: int) -> None:
        self.buf = buf
        self.at = at
        self.end = end
        self.version = version
        self.tagged = version >= _FLEXIBLE
        self.left = 2 * DEFAULT_LIMITS.max_partitions  # and as many topics

    def size(self, classic: Any, width: int) -> int:
        """A length or count, -1 for null."""
        if self.tagged:
            value, self.at = read_uvarint(self.buf, self.at)
            return value - 1
        at, self.at = self.at, self.at + width
        return int(classic(self.buf, at)[0])

    def count(self, least: int) -> int:
        count = self.size(_INT, 4)
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


def _read(cursor: _Cursor) -> FetchScan:
    (replica_id,) = _INT(cursor.buf, cursor.at)
    cursor.at += 17  # and times, sizes, isolation
    session_id, session_epoch = 0, -1
    if cursor.version >= 7:
        session_id, session_epoch = _SESSION(cursor.buf, cursor.at)
        cursor.at += 8
    topics = []
    for _ in range(cursor.count(2)):
        topics.append(cursor.name())
        _pass_partitions(cursor)
        cursor.tags()
    if cursor.version >= 7:
        for _ in range(cursor.count(2)):
            cursor.string()
            numbers = cursor.count(4)
            cursor.at += 4 * numbers
            cursor.tags()
    rack_at, rack_bytes = cursor.string() if cursor.version >= 11 else (0, 0)
    cursor.tags()
    return FetchScan(replica_id, session_id, session_epoch, topics, rack_at, rack_bytes)


def _pass_partitions(cursor: _Cursor) -> None:
    version = cursor.version
    # partition, (epoch), offset, (epoch of the last fetched), (start of the log), size
    fixed = 16 + 4 * (version >= 9) + 4 * cursor.tagged + 8 * (version >= 5)
    count = cursor.count(fixed)
    if not cursor.tagged:
        cursor.at += count * fixed
        return
    buf, at = cursor.buf, cursor.at
    for _ in range(count):
        at += fixed
        at = at + 1 if buf[at] == 0 else skip_tags(buf, at, cursor.end)
    cursor.at = at
