"""What mirrors of one cluster in another have not got besides records, as it was found at the last look."""

from __future__ import annotations

from typing import Literal, Self

from ha_core.model.document import FEW_BYTES, Document, Part

MAX_FINDINGS = 500
"""In a document."""


class SyncFinding(Part):
    """Something that is not in the target as it is in the source."""

    what: Literal["partitions", "settings", "rights", "offsets"]
    about: str
    """`topic orders`, `group billing`, `cluster west`."""
    reason: str
    stop: bool = False
    """Somebody has to do something; else it is as it should be, or cures itself."""


class MirrorSync(Document):
    """`/mirror_syncs/{source}>{target}:{part}`: of all mirrors of a cluster in another. No revision; who has looked
    last writes it."""

    FOLDER = "/mirror_syncs"
    KEY = "key"
    PLAIN_BYTES = FEW_BYTES

    key: str
    source: str
    target: str
    part: Literal["topics", "groups"]
    at: str
    """UTC, ISO 8601: when the look began. What stays as it is is told again some seconds later only."""
    looked_at: int = 0
    """So many topics, or groups."""
    findings: tuple[SyncFinding, ...] = ()
    """Bounded: those first for which somebody has to do something."""
    left_out: int = 0
    """How many more there are."""

    @classmethod
    def of(
        cls,
        source: str,
        target: str,
        part: Literal["topics", "groups"],
        at: str,
        looked_at: int,
        findings: tuple[SyncFinding, ...],
    ) -> Self:
        shown = sorted(findings, key=lambda one: (not one.stop, one.about, one.what))[:MAX_FINDINGS]
        return cls(
            key=f"{source}>{target}:{part}",
            source=source,
            target=target,
            part=part,
            at=at,
            looked_at=looked_at,
            findings=tuple(shown),
            left_out=len(findings) - len(shown),
        )
