"""Seals: the content of each ended operation, hashed together with the seal before it.

One removed or changed operation breaks the hashes of all later seals. A hash of the newest seal that is kept elsewhere
(a `fingerprint`) shows later that nothing before it was written anew either.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import Field

from ha_core.model.document import Document, Part

NONE_BEFORE = "0" * 64
"""In place of the hash of the seal before the first one."""


def canonical(value: Any) -> bytes:
    """JSON that depends on the value alone: sorted keys, no spaces, ASCII."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def digest_of(operation: Mapping[str, Any], history: Sequence[Mapping[str, Any]]) -> str:
    """SHA-256 of an operation's stored document and of its history, as JSON that no version has interpreted."""
    return hashlib.sha256(canonical({"operation": operation, "history": list(history)})).hexdigest()


class Seal(Document):
    """`/seals/{number}`: written with the release of the operation's locks.

    Its hash covers every field. A field that a later version adds has to be optional, without a value by default.
    """

    FOLDER = "/seals"
    KEY = "key"

    number: int = Field(ge=1)
    """Place in the order in which operations ended: 1, 2, 3 …"""
    operation: str
    at: str
    """UTC, ISO 8601, by the clock of the process that sealed it."""
    entries: int
    """Entries of its history then."""
    digest: str
    before: str
    """Hash of the seal before."""

    @property
    def key(self) -> str:
        return seal_key(self.number)

    @property
    def hash(self) -> str:
        document = self.model_dump(mode="json", exclude_none=True, by_alias=True)
        return hashlib.sha256(canonical(document)).hexdigest()

    @property
    def fingerprint(self) -> SealFingerprint:
        return SealFingerprint(self.number, self.hash)


def seal_key(number: int) -> str:
    return f"{number:012d}"


class SealFingerprint(NamedTuple):
    """A seal by its number and hash; number 0: before the first."""

    number: int = 0
    hash: str = NONE_BEFORE

    def __str__(self) -> str:
        return f"{self.number}:{self.hash}"

    @classmethod
    def read(cls, text: str) -> SealFingerprint:
        """:raises ValueError: it is no `NUMBER:HASH`."""
        number, _, digest = text.partition(":")
        if not number.isdecimal() or len(digest) != len(NONE_BEFORE) or set(digest) - set("0123456789abcdef"):
            raise ValueError(f"{text!r} is no fingerprint: write NUMBER:HASH, as `switchyard history verify` prints it")
        return cls(int(number), digest)


class SealHead(Part):
    """`/seals`: the newest seal, and the newest of those that were removed by `history trim`."""

    number: int = 0
    hash: str = NONE_BEFORE
    trimmed: int = 0
    trimmed_hash: str = NONE_BEFORE

    @property
    def newest(self) -> SealFingerprint:
        return SealFingerprint(self.number, self.hash)

    @property
    def anchor(self) -> SealFingerprint:
        """The seal before the oldest that is kept."""
        return SealFingerprint(self.trimmed, self.trimmed_hash)


class SealedOperation(NamedTuple):
    """An ended operation as stored: JSON that no version has interpreted."""

    id: str
    operation: Mapping[str, Any] | None
    """None: it is gone, or no JSON."""
    history: Sequence[Mapping[str, Any]]
    seal: Seal | None


class ExportedData(Part):
    operation: dict[str, Any] | None
    history: list[dict[str, Any]]
    seal: Seal | None = None


class ExportedEvent(Part):
    """The part of an exported event (`plan/audit/events`) that is read again."""

    id: str
    source: str
    data: ExportedData


class ChangeSeal(Part):
    """The seal of an exported change: the hash before, its own, and the values that they cover."""

    before: str | None = None
    hash: str
    value: dict[str, Any] | None = None
    deleted: dict[str, Any] | None = None


class ChangedEntry(Part):
    change: dict[str, Any]
    seal: ChangeSeal | None = None


class ExportedChange(Part):
    """The part of an exported change of the platform that is read again."""

    source: str
    data: ChangedEntry
