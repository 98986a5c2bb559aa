"""Requests that are like one before: told by comparing bytes, where reading them anew would cost ten times as much.

A client sends the same topics with the same settings again and again; what differs are correlation ids, partitions,
offsets, and the records. A pattern is made of a request that was read as a whole (`scan_produce`,
`scan_fetch_request`), and finds others of which that reading would say the same.

Positions are those of the frame: its size is at 0, the API key at 4, the correlation id at 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from struct import Struct

from ha_core.wire.errors import RemoteProtocolError
from ha_core.wire.limits import DEFAULT_LIMITS
from ha_core.wire.produce import ProduceScan
from ha_core.wire.varint import read_uvarint, write_uvarint

_AFTER_CORRELATION = 12
_INT = Struct(">i").unpack_from
_LONG = Struct(">q")
_BODY = 8
"""Of an answer, behind its size and correlation id: tags of the header, if there are any, belong to it here."""
_WRITTEN, _WRITTEN_BYTES = Struct(">ihq").unpack_from, 30
"""What an answer says of a partition: its number, error, base offset, time and the start of its log."""
_MAX_OFFSET = (1 << 63) - 1
_PRODUCE_FLEXIBLE = 9
_FETCH_FLEXIBLE = 12
_MAX_PARTITIONS = DEFAULT_LIMITS.max_partitions
_MAX_BYTES = 2 << 10
"""Of a pattern. Four are kept for as long as a connection, and names, and what a session forgets, may be long."""
_SHORTEST_PARTITION = 4 + 5
"""Its number, and the longest count of bytes in front of its records."""


class ProduceLike:
    """Produce requests of one partition of the same topic, whichever, with the same header, acks and time-out."""

    __slots__ = ("after_records", "begin", "head", "partition_at", "tagged")

    def __init__(self, head: bytes, begin: bytes, tagged: bool) -> None:
        """:param head: API key and version. :param begin: from behind the correlation id up to the partition."""
        self.head = head
        self.begin = begin
        self.tagged = tagged
        self.partition_at = _AFTER_CORRELATION + len(begin)
        self.after_records = 3 if tagged else 0
        """Bytes: the tags of partition, topic and request."""

    def same(self, other: ProduceLike | FetchLike) -> bool:
        """Whether both find the same requests."""
        return type(other) is ProduceLike and (self.head, self.begin) == (other.head, other.begin)

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
            sound = size > 1 and after + 3 == frame_end and not any(buf[after : min(end, frame_end)])
        else:
            (size,) = _INT(buf, records + 4)
            records += 8
            sound = size > 0 and records + size == frame_end
        return records if sound else 0


class ProduceAnswerLike:
    """Answers to produce requests of one partition of a topic, whichever, that was written, and about which nothing
    more is said."""

    __slots__ = ("_begin", "_end", "_size", "_tagged", "_topic")

    def __init__(self, topic: bytes, begin: bytes, end: bytes, size: int, tagged: bool) -> None:
        """:param begin: from behind the correlation id up to the partition. :param end: from behind the start of the
        log up to the time that the client is to wait. :param size: of the whole frame."""
        self._topic, self._begin, self._end, self._size, self._tagged = topic, begin, end, size, tagged

    @classmethod
    def of(cls, topic: bytes, version: int) -> ProduceAnswerLike | None:
        """None for old versions, whose answers do not say where the log starts."""
        if version < 5:
            return None
        if version >= _PRODUCE_FLEXIBLE:
            begin = b"\0\2" + write_uvarint(len(topic) + 1) + topic + b"\2"
            end = b"\1\0\0\0"  # no errors of records, no message, no tags of partition and topic
        else:
            begin = b"\0\0\0\1" + len(topic).to_bytes(2, "big") + topic + b"\0\0\0\1"
            end = b"\0\0\0\0\xff\xff" if version >= 8 else b""
        tagged = version >= _PRODUCE_FLEXIBLE
        size = _BODY + len(begin) + _WRITTEN_BYTES + len(end) + (5 if tagged else 4)
        return cls(topic, begin, end, size, tagged)

    def shift(self, buf: bytearray, at: int, end: int, shifts: Mapping[tuple[bytes, int], int]) -> bool:
        """Does to the answer from `at` to `end` what `patch_produce_response` does. False: it is not like these, and
        stands as it did."""
        if end - at != self._size or not buf.startswith(self._begin, at + _BODY):
            return False
        at += _BODY + len(self._begin)
        partition, error, base = _WRITTEN(buf, at)
        if error or not buf.startswith(self._end, at + _WRITTEN_BYTES) or (self._tagged and buf[end - 1]):
            return False
        delta = shifts.get((self._topic, partition))
        if delta is not None:
            shifted = base + delta
            if base < 0 or not 0 <= shifted <= _MAX_OFFSET:
                return False
            _LONG.pack_into(buf, at + 6, shifted)
            _LONG.pack_into(buf, at + 22, -1)
        return True


STANDING = 1, 0x7FFF_FFFF
"""Epochs of a fetch session that stands (KIP-227)."""
OUTSIDE = -1, -1
"""Of a fetch outside of any session."""


class FetchLike:
    """Fetches of any partitions of one topic, or of none that is named (KIP-227), with the same header and settings.

    :ivar epochs: of the fetch session, the least and the highest.
    """

    __slots__ = ("begin", "body_at", "entry_bytes", "epochs", "head", "tagged", "tail", "topic")

    def __init__(
        self,
        head: bytes,
        begin: bytes,
        topic: bytes,
        tail: bytes,
        entry_bytes: int,
        tagged: bool,
        epochs: tuple[int, int],
    ) -> None:
        """:param begin: from behind the correlation id up to the session's epoch.
        :param topic: from behind that up to the count of partitions; of none, up to the end.
        :param tail: from behind the partitions up to the end.
        """
        self.head, self.begin, self.topic, self.tail = head, begin, topic, tail
        self.entry_bytes = entry_bytes
        self.tagged = tagged
        self.epochs = epochs
        self.body_at = _AFTER_CORRELATION + len(begin) - 17 - 4
        """In the frame."""

    def same(self, other: ProduceLike | FetchLike) -> bool:
        """Whether both find the same requests."""
        return type(other) is FetchLike and (
            (self.head, self.begin, self.topic, self.tail, self.epochs)
            == (other.head, other.begin, other.topic, other.tail, other.epochs)
        )

    @classmethod
    def of(
        cls, buf: bytearray, start: int, body_at: int, end: int, version: int, topics: int, epochs: tuple[int, int]
    ) -> FetchLike | None:
        """What is like the request at `start`, which was read and names so many topics; None where it is of no common
        kind: of an old version, several topics, tags, or very long.

        :param epochs: of the fetch session that others may have; this one has one of them.
        """
        if version < 9 or topics > 1:
            return None
        tagged = version >= _FETCH_FLEXIBLE
        epoch_at = body_at + 17 + 4
        at = epoch_at + 4
        entry_bytes = 33 if tagged else 28
        head, begin = bytes(buf[start + 4 : start + 8]), bytes(buf[start + _AFTER_CORRELATION : epoch_at])
        if topics == 0:
            if end - start > _MAX_BYTES:
                return None
            return cls(head, begin, bytes(buf[at:end]), b"", 0, tagged, epochs)
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
        return cls(head, begin, bytes(buf[at:count_at]), tail, entry_bytes, tagged, epochs)

    def entries(self, buf: bytearray, at: int, end: int) -> tuple[int, int] | None:
        """Position and count of the partitions of the request at `at`, all of which has come; None: it is not like
        it."""
        epoch_at = at + _AFTER_CORRELATION
        if not (buf.startswith(self.begin, epoch_at) and buf.startswith(self.head, at + 4)):
            return None
        epoch_at += len(self.begin)
        count_at = epoch_at + 4
        if not buf.startswith(self.topic, count_at, end):
            return None
        count_at += len(self.topic)
        least, highest = self.epochs
        if not least <= _INT(buf, epoch_at)[0] <= highest:
            return None
        if not self.entry_bytes:
            return (end, 0) if count_at == end else None
        tail_at = end - len(self.tail)
        if self.tagged:
            if tail_at <= count_at:
                return None
            try:
                count, entries_at = read_uvarint(buf, count_at)
            except RemoteProtocolError:
                return None
            count -= 1
        else:
            if tail_at < count_at + 4:
                return None
            (count,), entries_at = _INT(buf, count_at), count_at + 4
        sound = (
            0 < count <= _MAX_PARTITIONS
            and entries_at + count * self.entry_bytes == tail_at
            and buf.startswith(self.tail, tail_at, end)
            and not (self.tagged and any(buf[entries_at + self.entry_bytes - 1 : tail_at : self.entry_bytes]))
        )
        return (entries_at, count) if sound else None
