"""Versions as caches read them: without a database, since gateways have none."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any, NamedTuple, Protocol

_DIGEST_BYTES = 16
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


class Row(NamedTuple):
    """One version of a key.

    :ivar value: plain JSON; None: the key was deleted.
    """

    key: str
    changed_us: int
    value: Mapping[str, Any] | None


class Changes(NamedTuple):
    """
    :ivar rows: versions later than what was asked for, oldest first.
    :ivar through_us: there is no other up to this time.
    :ivar exact_from_us: a version that was replaced at or before it may be missing. 0: every version is kept.
    :ivar deletions_from_us: a deletion that was made at or before it may be missing. 0: each is kept.
    """

    rows: tuple[Row, ...]
    through_us: int
    exact_from_us: int = 0
    deletions_from_us: int = 0


class Source(Protocol):
    """Where a cache reads one kind. Both raise a `RegistryError`, in bounded time, where they cannot answer."""

    def changes(self, after_us: int, limit: int) -> Changes:
        """The versions made after `after_us`, at most `limit`."""

    def digest(self, through_us: int) -> str | None:
        """Of the content at that time; None: that cannot be told."""


def digest_of(rows: Iterable[Row]) -> str:
    """Of a content, in whatever order: the sum of its rows' hashes, 32 hexadecimal digits."""
    total = 0
    for row in rows:
        text = _encode([row.key, row.changed_us, row.value])
        total += int.from_bytes(blake2b(text.encode(), digest_size=_DIGEST_BYTES).digest(), "big")
    return f"{total % (1 << 8 * _DIGEST_BYTES):0{2 * _DIGEST_BYTES}x}"
