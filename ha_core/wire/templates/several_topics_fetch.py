"""Templates of fetches of several topics (see `single_topic`): each request names some of the template's topics."""

from __future__ import annotations

from collections.abc import Collection
from struct import Struct

from ha_core.wire.fetch_request import FetchScan, TopicEntries
from ha_core.wire.limits import DEFAULT_LIMITS
from ha_core.wire.templates.several_topics import AFTER_CORRELATION, MAX_COUNT, SeveralTopicsTemplate
from ha_core.wire.templates.single_topic import FetchTemplate

_INT = Struct(">i").unpack_from
_SHORT = Struct(">h").unpack_from
_TO_EPOCH = 17 + 4
"""Position in the body of the epoch of the fetch session."""
_LEAST_VERSION, _FLEXIBLE = 9, 12

Named = list[tuple[bytes, TopicEntries]]
"""Topics in the order of the request, with their partition entries."""


class SeveralTopicsFetchTemplate(SeveralTopicsTemplate):
    """Fetches of any partitions of any of these topics, with equal header and settings.

    :ivar epochs: lowest and highest epoch of the fetch session.
    """

    __slots__ = ("body_at", "entry_bytes", "epochs", "tagged", "tail")

    def __init__(
        self,
        head: bytes,
        begin: bytes,
        names: frozenset[bytes],
        tail: bytes,
        entry_bytes: int,
        tagged: bool,
        epochs: tuple[int, int],
    ) -> None:
        """:param begin: bytes after the correlation id, up to the session's epoch.
        :param tail: bytes after the topics.
        """
        super().__init__(head, begin, names, len(tail))
        self.tail = tail
        self.entry_bytes = entry_bytes
        self.tagged = tagged
        self.epochs = epochs
        self.body_at = AFTER_CORRELATION + len(begin) - _TO_EPOCH
        """Position in the frame."""

    @classmethod
    def of(
        cls, buf: bytearray, start: int, body_at: int, end: int, version: int, scan: FetchScan, epochs: tuple[int, int]
    ) -> SeveralTopicsFetchTemplate | None:
        """The template of the request at `start`, which was decoded; None if it is unusual: of an old version, with
        tags, with very many or long names, or with forgotten topics.

        :param epochs: allowed epochs of the fetch session, including this request's.
        """
        if version < _LEAST_VERSION or not scan.entries or scan.forgets or len(scan.topics) > MAX_COUNT:
            return None
        tagged = version >= _FLEXIBLE
        entry_bytes = 33 if tagged else 28
        last, epoch_at = scan.entries[-1], body_at + _TO_EPOCH
        tail_at = last.at + last.partitions * entry_bytes + tagged
        head, begin = bytes(buf[start + 4 : start + 8]), bytes(buf[start + AFTER_CORRELATION : epoch_at])
        pattern = cls(head, begin, frozenset(scan.topics), bytes(buf[tail_at:end]), entry_bytes, tagged, epochs)
        return pattern if pattern.short and pattern.entries(buf, start, end) is not None else None

    def differs_only_in_topics(self, other: object) -> bool:
        if isinstance(other, FetchTemplate):
            same = (self.head, self.begin, self.epochs) == (other.head, other.begin, other.epochs)
            return same and other.entry_bytes > 0 and other.tail[self.tagged :] == self.tail
        return isinstance(other, SeveralTopicsFetchTemplate) and (
            (self.head, self.begin, self.tail, self.epochs) == (other.head, other.begin, other.tail, other.epochs)
        )

    def joined(self, *others: Collection[bytes]) -> SeveralTopicsFetchTemplate:
        """The template extended by these topics, as far as they fit, in order."""
        names = self.names_that_fit(others)
        return SeveralTopicsFetchTemplate(
            self.head, self.begin, names, self.tail, self.entry_bytes, self.tagged, self.epochs
        )

    def same(self, other: object) -> bool:
        """True if it matches each request that the other one matches."""
        if not self.differs_only_in_topics(other):
            return False
        if isinstance(other, FetchTemplate):
            return other.name in self.names
        return isinstance(other, SeveralTopicsFetchTemplate) and self.names >= other.names

    def entries(self, buf: bytearray, at: int, end: int) -> Named | None:
        """Topics of the complete request at `at`; None: no match."""
        epoch_at = at + AFTER_CORRELATION
        tail_at = end - len(self.tail)
        if not (
            buf.startswith(self.begin, epoch_at)
            and buf.startswith(self.head, at + 4)
            and buf.startswith(self.tail, tail_at, end)
        ):
            return None
        epoch_at += len(self.begin)
        p, least, highest = epoch_at + 4, *self.epochs
        if tail_at - p < 4 or not least <= _INT(buf, epoch_at)[0] <= highest:
            return None
        return (self._tagged if self.tagged else self._classic)(buf, p, tail_at)

    def _tagged(self, buf: bytearray, p: int, tail_at: int) -> Named | None:
        names, entry_bytes, left = self.names, self.entry_bytes, buf[p] - 1
        found: Named = []
        if not 0 < left <= MAX_COUNT:
            return None
        p += 1
        while left > 0 and tail_at - p > entry_bytes:
            partitions_at = p + buf[p]
            if not p + 1 < partitions_at < min(p + MAX_COUNT + 2, tail_at):
                return None
            name, count, at = bytes(buf[p + 1 : partitions_at]), buf[partitions_at] - 1, partitions_at + 1
            p = at + count * entry_bytes
            if not (0 < count <= MAX_COUNT and p < tail_at and name in names) or buf[p]:
                return None
            if any(buf[at + entry_bytes - 1 : p : entry_bytes]):
                return None
            found.append((name, TopicEntries(at, count)))
            p, left = p + 1, left - 1
        return found if not left and p == tail_at else None

    def _classic(self, buf: bytearray, p: int, tail_at: int) -> Named | None:
        names, entry_bytes, left = self.names, self.entry_bytes, _INT(buf, p)[0]
        found: Named = []
        room = DEFAULT_LIMITS.max_partitions
        if not 0 < left <= MAX_COUNT:
            return None
        p += 4
        while left > 0 and tail_at - p > entry_bytes:
            partitions_at = p + 2 + _SHORT(buf, p)[0]
            if not p + 2 < partitions_at <= tail_at - 4:
                return None
            name, (count,), at = bytes(buf[p + 2 : partitions_at]), _INT(buf, partitions_at), partitions_at + 4
            p = at + count * entry_bytes
            if not (0 < count <= room and p <= tail_at and name in names):
                return None
            found.append((name, TopicEntries(at, count)))
            left, room = left - 1, room - count
        return found if not left and p == tail_at else None
