"""Seals of the platform's changes: each change is hashed together with the seal of the change before it.

A change that is rewritten, removed or put in between breaks its own hash or that of the next one.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from typing import Any, NamedTuple

from ha_core.model.seal import NONE_BEFORE, SealFingerprint, canonical


def shown_time(changed_us: int) -> str:
    """ISO 8601, UTC, as people read it."""
    return datetime.fromtimestamp(changed_us / 1e6, UTC).isoformat(timespec="milliseconds")


class SealedChange(NamedTuple):
    """A change as stored, without hidden fields: JSON that no version has interpreted.

    :ivar value: of a deletion, None.
    :ivar deleted: the value that a deletion has ended.
    :ivar before: seal of the change before; None: that one has none.
    :ivar seal: None: an earlier version made it.
    """

    kind: str
    key: str
    version: int
    changed_us: int
    by: str
    reason: str
    value: dict[str, Any] | None
    deleted: dict[str, Any] | None = None
    before: str | None = None
    seal: str | None = None

    @property
    def name(self) -> str:
        return f"{self.kind}/{self.key}/{self.version}"

    @property
    def hash(self) -> str:
        """The seal that is due: over every other field."""
        fields = self._asdict() | {"before": self.before or NONE_BEFORE}
        del fields["seal"]
        return hashlib.sha256(canonical(fields)).hexdigest()

    @property
    def fingerprint(self) -> SealFingerprint:
        return SealFingerprint(self.changed_us, self.seal or NONE_BEFORE)
