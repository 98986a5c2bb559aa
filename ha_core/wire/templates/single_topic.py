"""Request templates: requests like an earlier one, recognised by comparing bytes, ten times cheaper than decoding them.

A client sends the same topics with the same settings again and again; only correlation ids, partitions, offsets and
records differ. A template is made from a decoded request (`scan_produce`, `scan_fetch_request`), and matches requests
that would decode alike.

Positions are those of the frame: its size is at 0, the API key at 4, the correlation id at 8.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from struct import Struct

from ha_core.wire.errors import RemoteProtocolError
from ha_core.wire.limits import DEFAULT_LIMITS, PARTITIONS_AT_ONCE
from ha_core.wire.produce import ProduceScan
from ha_core.wire.varint import read_uvarint, write_uvarint

_AFTER_CORRELATION = 12
_INT = Struct(">i").unpack_from
_THREE_INTS = Struct(">iii").unpack_from
_THREE_LONGS = Struct(">qqq")
_BODY = 8
"""Position in an answer after its size and correlation id; tags of the header, if there are any, come after it."""
_MAX_OFFSET = (1 << 63) - 1
_PRODUCE_FLEXIBLE = 9
_FETCH_FLEXIBLE = 12
_MAX_PARTITIONS = DEFAULT_LIMITS.max_partitions
_MAX_BYTES = 2 << 10
"""Limit per template. A connection keeps four, and names and forgotten topics of a session may be long."""
_SHORTEST_PARTITION = 4 + 5
"""Its number, and the longest length of its records."""


Place = tuple[int, int, int]
"""A partition of a produce: positions of its number, of the start and of the end of its records."""


class ProduceTemplate:
    """Produce requests to one topic, to any of its partitions, with equal header, acks and timeout."""

    __slots__ = ("_count_at", "begin", "head", "tagged")

    def __init__(self, head: bytes, begin: bytes, tagged: bool) -> None:
        """:param head: API key and version.
        :param begin: bytes after the correlation id, up to the count of partitions."""
        self.head = head
        self.begin = begin
        self.tagged = tagged
        self._count_at = _AFTER_CORRELATION + len(begin)

    def same(self, other: object) -> bool:
        """True if both match the same requests."""
        return type(other) is ProduceTemplate and (self.head, self.begin) == (other.head, other.begin)

    @classmethod
    def of(
        cls, buf: bytearray, start: int, end: int, frame_end: int, version: int, scan: ProduceScan
    ) -> ProduceTemplate | None:
        """The template of the request at `start`; None if it has several topics, or a partition without records.

        It must match its own request: that may have an unusual encoding, or bytes after the partitions.
        """
        if not scan.complete or not scan.partitions or scan.partitions[0][3] <= 0:
            return None
        _, _, records, size = scan.partitions[0]
        tagged, count = version >= _PRODUCE_FLEXIBLE, len(scan.partitions)
        at = records - 4 - (len(write_uvarint(size + 1) + write_uvarint(count + 1)) if tagged else 8)
        if at - start > _MAX_BYTES:
            return None
        head = bytes(buf[start + 4 : start + 8])
        like = cls(head, bytes(buf[start + _AFTER_CORRELATION : at]), tagged)
        found = [at for _, at, _ in like.partitions(buf, start, end, frame_end)]
        return like if found == [at for _, _, at, _ in scan.partitions] else None

    def partitions(self, buf: bytearray, at: int, end: int, frame_end: int) -> Sequence[Place]:
        """The partitions of the request at `at`, if its available part matches; empty: no match, or undecided. A
        request with several partitions has to be complete."""
        if not (buf.startswith(self.begin, at + _AFTER_CORRELATION) and buf.startswith(self.head, at + 4)):
            return ()
        tagged, p, end = self.tagged, at + self._count_at, end if end < frame_end else frame_end
        if end - p <= 4 + _SHORTEST_PARTITION:
            return ()
        try:
            if tagged:
                if buf[p] != 2:
                    return self._several(buf, p, end, frame_end)
                number_at = p + 1
                size, records = read_uvarint(buf, p + 5)
                stop = records + size - 1
                # Tags of partition, topic and request: empty, as far as they have arrived.
                sound = size > 1 and stop + 3 == frame_end and not any(buf[stop:end])
            else:
                count, _, size = _THREE_INTS(buf, p)
                if count != 1:
                    return self._several(buf, p, end, frame_end)
                number_at, records = p + 4, p + 12
                stop = records + size
                sound = size > 0 and stop == frame_end
        except RemoteProtocolError:
            return ()  # the decoder reports it
        return ((number_at, records, stop),) if sound else ()

    def _several(self, buf: bytearray, p: int, end: int, frame_end: int) -> Sequence[Place]:
        """Like `partitions`, for a count of partitions at `p` other than one."""
        if end < frame_end:
            return ()
        tagged, tags = self.tagged, 1 if self.tagged else 0
        # Compact counts and lengths are encoded plus one.
        count, p = read_uvarint(buf, p) if tagged else (_INT(buf, p)[0] + 1, p + 4)
        if count > PARTITIONS_AT_ONCE + 1:
            return ()
        places = []
        for _ in range(count - 1):
            number_at = p
            if end - p <= _SHORTEST_PARTITION:
                return ()
            size, p = read_uvarint(buf, p + 4) if tagged else (_INT(buf, p + 4)[0] + 1, p + 8)
            stop = p + size - 1
            if stop <= p or stop + tags > end or (tagged and buf[stop]):
                return ()
            places.append((number_at, p, stop))
            p = stop + tags
        # Tags of topic and request.
        return places if p + 2 * tags == end and not any(buf[p:end]) else ()


class ProduceAnswerTemplate:
    """Answers to successful produce requests to any partitions of a topic, without further fields."""

    __slots__ = ("_begin", "_entry", "_tagged", "_tail", "_topic")

    def __init__(self, topic: bytes, begin: bytes, tail: bytes, tagged: bool) -> None:
        """:param begin: bytes after the correlation id, up to the count of partitions.
        :param tail: bytes of a partition after its log start."""
        self._topic, self._begin, self._tail, self._tagged = topic, begin, tail, tagged
        self._entry = Struct(f">ihqqq{len(tail)}s")
        """A partition: number, error, base offset, timestamp, log start, and the tail."""

    @classmethod
    def of(cls, topic: bytes, version: int) -> ProduceAnswerTemplate | None:
        """None for old versions, whose answers have no log start."""
        if version < 5:
            return None
        if version >= _PRODUCE_FLEXIBLE:
            begin = b"\0\2" + write_uvarint(len(topic) + 1) + topic
            return cls(topic, begin, b"\1\0\0", True)  # no record errors, no message, no tags
        begin = b"\0\0\0\1" + len(topic).to_bytes(2, "big") + topic
        return cls(topic, begin, b"\0\0\0\0\xff\xff" if version >= 8 else b"", False)

    def shift(self, buf: bytearray, at: int, end: int, shifts: Mapping[tuple[bytes, int], int]) -> bool:
        """Does the work of `patch_produce_response` on the answer from `at` to `end`. False: no match, nothing
        changed."""
        p, entry = at + _BODY + len(self._begin), self._entry
        if end - p <= entry.size or not buf.startswith(self._begin, at + _BODY):
            return False
        if self._tagged:
            try:
                count, p = read_uvarint(buf, p)
            except RemoteProtocolError:
                return False
            stop = p + (count - 1) * entry.size
            # Tags of the topic, the throttle time, tags of the answer.
            sound = count > 1 and stop + 6 == end and not buf[stop] and not buf[end - 1]
        else:
            count, p = _INT(buf, p)[0], p + 4
            stop = p + count * entry.size
            sound = count > 0 and stop + 4 == end
        if not sound:
            return False
        written: list[tuple[int, int, int]] = []
        while p < stop:
            partition, error, base, time, _, tail = entry.unpack_from(buf, p)
            if error or tail != self._tail:
                return False
            delta = shifts.get((self._topic, partition))
            if delta is not None:
                shifted = base + delta
                if base < 0 or not 0 <= shifted <= _MAX_OFFSET:
                    return False
                written += ((p, shifted, time),)
            p += entry.size
        for p, shifted, time in written:
            _THREE_LONGS.pack_into(buf, p + 6, shifted, time, -1)
        return True


BEGINNING = 0, 0
"""Epochs of the request that begins a fetch session (KIP-227)."""
STANDING = 1, 0x7FFF_FFFF
"""Epochs of later requests in the session."""
OUTSIDE = -1, -1
"""Epochs of a fetch outside of any session."""


class FetchTemplate:
    """Fetches of any partitions of one topic, or without topics (KIP-227), with equal header and settings.

    :ivar epochs: lowest and highest epoch of the fetch session.
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
        """:param begin: bytes after the correlation id, up to the session's epoch.
        :param topic: bytes after it, up to the count of partitions; without topics, up to the end.
        :param tail: bytes after the partitions.
        """
        self.head, self.begin, self.topic, self.tail = head, begin, topic, tail
        self.entry_bytes = entry_bytes
        self.tagged = tagged
        self.epochs = epochs
        self.body_at = _AFTER_CORRELATION + len(begin) - 17 - 4
        """Position in the frame."""

    @property
    def name(self) -> bytes:
        """Name of the topic, if there is one."""
        return self.topic[read_uvarint(self.topic, 1)[1] :] if self.tagged else self.topic[6:]

    def same(self, other: object) -> bool:
        """True if both match the same requests."""
        return type(other) is FetchTemplate and (
            (self.head, self.begin, self.topic, self.tail, self.epochs)
            == (other.head, other.begin, other.topic, other.tail, other.epochs)
        )

    @classmethod
    def of(
        cls, buf: bytearray, start: int, body_at: int, end: int, version: int, topics: int, epochs: tuple[int, int]
    ) -> FetchTemplate | None:
        """The template of the request at `start`, which was decoded and has `topics` topics; None if it is unusual: of
        an old version, with several topics or tags, or very long.

        :param epochs: allowed epochs of the fetch session, including this request's.
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
            if buf[at] != 2:  # the count 1 in an overlong encoding
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
        """Position and count of the partitions of the complete request at `at`; None: no match."""
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
