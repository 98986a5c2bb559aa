"""Request templates: requests like an earlier one, recognised by comparing bytes, ten times cheaper than decoding them.

A client sends the same topics with the same settings again and again. Only correlation ids, partitions, offsets and
records differ, and which of its topics a request names. A template is made from a decoded request (`scan_produce`,
`scan_fetch_request`), and matches requests that would decode alike and name only topics that it knows.

Most clients write to one topic, or read one. The last one learnt is compared with its count and length as a whole
(`_usual`): reading these and looking up the name takes a fifth more of the fast path's instructions for a request.

Positions are those of the frame: its size is at 0, the API key at 4, the correlation id at 8. Bytes after the frame may
be anything. A walk may read them, but then it does not end at the frame's end, which it checks last.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from struct import Struct
from struct import error as struct_error

from ha_core.wire.errors import RemoteProtocolError
from ha_core.wire.fetch_request import FetchScan
from ha_core.wire.limits import DEFAULT_LIMITS, PARTITIONS_AT_ONCE
from ha_core.wire.produce import ProduceScan
from ha_core.wire.varint import read_uvarint, write_uvarint

MAX_NAMES = 1_000
"""Topics per template."""
MAX_NAMES_BYTES = 32 << 10
"""Bytes of these names. With Python's share a full template takes 100 KB, and only if a client uses as many topics."""
_MAX_NAME_BYTES = 249
"""Longest name of a topic that can exist."""
_MAX_BYTES = 2 << 10
"""Limit for the other bytes of a template: a client id and a rack id may be long."""
_AFTER_CORRELATION = 12
_SHORT = Struct(">h").unpack_from
_INT = Struct(">i").unpack_from
_THREE_LONGS = Struct(">qqq")
_PRODUCE_FLEXIBLE, _FETCH_FLEXIBLE = 9, 12
_LEAST_FETCH = 9
"""Oldest version of fetch whose entries have a leader epoch."""
_MAX_PARTITIONS = DEFAULT_LIMITS.max_partitions
_SHORTEST_PARTITION = 4 + 5
"""A partition's number, and the longest length of its records."""
_TO_EPOCH = 17 + 4
"""Position in a fetch's body of the epoch of its fetch session."""
_ANSWER_BODY = 8
"""Position in an answer after its size and correlation id; tags of the header, if there are any, come after it."""
_MAX_OFFSET = (1 << 63) - 1
_BROKEN = (RemoteProtocolError, IndexError, struct_error)
"""A number is too long, or the buffer ends: the decoder reports it."""

Topics = tuple[bytes, ...]
PartitionSpan = tuple[int, int, int]
"""A partition of a produce: positions of its number, of the start and of the end of its records."""
ProduceMatch = tuple[Topics, Sequence[PartitionSpan]]
"""Topics of a produce, each once, and its partitions."""
FetchMatch = tuple[Topics, Sequence[tuple[int, int]]]
"""Topics of a fetch in its order, and for each the position and number of its partition entries."""
_NOTHING: FetchMatch = (), ()


def _fit(names: set[bytes]) -> bool:
    """True if a template may have these. (The walks do not tell an empty name from none.)"""
    small = len(names) <= MAX_NAMES and sum(map(len, names)) <= MAX_NAMES_BYTES
    return small and all(0 < len(name) <= _MAX_NAME_BYTES for name in names)


class RequestTemplate:
    """:ivar head: API key and version.
    :ivar prefix: bytes after the correlation id that all matching requests share.
    :ivar tagged: True for versions with compact lengths and tags.
    :ivar names: topics that matching requests may name.
    """

    __slots__ = ("_after_prefix", "_bytes", "_usual", "_usual_topics", "head", "names", "prefix", "tagged")

    def __init__(self, head: bytes, prefix: bytes, tagged: bool, names: Collection[bytes]) -> None:
        self.head, self.prefix, self.tagged = head, prefix, tagged
        self._after_prefix = _AFTER_CORRELATION + len(prefix)
        self.names: set[bytes] = set()
        self._bytes = 0
        """Total bytes of the names."""
        self._usual = b""
        """The count of topics and the name, in a request that names only the one of `_usual_topics`; empty: none."""
        self._usual_topics: Topics = ()
        self.learn(names)

    @property
    def settings(self) -> tuple[object, ...]:
        """Equal in templates that differ at most in their topics."""
        return self.head, self.prefix

    def learn(self, names: Collection[bytes]) -> None:
        """Lets requests name these topics, too, at most as many as a template may have. A full one forgets any others:
        the client chooses what it names next, and any order of eviction has a client that it serves badly."""
        known = self.names
        self._bytes += sum(len(name) for name in names if name not in known)
        known.difference_update(names)
        while known and (len(known) + len(names) > MAX_NAMES or self._bytes > MAX_NAMES_BYTES):
            self._bytes -= len(known.pop())
        known.update(names)
        name = next(iter(names), None)
        if name is not None:
            size = write_uvarint(len(name) + 1) if self.tagged else len(name).to_bytes(2, "big")
            self._usual, self._usual_topics = (b"\2" if self.tagged else b"\0\0\0\1") + size + name, (name,)

    def _topic(self, buf: bytearray, p: int) -> tuple[bytes, int, int]:
        """A topic in a request: its name, or none if it is not known, its count of partitions, and the position after
        that."""
        if self.tagged:
            # Compact counts and lengths are encoded plus one.
            size, p = (buf[p], p + 1) if buf[p] < 128 else read_uvarint(buf, p)
            stop = p + size - 1
            count, after = (buf[stop], stop + 1) if buf[stop] < 128 else read_uvarint(buf, stop)
            count -= 1
        else:
            p += 2
            stop = p + _SHORT(buf, p - 2)[0]
            count, after = _INT(buf, stop)[0], stop + 4
        known = stop - p <= _MAX_NAME_BYTES and (name := bytes(buf[p:stop])) in self.names
        return name if known else b"", count, after


class ProduceTemplate(RequestTemplate):
    """Produce requests to any partitions of any of these topics, with equal header, acks and timeout."""

    __slots__ = ()

    def learn(self, names: Collection[bytes]) -> None:
        super().learn(names)
        self._usual = self.prefix + self._usual  # they are adjacent

    @classmethod
    def of(
        cls, buf: bytearray, start: int, body_at: int, end: int, frame_end: int, version: int, scan: ProduceScan
    ) -> ProduceTemplate | None:
        """The template of the request at `start`, which was decoded; None if it is transactional, long or unusual, has
        a partition without records, or has several and is incomplete."""
        tagged, names = version >= _PRODUCE_FLEXIBLE, {name for name, _, _, _ in scan.partitions}
        # "None" has encodings of up to five bytes: then the topics would be read at a wrong position.
        if scan.transactional_id is not None or (tagged and buf[body_at]) or not _fit(names):
            return None
        # No transactional id; acks and timeout.
        topics_at = body_at + (1 if tagged else 2) + 2 + 4
        if topics_at - start > _MAX_BYTES or not names or not scan.complete:
            return None
        head, prefix = bytes(buf[start + 4 : start + 8]), bytes(buf[start + _AFTER_CORRELATION : topics_at])
        like = cls(head, prefix, tagged, names)
        # It must match its own request: that may have an unusual encoding, or bytes after the partitions.
        topics, places = like.match(buf, start, end, frame_end) or ((), ())
        alike = names == {*topics} and [at for _, at, _ in places] == [at for _, _, at, _ in scan.partitions]
        return like if alike else None

    def match(self, buf: bytearray, at: int, end: int, frame_end: int) -> ProduceMatch | None:
        """Topics and partitions of the request at `at`; None: no match, or undecided. A request with several
        partitions has to be complete; the records of a single one may still arrive."""
        begin_at, usual, tagged = at + _AFTER_CORRELATION, self._usual, self.tagged
        end = end if end < frame_end else frame_end
        try:
            if buf.startswith(usual, begin_at) and buf.startswith(self.head, at + 4):
                topics, p = self._usual_topics, begin_at + len(usual)
                if tagged:
                    count, p = buf[p] - 1, p + 1
                else:
                    count, p = _INT(buf, p)[0], p + 4
            elif buf.startswith(self.prefix, begin_at) and buf.startswith(self.head, at + 4):
                p = at + self._after_prefix
                if (buf[p] != 2) if tagged else _INT(buf, p)[0] != 1:
                    return self._walk(buf, p, end) if end == frame_end else None
                name, count, p = self._topic(buf, p + (1 if tagged else 4))
                if not name:
                    return None
                topics = (name,)
            else:
                return None
            if count == 1 and end - p > _SHORTEST_PARTITION:
                if tagged:
                    size, records = read_uvarint(buf, p + 4)
                    stop = records + size - 1
                    # Tags of partition, topic and request: empty, as far as they have arrived.
                    sound = size > 1 and stop + 3 == frame_end and not any(buf[stop:end])
                else:
                    size, records = _INT(buf, p + 4)[0], p + 8
                    stop = records + size
                    sound = size > 0 and stop == frame_end
                return (topics, ((p, records, stop),)) if sound else None
            return self._walk(buf, at + self._after_prefix, end) if end == frame_end else None
        except _BROKEN:
            return None

    def _walk(self, buf: bytearray, p: int, end: int) -> ProduceMatch | None:
        """Like `match`, for a complete request, whose count of topics is at `p`."""
        tagged, tags, names, room = self.tagged, 1 if self.tagged else 0, self.names, PARTITIONS_AT_ONCE
        topics: set[bytes] = set()
        places: list[PartitionSpan] = []
        # Compact counts and lengths are encoded plus one.
        count, p = read_uvarint(buf, p) if tagged else (_INT(buf, p)[0] + 1, p + 4)
        if not 0 < count - 1 <= len(names):
            return None
        for _ in range(count - 1):
            name, count, p = self._topic(buf, p)
            room -= count
            if not name or count < 1 or room < 0:
                return None
            topics.add(name)
            for _ in range(count):
                number_at = p
                size, p = read_uvarint(buf, p + 4) if tagged else (_INT(buf, p + 4)[0] + 1, p + 8)
                stop = p + size - 1
                if size < 2 or (tagged and buf[stop]):
                    return None
                places.append((number_at, p, stop))
                p = stop + tags
            if tagged and buf[p]:
                return None
            p += tags
        # Tags of the request.
        return (tuple(topics), places) if p + tags == end and not (tagged and buf[p]) else None


BEGINNING = 0, 0
"""Epochs of the request that begins a fetch session (KIP-227)."""
STANDING = 1, 0x7FFF_FFFF
"""Epochs of later requests in the session."""
OUTSIDE = -1, -1
"""Epochs of a fetch outside of any session."""


class FetchTemplate(RequestTemplate):
    """Fetches of any partitions of any of these topics, or without topics (KIP-227), with equal header and settings.

    :ivar tail: bytes after the topics.
    :ivar epochs: lowest and highest epoch of the fetch session.
    :ivar body_at: position in the frame.
    """

    __slots__ = ("_entry_bytes", "body_at", "epochs", "tail")

    def __init__(
        self, head: bytes, prefix: bytes, tagged: bool, names: Collection[bytes], tail: bytes, epochs: tuple[int, int]
    ) -> None:
        """:param prefix: bytes after the correlation id, up to the session's epoch."""
        super().__init__(head, prefix, tagged, names)
        self.tail, self.epochs = tail, epochs
        self.body_at = self._after_prefix - _TO_EPOCH
        self._entry_bytes = 33 if tagged else 28

    @property
    def settings(self) -> tuple[object, ...]:
        return self.head, self.prefix, self.tail, self.epochs

    @classmethod
    def of(
        cls, buf: bytearray, start: int, body_at: int, end: int, version: int, scan: FetchScan, epochs: tuple[int, int]
    ) -> FetchTemplate | None:
        """The template of the request at `start`, which was decoded; None if it is unusual: of an old version, with
        tags, with very many or long names, or with forgotten topics.

        :param epochs: allowed epochs of the fetch session, including this request's.
        """
        names, tagged, entries = {*scan.topics}, version >= _FETCH_FLEXIBLE, scan.entries
        if version < _LEAST_FETCH or entries is None or scan.forgets or not _fit(names):
            return None
        epoch_at = body_at + _TO_EPOCH
        tail_at = epoch_at + 4 + (1 if tagged else 4)
        if entries:
            tail_at = entries[-1].at + entries[-1].partitions * (33 if tagged else 28) + tagged
        if epoch_at - start + end - tail_at > _MAX_BYTES:
            return None
        head, prefix = bytes(buf[start + 4 : start + 8]), bytes(buf[start + _AFTER_CORRELATION : epoch_at])
        like = cls(head, prefix, tagged, names, bytes(buf[tail_at:end]), epochs)
        topics, found = like.match(buf, start, end) or ((), None)
        return like if [*topics] == scan.topics and found is not None and [*found] == entries else None

    def match(self, buf: bytearray, at: int, end: int) -> FetchMatch | None:
        """Topics and partition entries of the complete request at `at`; None: no match."""
        epoch_at = at + _AFTER_CORRELATION
        tail_at = end - len(self.tail)
        if not (
            buf.startswith(self.prefix, epoch_at)
            and buf.startswith(self.head, at + 4)
            and buf.startswith(self.tail, tail_at, end)
        ):
            return None
        epoch_at, usual, tagged = at + self._after_prefix, self._usual, self.tagged
        p, entry_bytes = epoch_at + 4, self._entry_bytes
        least, highest = self.epochs
        try:
            if not least <= _INT(buf, epoch_at)[0] <= highest:
                return None
            if tail_at - p <= 4:  # not more than a count
                empty = tail_at - p == 1 and buf[p] == 1 if tagged else tail_at - p == 4 and not _INT(buf, p)[0]
                return _NOTHING if empty else None
            if not usual or not buf.startswith(usual, p, tail_at):
                return self._walk(buf, p, tail_at)
            p += len(usual)
            if tagged:
                count, p = (buf[p], p + 1) if buf[p] < 128 else read_uvarint(buf, p)
                count -= 1
            else:
                count, p = _INT(buf, p)[0], p + 4
            stop = p + count * entry_bytes
            sound = (
                0 < count <= _MAX_PARTITIONS
                and stop + tagged == tail_at
                and not (tagged and (buf[stop] or any(buf[p + entry_bytes - 1 : stop : entry_bytes])))
            )
        except _BROKEN:
            return None
        return (self._usual_topics, ((p, count),)) if sound else None

    def _walk(self, buf: bytearray, p: int, tail_at: int) -> FetchMatch | None:
        """Like `match`, for any topics, whose count is at `p`."""
        tagged, names, entry_bytes, room = self.tagged, self.names, self._entry_bytes, _MAX_PARTITIONS
        topics: list[bytes] = []
        entries: list[tuple[int, int]] = []
        # Compact counts and lengths are encoded plus one.
        count, p = read_uvarint(buf, p) if tagged else (_INT(buf, p)[0] + 1, p + 4)
        if not 0 < count - 1 <= len(names):
            return None
        for _ in range(count - 1):
            name, count, p = self._topic(buf, p)
            room -= count
            if not name or count < 1 or room < 0:
                return None
            topics.append(name)
            entries.append((p, count))
            stop = p + count * entry_bytes
            if tagged:
                if buf[stop] or any(buf[p + entry_bytes - 1 : stop : entry_bytes]):
                    return None
                stop += 1
            p = stop
        return (tuple(topics), entries) if p == tail_at else None


class ProduceAnswerTemplate:
    """Answers to successful produce requests to any partitions of a topic, without further fields."""

    __slots__ = ("_entry", "_prefix", "_tagged", "_tail", "_topic")

    def __init__(self, topic: bytes, prefix: bytes, tail: bytes, tagged: bool) -> None:
        """:param prefix: bytes after the correlation id, up to the count of partitions.
        :param tail: bytes of a partition after its log start."""
        self._topic, self._prefix, self._tail, self._tagged = topic, prefix, tail, tagged
        self._entry = Struct(f">ihqqq{len(tail)}s")
        """A partition: number, error, base offset, timestamp, log start, and the tail."""

    @classmethod
    def of(cls, topic: bytes, version: int) -> ProduceAnswerTemplate | None:
        """None for old versions, whose answers have no log start."""
        if version < 5:
            return None
        if version >= _PRODUCE_FLEXIBLE:
            prefix = b"\0\2" + write_uvarint(len(topic) + 1) + topic
            return cls(topic, prefix, b"\1\0\0", True)  # no record errors, no message, no tags
        prefix = b"\0\0\0\1" + len(topic).to_bytes(2, "big") + topic
        return cls(topic, prefix, b"\0\0\0\0\xff\xff" if version >= 8 else b"", False)

    def shift(self, buf: bytearray, at: int, end: int, shifts: Mapping[tuple[bytes, int], int]) -> bool:
        """Does the work of `patch_produce_response` on the answer from `at` to `end`. False: no match, nothing
        changed.

        It adds the shifts itself, because nearly all answers come this way: it takes less than half the time of
        `patch_produce_response`, which reads every field. A property test compares their bytes.
        """
        p, entry = at + _ANSWER_BODY + len(self._prefix), self._entry
        if end - p <= entry.size or not buf.startswith(self._prefix, at + _ANSWER_BODY):
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
