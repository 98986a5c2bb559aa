"""Compares two contents by a few bytes, in any order of rows.

The **digest** covers all served rows, for comparing them with the source: some microseconds a row, in pieces. The
**fingerprint** covers the versions that a content is made of, for comparing nodes at each commit: a sum, updated with
each change. That suffices, since a version is identified by its time and never changed.
"""

import json
from collections.abc import Iterable
from hashlib import blake2b
from operator import mul

from ha_core.datacache.core.errors import BrokenSourceError
from ha_core.datacache.core.packed import plain
from ha_core.datacache.core.source import Row

_BYTES = 16
_DIGESTS = 1 << (8 * _BYTES)
_PRIME = (1 << 61) - 1
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


class Digest:
    """Digest of rows that are added one by one: the sum of their hashes."""

    def __init__(self) -> None:
        self._sum = 0

    def add(self, rows: Iterable[Row]) -> None:
        """:raises BrokenSourceError: a value is not JSON."""
        total = self._sum
        for row in rows:
            try:
                text = _encode([row.key, row.changed_us, plain(row.value)])
            except (TypeError, ValueError) as error:
                raise BrokenSourceError(f"a value for {row.key!r} that is not JSON ({error})") from error
            total += int.from_bytes(blake2b(text.encode(), digest_size=_BYTES).digest(), "big")
        self._sum = total % _DIGESTS

    def __str__(self) -> str:
        return f"{self._sum:0{2 * _BYTES}x}"


def of_rows(rows: Iterable[Row]) -> str:
    """Digest of a content: of the newest version of each key that is not deleted."""
    digest = Digest()
    digest.add(rows)
    return str(digest)


def fingerprint(version_us: Iterable[int]) -> int:
    """Fingerprint of versions, by their times. For two disjoint sets it is the sum, modulo the prime."""
    times = tuple(version_us)
    total: int = sum(map(mul, times, times))
    return total % _PRIME


def replaced(total: int, gone_us: Iterable[int], come_us: Iterable[int]) -> int:
    """The fingerprint `total` of a content after some versions have left and others have come."""
    return (total - fingerprint(gone_us) + fingerprint(come_us)) % _PRIME
