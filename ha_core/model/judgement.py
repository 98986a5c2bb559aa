"""A judgement of a move before it began, as its history keeps it: findings and figures, bounded in size."""

from __future__ import annotations

from ha_core.model.document import Part


class Finding(Part):
    """A stored verdict (`plan/facts/verdict`)."""

    level: str
    code: str
    about: str
    text: str
    remedy: str = ""
    number: int | None = None
    unit: str = ""


class Judgement(Part):
    """Everything that was checked before a move, at one time."""

    at: str
    revision: int
    """Revision of the state that was judged."""
    counts: dict[str, int] = {}
    """Level → number of findings, also of those that are left out."""
    findings: tuple[Finding, ...] = ()
    """Errors first."""
    left_out: int = 0
    """Further findings, for which there was no room."""
    creates: dict[str, int] = {}
    """Topics that were missing in the target → partitions."""
    creates_left_out: int = 0
    lag_records: dict[str, int | None] = {}
    """Group → records below the ends of its topics, the largest first; None: its cluster did not answer."""
    lags_left_out: int = 0
    records_per_s: float | None = None
    """All moved topics together; None: not known."""
    rate_from: str = ""
    expected_fence: str = ""
