"""Growth of logs between their last recording and a look at them.

Both take time, and facts are recorded again meanwhile: what was recorded after the look began says nothing about it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from ha_core.model import KnownTopic
from ha_core.operations.engine.environment import Environment
from ha_core.plan.facts.clusters import Facts

SHORTEST_LOOK_S = 1.0
"""Growth within a shorter time means nothing."""
MAX_DOUBT = 0.25
"""Share of the time between the two readings by which it may be wrong."""


@dataclass(frozen=True, slots=True)
class RecordedEnds:
    """Recorded facts as they were when the look began, so read before it."""

    cluster: str
    known: Mapping[str, KnownTopic]
    ages_s: Mapping[str, float]
    """Topic → age of its recording when the look began."""
    begun: float
    """On the monotonic clock."""
    look_s: float = 0.0
    """How long the look has taken."""

    @classmethod
    def read(cls, environment: Environment, cluster: str, topics: Collection[str]) -> RecordedEnds:
        """To be called before the look."""
        known = environment.store.known(KnownTopic, cluster, topics) if topics else {}
        ages_s = {name: environment.age_s(seen.at) for name, seen in known.items()}
        return cls(cluster, known, ages_s, environment.monotonic())

    def looked(self, environment: Environment) -> RecordedEnds:
        """To be called after the look."""
        return replace(self, look_s=environment.monotonic() - self.begun)

    def rate(self, topics: Collection[str], facts: Facts) -> tuple[float | None, str]:
        """Records per second of all topics together, and the source of the number; None: not known."""
        grown, oldest_s, doubtful = 0.0, 0.0, False
        for name, seen in self.known.items():
            now = facts.topic(self.cluster, name)
            if now is None or now.age_s is not None or name not in topics:
                continue
            # Each was read at some moment of its look; halfway is wrong by half of it at most.
            seconds = self.ages_s[name] + self.look_s / 2 - seen.look_s / 2
            if seconds < SHORTEST_LOOK_S or (self.look_s + seen.look_s) / 2 > MAX_DOUBT * seconds:
                doubtful = True
                continue
            oldest_s = max(oldest_s, seconds)
            grown += sum(max(0, now.ends[p] - end) for p, end in seen.ends.items() if p in now.ends) / seconds
        if doubtful:
            return None, "their logs were recorded so shortly before that their growth says nothing"
        if not oldest_s:
            away = "their logs cannot be asked now"
            return None, away if self.known else "they were never recorded; `switchyard facts record` does so"
        return round(grown, 1), f"growth of the logs since they were recorded, {oldest_s:.0f} s ago"
