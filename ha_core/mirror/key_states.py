"""What readers of two compacted logs see in the end: whether the last state of each key is the same. No I/O.

Compaction takes away what it likes on either side, an earlier record while a later one of its key is there, and a
tombstone when it is old. It never leaves an earlier record where it has taken a later one. So two logs agree on a key
if both have the same last record of it, or a later one came meanwhile, or the last of either is a tombstone or nothing:
that is the key as readers see it, deleted. They differ where a key lives in one of them alone, as behind a tombstone
that one log has lost, and the other had.

A walk through both logs finds the keys whose last record has no counterpart. So many of them are held at a time; the
others are left to further walks, each by its part of all keys. So memory is bounded whatever the logs have, and of many
such keys the price is that the partition is read again for each part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from ha_core.mirror.split import fields

MAX_FOLLOWED = 100_000
"""Keys that are followed in one walk: some 50 MB."""


class Compacted(NamedTuple):
    """Which of the two topics is a compacted one."""

    source: bool = False
    copy: bool = False


NEITHER = Compacted()


class KeyShare(NamedTuple):
    """Of all keys those whose digest, as a number, has this remainder."""

    remainder: int = 0
    of: int = 1

    def has(self, digest: bytes) -> bool:
        return int.from_bytes(digest) % self.of == self.remainder

    def halves(self) -> tuple[KeyShare, KeyShare]:
        return KeyShare(self.remainder, 2 * self.of), KeyShare(self.remainder + self.of, 2 * self.of)


class Unmatched:
    """The keys whose last record, of those that a walk has met, is in one of the logs only.

    :ivar digests: of these keys.
    :ivar left: the parts of all keys that this walk had no room for.
    """

    def __init__(self, part: KeyShare, most: int = MAX_FOLLOWED) -> None:
        self.digests: set[bytes] = set()
        self.left: list[KeyShare] = []
        self._part, self._most = part, most

    def add(self, rest: bytes) -> None:
        """:param rest: of the record."""
        key, _, _ = fields(rest)
        # Compaction takes records without a key, from when the topic was none that is compacted.
        if key is None or not self._part.has(digest := _digest(key)):
            return
        self.digests.add(digest)
        while len(self.digests) > self._most:
            self._part, other = self._part.halves()
            self.left.append(other)
            self.digests = {one for one in self.digests if self._part.has(one)}

    def matched(self, rest: bytes) -> None:
        if self.digests:
            self.digests.discard(_digest(fields(rest).key or b""))


class KeyRecord(NamedTuple):
    """A record of a key."""

    offset: int
    """In the source; what is not there, or lies behind what is compared, has one that orders it among the others."""
    live: bool
    """False: a tombstone."""
    at: int
    """Where it lies in its own log."""


@dataclass(slots=True)
class KeyState:
    """The last records of a key: of what is compared, and of what came later."""

    source: KeyRecord | None = None
    source_later: KeyRecord | None = None
    deleted_later: bool = False
    """There is a tombstone in the source among what came later, and it may have been in the copy."""
    copy: KeyRecord | None = None
    copy_later: KeyRecord | None = None

    def differ(self) -> tuple[KeyRecord, str] | None:
        """What does, and by which record."""
        newest = max((one.offset for one in (self.source, self.copy) if one), default=-1)
        if self.copy_later and self.copy_later.offset > newest:
            return None  # whatever it had before, this is what readers see now; it is compared with the next range
        if self.source and (not self.copy or self.copy.offset < self.source.offset):
            return self._source_is_ahead(self.source)
        if self.copy and (not self.source or self.source.offset < self.copy.offset):
            return self._copy_is_ahead(self.copy)
        return None

    def _source_is_ahead(self, last: KeyRecord) -> tuple[KeyRecord, str] | None:
        alive = self.copy if self.copy and self.copy.live else None
        if last.live:
            deleted = self.deleted_later and alive is None  # in the copy the tombstone has come and gone
            return None if deleted else (last, "the copy has neither it nor a later one of its key")
        if alive is None:
            return None
        what = f"the copy has lost this tombstone, and has the key's record at {alive.at}: a deleted key lives on there"
        return last, what

    def _copy_is_ahead(self, last: KeyRecord) -> tuple[KeyRecord, str] | None:
        if self.source_later and self.source_later.offset > last.offset:
            return None
        if last.live:
            return last, "the copy has a record of this key, and the source neither it nor a later one: it was deleted"
        if self.source and self.source.live:
            return last, f"the source has lost this tombstone, and has the key's record at {self.source.at} still"
        return None


class KeyStates:
    """Of some keys what both logs have by now."""

    def __init__(self, digests: Iterable[bytes]) -> None:
        self._of: dict[bytes, KeyState] = {digest: KeyState() for digest in digests}

    def source(self, rest: bytes, offset: int, later: bool, arrived: bool) -> None:
        """A record of the source. They come in the order of their offsets.

        :param later: it lies behind what is compared.
        :param arrived: the copy may have got it, if it is later.
        """
        if state := self._state(rest):
            seen = KeyRecord(offset, _live(rest), offset)
            if later:
                state.source_later = seen
                state.deleted_later |= arrived and not seen.live
            else:
                state.source = seen

    def copy(self, rest: bytes, at: int, offset: int, later: bool) -> None:
        """A record of the copy, at `at` there.

        :param offset: see `KeyRecord.offset`.
        """
        if state := self._state(rest):
            seen = KeyRecord(offset, _live(rest), at)
            if later:
                state.copy_later = seen
            else:
                state.copy = seen

    def differing(self) -> Mapping[bytes, tuple[KeyRecord, str]]:
        """digest → by which record the logs differ, and what does."""
        found = ((digest, state.differ()) for digest, state in self._of.items())
        return {digest: what for digest, what in found if what is not None}

    def _state(self, rest: bytes) -> KeyState | None:
        key = fields(rest).key
        return None if key is None else self._of.get(_digest(key))


def _live(rest: bytes) -> bool:
    return fields(rest).value is not None


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=16).digest()
