"""Requests that are like one before: told by comparing bytes, where reading them anew would cost ten times as much.

A client sends the same topics with the same settings again and again; what differs are correlation ids, partitions,
offsets, and the records. A pattern is made of a request that was read as a whole (`scan_produce`,
`scan_fetch_request`), and finds others of which that reading would say the same.

Positions are those of the frame: its size is at 0, the API key at 4, the correlation id at 8.
"""

from __future__ import annotations

from struct import Struct

from ha_core.wire.errors import RemoteProtocolError
from ha_core.wire.limits import DEFAULT_LIMITS
from ha_core.wire.produce import ProduceScan
from ha_core.wire.varint import read_uvarint

_AFTER_CORRELATION = 12
_INT = Struct(">i").unpack_from
_PRODUCE_FLEXIBLE = 9
_FETCH_FLEXIBLE = 12
_MAX_PARTITIONS = DEFAULT_LIMITS.max_partitions
_MAX_BYTES = 2 << 10
"""Of a pattern. Four are kept for as long as a connection, and names, and what a session forgets, may be long."""
_SHORTEST_PARTITION = 4 + 5
"""Its number, and the longest count of bytes in front of its records."""


class ProduceLike:
    """Produce requests of one partition of the same topic, whichever, with the same header, acks and time-out."""

    __slots__ = ("begin", "head", "tagged")

    def __init__(self, head: bytes, begin: bytes, tagged: bool) -> None:
        """:param head: API key and version. :param begin: from behind the correlation id up to the partition."""
        self.head = head
        self.begin = begin
        self.tagged = tagged

    @classmethod
    def of(
        cls, buf: bytearray, start: int, end: int, frame_end: int, version: int, scan: ProduceScan
    ) -> ProduceLike | None:
        """What is like the request at `start`; None where it names other than one partition, or no records.

        It has to be like itself: what it says may be said in another way, or more may come behind the partition.
        """
        if not scan.complete or len(scan.partitions) != 1:
            return None
        _, _, records, size = scan.partitions[0]
        if size <= 0:
            return None
        tagged = version >= _PRODUCE_FLEXIBLE
        at = records - 4 - (((size + 1).bit_length() + 6) // 7 if tagged else 4)
        if at - start > _MAX_BYTES:
            return None
        head = bytes(buf[start + 4 : start + 8])
        like = cls(head, bytes(buf[start + _AFTER_CORRELATION : at]), tagged)
        return like if like.matches(buf, start, end, frame_end) == records else None

    def matches(self, buf: bytearray, at: int, end: int, frame_end: int) -> int:
        """The position of the records of the request at `at`, which is like it as far as has come; 0: it is not, or it
        is not certain yet."""
        records = at + _AFTER_CORRELATION
        if not (buf.startswith(self.begin, records) and buf.startswith(self.head, at + 4)):
            return 0
        records += len(self.begin)
        if end - records <= _SHORTEST_PARTITION:
            return 0
        if self.tagged:
            try:
                size, records = read_uvarint(buf, records + 4)
            except RemoteProtocolError:
                return 0  # whoever reads it says so
            after = records + size - 1
            # The tags of partition, topic and request: there are none, as far as it can be seen.
            sound = size > 1 and after + 3 == frame_end and not any(buf[after:end])
        else:
            (size,) = _INT(buf, records + 4)
            records += 8
            sound = size > 0 and records + size == frame_end
        return records if sound else 0


class FetchLike:
    """Fetches of any partitions of one topic, or of none that is named (KIP-227), with the same header and settings.

    :ivar incremental: of a fetch session that stands; if not, outside of one.
    """

    __slots__ = ("begin", "entry_bytes", "head", "incremental", "tagged", "tail", "topic")

    def __init__(
        self, head: bytes, begin: bytes, topic: bytes, tail: bytes, entry_bytes: int, tagged: bool, incremental: bool
    ) -> None:
        """:param begin: from behind the correlation id up to the session's epoch.
        :param topic: from behind that up to the count of partitions; of none, up to the end.
        :param tail: from behind the partitions up to the end.
        """
        self.head, self.begin, self.topic, self.tail = head, begin, topic, tail
        self.entry_bytes = entry_bytes
        self.tagged = tagged
        self.incremental = incremental

    @classmethod
    def of(cls, buf: bytearray, start: int, body_at: int, end: int, version: int, topics: int) -> FetchLike | None:
        """What is like the request at `start`, which was read and names so many topics; None where it is of no common
        kind: of an old version, several topics, tags, very long, or the first of its session."""
        if version < 9 or topics > 1:
            return None
        tagged = version >= _FETCH_FLEXIBLE
        epoch_at = body_at + 17 + 4
        session_id, epoch = _INT(buf, epoch_at - 4)[0], _INT(buf, epoch_at)[0]
        incremental = session_id != 0 and epoch > 0
        if not incremental and (session_id, epoch) != (0, -1):
            return None
        at = epoch_at + 4
        entry_bytes = 33 if tagged else 28
        head, begin = bytes(buf[start + 4 : start + 8]), bytes(buf[start + _AFTER_CORRELATION : epoch_at])
        if topics == 0:
            if end - start > _MAX_BYTES:
                return None
            return cls(head, begin, bytes(buf[at:end]), b"", 0, tagged, incremental)
        if tagged:
            if buf[at] != 2:  # one topic, and longer than it need be
                return None
            size, name_at = read_uvarint(buf, at + 1)
            count_at = name_at + size - 1
            count, entries_at = read_uvarint(buf, count_at)
            count -= 1
        else:
            count_at = at + 6 + int.from_bytes(buf[at + 4 : at + 6], "big")
            count, entries_at = _INT(buf, count_at)[0], count_at + 4
        tail_at = entries_at + count * entry_bytes
        if count_at - start + end - tail_at > _MAX_BYTES:
            return None
        if tagged and any(buf[entries_at + entry_bytes - 1 : tail_at : entry_bytes]):
            return None
        tail = bytes(buf[tail_at:end])
        return cls(head, begin, bytes(buf[at:count_at]), tail, entry_bytes, tagged, incremental)

    def matches(self, buf: bytearray, at: int, end: int) -> bool:
        """Whether the request at `at`, all of which has come, is like it."""
        epoch_at = at + _AFTER_CORRELATION
        if not (buf.startswith(self.begin, epoch_at) and buf.startswith(self.head, at + 4)):
            return False
        epoch_at += len(self.begin)
        count_at = epoch_at + 4
        if not buf.startswith(self.topic, count_at, end):
            return False
        count_at += len(self.topic)
        (epoch,) = _INT(buf, epoch_at)
        if epoch <= 0 if self.incremental else epoch != -1:
            return False
        if not self.entry_bytes:
            return count_at == end
        tail_at = end - len(self.tail)
        if self.tagged:
            if tail_at <= count_at:
                return False
            try:
                count, entries_at = read_uvarint(buf, count_at)
            except RemoteProtocolError:
                return False
            count -= 1
        else:
            if tail_at < count_at + 4:
                return False
            (count,), entries_at = _INT(buf, count_at), count_at + 4
        return (
            0 < count <= _MAX_PARTITIONS
            and entries_at + count * self.entry_bytes == tail_at
            and buf.startswith(self.tail, tail_at, end)
            and not (self.tagged and any(buf[entries_at + self.entry_bytes - 1 : tail_at : self.entry_bytes]))
        )
