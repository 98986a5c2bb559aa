"""Templates of produces to several topics (see `single_topic`): each request names some of the template's topics."""

from __future__ import annotations

from collections.abc import Collection
from struct import Struct

from ha_core.wire.errors import RemoteProtocolError
from ha_core.wire.produce import ProduceScan
from ha_core.wire.templates.several_topics import AFTER_CORRELATION, MAX_COUNT, SeveralTopicsTemplate
from ha_core.wire.templates.single_topic import ProduceTemplate
from ha_core.wire.varint import read_uvarint

_INT = Struct(">i").unpack_from
_SHORT = Struct(">h").unpack_from
_FLEXIBLE = 9
_MAX_PARTITIONS = 1_000
"""Limit per request: the walk occupies the event loop."""


class SeveralTopicsProduceTemplate(SeveralTopicsTemplate):
    """Produces to any partitions of any of these topics, with equal header, acks and timeout."""

    __slots__ = ("_topics_at", "tagged")

    def __init__(self, head: bytes, begin: bytes, names: frozenset[bytes], tagged: bool) -> None:
        """:param head: API key and version. :param begin: bytes after the correlation id, up to the count of topics."""
        super().__init__(head, begin, names)
        self.tagged = tagged
        self._topics_at = AFTER_CORRELATION + len(begin)

    @classmethod
    def of(
        cls, buf: bytearray, start: int, body_at: int, end: int, frame_end: int, version: int, scan: ProduceScan
    ) -> SeveralTopicsProduceTemplate | None:
        """The template of the request at `start`, which was decoded; None if it is incomplete, transactional, has
        partitions without records, or an unusual encoding."""
        tagged = version >= _FLEXIBLE
        # "None" has encodings of up to five bytes: then the topics would be read at a wrong position.
        if scan.transactional_id is not None or (tagged and buf[body_at]):
            return None
        # No transactional id; acks and timeout.
        topics_at = body_at + (1 if tagged else 2) + 2 + 4
        head, begin = bytes(buf[start + 4 : start + 8]), bytes(buf[start + AFTER_CORRELATION : topics_at])
        names = [name for name, _, _, _ in scan.partitions]
        pattern = cls(head, begin, frozenset(names), tagged)
        return pattern if pattern.short and pattern.topics(buf, start, end, frame_end) == set(names) else None

    def joined(self, *others: Collection[bytes]) -> SeveralTopicsProduceTemplate:
        """The template extended by these topics, as far as they fit, in order."""
        return SeveralTopicsProduceTemplate(self.head, self.begin, self.names_that_fit(others), self.tagged)

    def differs_only_in_topics(self, other: object) -> bool:
        if isinstance(other, ProduceTemplate):
            return self.head == other.head and other.begin.startswith(self.begin)
        return isinstance(other, SeveralTopicsProduceTemplate) and (self.head, self.begin) == (other.head, other.begin)

    def same(self, other: object) -> bool:
        """True if it matches each request that the other one matches, and as early: a single-topic request may be
        forwarded before it has arrived as a whole."""
        return (
            isinstance(other, SeveralTopicsProduceTemplate)
            and self.differs_only_in_topics(other)
            and self.names >= other.names
        )

    def topics(self, buf: bytearray, at: int, end: int, frame_end: int) -> set[bytes] | None:
        """Topics of the request at `at`; None: no match, or incomplete."""
        if (
            end < frame_end
            or not buf.startswith(self.begin, at + AFTER_CORRELATION)
            or not buf.startswith(self.head, at + 4)
        ):
            return None
        p = at + self._topics_at
        try:
            return self._walk(buf, p, frame_end) if frame_end - p > 4 else None
        except RemoteProtocolError:
            return None  # the decoder reports it

    def _walk(self, buf: bytearray, p: int, end: int) -> set[bytes] | None:
        tagged, tags, room = self.tagged, 1 if self.tagged else 0, _MAX_PARTITIONS
        count, p = (buf[p] - 1, p + 1) if tagged else (_INT(buf, p)[0], p + 4)
        found: set[bytes] = set()
        if not 0 < count <= MAX_COUNT:
            return None
        for _ in range(count):
            if end - p < 2:
                return None
            name_at, name_bytes = (p + 1, buf[p] - 1) if tagged else (p + 2, _SHORT(buf, p)[0])
            p = name_at + name_bytes
            # A count follows, and at least the number and the length of records of one partition.
            if not 0 < name_bytes <= MAX_COUNT or end - p < 4 + 4:
                return None
            name = bytes(buf[name_at:p])
            partitions, p = (buf[p] - 1, p + 1) if tagged else (_INT(buf, p)[0], p + 4)
            room -= partitions
            if not 0 < partitions <= MAX_COUNT or room < 0 or name not in self.names:
                return None
            found.add(name)
            for _ in range(partitions):
                if end - p < 4 + 5:
                    return None
                size, p = read_uvarint(buf, p + 4) if tagged else (_INT(buf, p + 4)[0] + 1, p + 8)
                stop = p + size - 1
                if stop <= p or stop + tags > end or (tagged and buf[stop]):
                    return None
                p = stop + tags
            if tagged and (p >= end or buf[p]):
                return None
            p += tags
        # Tags of the request.
        return found if p + tags == end and not any(buf[p:end]) else None
