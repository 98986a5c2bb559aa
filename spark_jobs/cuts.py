"""Suggests cuts without a fence: above the offset that a partition will have reached when everything is prepared. Pure.

    cut = end + ceil(rate · T) + headroom          T = preparation + age of the end, in seconds

`rate` is the mean over the recorded history, `headroom` the reserve for the accepted chance of being passed too early.
Reads of the log end bound *windows* (`spark_jobs.offsets`); each has a rate. An upper rate u gives the headroom,
ceil(u·T) - ceil(rate·T). docs/design/spark-jobs.md says why each of these holds, and its limits.

- `rank`: the k-th smallest of n window rates, k = ceil((n + 1) · (1 - chance)). It needs n ≥ 1/chance - 1 windows: 99
  for 1 %, which is a day of reads every 15 minutes.
- `deviation`: fewer windows, but at least 3: mean + z·sd, z = sqrt(1/chance - 1), never below the highest rate seen.
- `few`: one or two windows: twice the highest rate seen.
- `default`: no window: the configured rate, which `migrate --rates` does not get; it reads the ends itself instead.
"""

import math
from typing import Literal, NamedTuple

How = Literal["rank", "deviation", "few", "default", "none"]
MIN_WINDOWS = 3
FEW_WINDOWS_SAFETY = 2.0
MAX_OFFSET = 2**63 - 1
_ROUNDING = 1e-9


class Demand(NamedTuple):
    """Requirements on a cut."""

    preparation_s: float = 300.0
    """From the reading of the end until every gateway serves the cut."""
    chance: float = 0.01
    """Chance of being passed too early, between 0 and 1."""
    default_rate: float = 1_000.0
    """Records/s without history."""
    least_headroom: int = 0
    """Records."""


class Windows(NamedTuple):
    """Statistics of the recorded ends of one partition. Rates are records/s."""

    windows: int = 0
    mean: float = 0.0
    """Over the whole span."""
    span_s: float = 0.0
    moved_at_ms: int | None = None
    """The first read with the newest end: nothing was appended since. None: the end never moved."""
    highest: float = 0.0
    average: float = 0.0
    """Mean of the windows' rates, not weighted by their length."""
    deviation: float = 0.0
    """Standard deviation of the windows' rates; 0: equal rates, or a single window."""
    ranked: float | None = None
    """The rate of the wanted rank; None: too few windows."""


class SuggestedCut(NamedTuple):
    """`cut` is None where `how` is `none`."""

    cut: int | None
    rate: float | None
    """Records/s, the mean."""
    upper_rate: float | None
    headroom: int | None
    how: How


NO_CUT = SuggestedCut(None, None, None, None, "none")


def rank(count: str, chance: float) -> str:
    """SQL of the k of the module's text, for `count` windows."""
    return f"greatest(1, ceil(({count} + 1) * {1 - chance!r}D - {_ROUNDING!r}D))"


def upper_rate(windows: Windows, demand: Demand) -> tuple[float, How]:
    """The rate that a window exceeds at most with the accepted chance, and its method; see the module."""
    if windows.ranked is not None:
        return windows.ranked, "rank"
    if not windows.windows:
        return demand.default_rate, "default"
    if windows.windows < MIN_WINDOWS:
        return windows.highest * FEW_WINDOWS_SAFETY, "few"
    return max(windows.highest, windows.average + math.sqrt(1 / demand.chance - 1) * windows.deviation), "deviation"


def suggest(end: int | None, age_s: float, windows: Windows, demand: Demand) -> SuggestedCut:
    """The cut of a partition with log end `end`, `age_s` ago; never below it. Without end, or without room: no cut."""
    if end is None or end < 0 or not (age_s >= 0 and math.isfinite(age_s)):
        return NO_CUT
    upper, how = upper_rate(windows, demand)
    rate = upper if how == "default" else windows.mean
    seconds = demand.preparation_s + age_s
    expected = math.ceil(rate * seconds)
    headroom = max(demand.least_headroom, math.ceil(upper * seconds) - expected)
    cut = end + expected + headroom
    return SuggestedCut(cut, rate, upper, headroom, how) if cut <= MAX_OFFSET else NO_CUT
