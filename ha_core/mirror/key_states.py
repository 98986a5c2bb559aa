"""Compares the last state of each key in two compacted logs, as readers see it. No I/O.

Compaction on either side may remove an earlier record if a later one of its key exists, and a tombstone when it is old.
It never keeps an earlier record after removing a later one. So two logs agree on a key if both have the same last
record of it, or a later one arrived meanwhile, or the last one of either is a tombstone or missing: readers see the key
as deleted. They differ if a key is live in one of them only, for example because one log has lost the tombstone that
the other one had.

Reading both logs finds the keys whose last record has no counterpart. A bounded number of them is followed at a time;
the others are left to further passes, each for its share of all keys. So memory is bounded whatever the logs contain,
and with many such keys the partition is read once more for each share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from ha_core.mirror.split import fields

MAX_FOLLOWED = 100_000
"""Most keys followed in one pass: about 50 MB."""


class Compacted(NamedTuple):
    """Tells which of the two topics is compacted."""

    source: bool = False
    copy: bool = False


NEITHER = Compacted()


class KeyShare(NamedTuple):
    """The share of all keys whose digest, as a number, has this remainder."""

    remainder: int = 0
    of: int = 1

    def has(self, digest: bytes) -> bool:
        return int.from_bytes(digest) % self.of == self.remainder

    def halves(self) -> tuple[KeyShare, KeyShare]:
        return KeyShare(self.remainder, 2 * self.of), KeyShare(self.remainder + self.of, 2 * self.of)


class Unmatched:
    """The keys whose last record in a pass is in one of the logs only.

    :ivar digests: digests of these keys.
    :ivar left: shares of all keys that did not fit into this pass.
    """

    def __init__(self, part: KeyShare, max_keys: int = MAX_FOLLOWED) -> None:
        self.digests: set[bytes] = set()
        self.left: list[KeyShare] = []
        self._part, self._most = part, max_keys

    def add(self, rest: bytes) -> None:
        """:param rest: key, value and headers of the record."""
        key, _, _ = fields(rest)
        # Compaction removes records without a key, which date from before the topic was compacted.
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
    """Source offset; for a record that the source lacks or above the range, one that orders it among the others."""
    has_value: bool
    """False: a tombstone."""
    at: int
    """Offset in its own log."""


@dataclass(slots=True)
class KeyState:
    """The last records of a key: within the range, and later ones."""

    source: KeyRecord | None = None
    source_later: KeyRecord | None = None
    deleted_later: bool = False
    """A later tombstone is in the source, and may have been in the copy."""
    copy: KeyRecord | None = None
    copy_later: KeyRecord | None = None

    def differ(self) -> tuple[KeyRecord, str] | None:
        """The record by which the logs differ, and the difference."""
        newest = max((record.offset for record in (self.source, self.copy) if record), default=-1)
        if self.copy_later and self.copy_later.offset > newest:
            return None  # readers now see this record; it is compared with the next range
        if self.source and (not self.copy or self.copy.offset < self.source.offset):
            return self._source_is_ahead(self.source)
        if self.copy and (not self.source or self.source.offset < self.copy.offset):
            return self._copy_is_ahead(self.copy)
        return None

    def _source_is_ahead(self, last: KeyRecord) -> tuple[KeyRecord, str] | None:
        alive = self.copy if self.copy and self.copy.has_value else None
        if last.has_value:
            deleted = self.deleted_later and alive is None  # the copy has had the tombstone and removed it
            return None if deleted else (last, "the copy has neither it nor a later one of its key")
        if alive is None:
            return None
        what = f"the copy has lost this tombstone, and has the key's record at {alive.at}: a deleted key lives on there"
        return last, what

    def _copy_is_ahead(self, last: KeyRecord) -> tuple[KeyRecord, str] | None:
        if self.source_later and self.source_later.offset > last.offset:
            return None
        if last.has_value:
            return last, "the copy has a record of this key, and the source neither it nor a later one: it was deleted"
        if self.source and self.source.has_value:
            return last, f"the source has lost this tombstone, and has the key's record at {self.source.at} still"
        return None


class KeyStates:
    """Current states of some keys in both logs."""

    def __init__(self, digests: Iterable[bytes]) -> None:
        self._of: dict[bytes, KeyState] = {digest: KeyState() for digest in digests}

    def source(self, rest: bytes, offset: int, later: bool, arrived: bool) -> None:
        """Adds a record of the source, in the order of offsets.

        :param later: the record is above the range.
        :param arrived: a later record that the copy may have.
        """
        if state := self._state(rest):
            seen = KeyRecord(offset, _live(rest), offset)
            if later:
                state.source_later = seen
                state.deleted_later |= arrived and not seen.has_value
            else:
                state.source = seen

    def copy(self, rest: bytes, at: int, offset: int, later: bool) -> None:
        """Adds a record of the copy, at offset `at` there.

        :param offset: see `KeyRecord.offset`.
        """
        if state := self._state(rest):
            seen = KeyRecord(offset, _live(rest), at)
            if later:
                state.copy_later = seen
            else:
                state.copy = seen

    def differing(self) -> Mapping[bytes, tuple[KeyRecord, str]]:
        """digest → the record by which the logs differ, and the difference."""
        found = ((digest, state.differ()) for digest, state in self._of.items())
        return {digest: what for digest, what in found if what is not None}

    def _state(self, rest: bytes) -> KeyState | None:
        key = fields(rest).key
        return None if key is None else self._of.get(_digest(key))


def _live(rest: bytes) -> bool:
    return fields(rest).value is not None


def _digest(key: bytes) -> bytes:
    return blake2b(key, digest_size=16).digest()
