"""Findings of the last sync of one cluster's mirrors to another: differences other than records."""

from __future__ import annotations

from typing import Literal, Self

from ha_core.model.document import FEW_BYTES, Document, Part

MAX_FINDINGS = 500
"""Per document."""


class SyncFinding(Part):
    """A difference between target and source."""

    what: Literal["partitions", "settings", "rights", "offsets"]
    about: str
    """`topic orders`, `group billing`, `cluster west`."""
    reason: str
    stop: bool = False
    """An operator has to act; else the difference is intended or heals by itself."""


class MirrorSync(Document):
    """`/mirror_syncs/{source}>{target}:{part}`: findings for all mirrors of one cluster in another. No revision: the
    last sync overwrites it."""

    FOLDER = "/mirror_syncs"
    KEY = "key"
    PLAIN_BYTES = FEW_BYTES

    key: str
    source: str
    target: str
    part: Literal["topics", "groups"]
    at: str
    """UTC, ISO 8601: start of the sync. Unchanged findings are written again only after some seconds."""
    looked_at: int = 0
    """Number of topics, or groups, compared."""
    findings: tuple[SyncFinding, ...] = ()
    """Bounded: those that an operator has to act on come first."""
    left_out: int = 0
    """Number of findings left out."""

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
        shown = sorted(findings, key=lambda finding: (not finding.stop, finding.about, finding.what))[:MAX_FINDINGS]
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
