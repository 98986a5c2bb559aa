"""A judgement of a move in the form and size in which its history keeps it."""

from collections.abc import Collection, Mapping
from itertools import islice

from ha_core.model.judgement import Finding, Judgement
from ha_core.plan.facts.verdict import Verdict, by_level

MAX_FINDINGS = 50
"""With texts of `MAX_TEXT` a judgement stays below 50 kB; an entry of a history may have 1 MB."""
MAX_TEXT = 300
MAX_NAMES = 50
"""Topics that are created, and groups with their lag."""


def judgement(
    at: str,
    revision: int,
    verdicts: Collection[Verdict],
    *,
    creates: Mapping[str, int] | None = None,
    lag_records: Mapping[str, int | None] | None = None,
    records_per_s: float | None = None,
    rate_from: str = "",
    expected_fence: str = "",
) -> Judgement:
    """All findings by number, the worst of them in words; unknown lags first, then the longest."""
    counts: dict[str, int] = {}
    for verdict in verdicts:
        counts[verdict.level] = counts.get(verdict.level, 0) + 1
    creates, lags = creates or {}, lag_records or {}
    behind = sorted(lags.items(), key=lambda one: (one[1] is not None, -(one[1] or 0), one[0]))
    return Judgement(
        at=at,
        revision=revision,
        counts=counts,
        findings=tuple(map(_finding, by_level(verdicts)[:MAX_FINDINGS])),
        left_out=max(0, len(verdicts) - MAX_FINDINGS),
        creates=dict(islice(sorted(creates.items()), MAX_NAMES)),
        creates_left_out=max(0, len(creates) - MAX_NAMES),
        lag_records=dict(behind[:MAX_NAMES]),
        lags_left_out=max(0, len(lags) - MAX_NAMES),
        records_per_s=records_per_s,
        rate_from=_short(rate_from),
        expected_fence=_short(expected_fence),
    )


def _finding(verdict: Verdict) -> Finding:
    return Finding(
        level=verdict.level,
        code=verdict.code,
        about=_short(verdict.about),
        text=_short(verdict.text),
        remedy=_short(verdict.remedy),
        number=verdict.number,
        unit=verdict.unit,
    )


def _short(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 1]}…"
