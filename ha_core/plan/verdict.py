"""One finding of a pre-flight."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Level = Literal["error", "warning", "info"]
Cause = Literal["asked", "busy", "away"]
"""Of an error: what was asked for has to change, another operation has to end, or a cluster has to come back."""
Code = Literal["", "nothing_to_move", "transactions_wait"]
"""What programs go by, where any does; empty: only people read it."""
_MAX_NAMED = 5


@dataclass(frozen=True, slots=True)
class Verdict:
    """`error` refuses the move. `about` is the thing, `text` what is the matter, `remedy` what to do."""

    level: Level
    about: str
    text: str
    remedy: str = ""
    cause: Cause = "asked"
    code: Code = ""


def by_level(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Errors first."""
    order = {"error": 0, "warning": 1, "info": 2}
    return sorted(verdicts, key=lambda verdict: order[verdict.level])


def listed(items: Iterable[str]) -> str:
    """The first few of `items`, and how many more there are."""
    names = list(items)
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(names[:_MAX_NAMED]) + more


def duration(seconds: float) -> str:
    """A span of time in the largest unit that it fills twice."""
    for unit, length_s in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length_s:
            return f"{seconds / length_s:,.0f} {unit}"
    return f"{seconds:.0f} s"
