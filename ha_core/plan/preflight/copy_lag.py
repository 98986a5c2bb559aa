"""How far the copy of a topic is behind its source, by all that is known of it. Unknown is never counted as nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ha_core.model import Mirror
from ha_core.plan.facts.clusters import CopyLag
from ha_core.plan.facts.verdict import amount, duration, listed
from ha_core.plan.preflight.case import PreflightCase

NOBODY = "nobody reports it"


@dataclass(frozen=True)
class CopyLagBound:
    """
    :ivar told: partition → how far its copy is, of those that are reported with a lag.
    :ivar unknown: partition → why nobody knows how far its copy is.
    :ivar seen: partition → offsets that its dead source was seen to have and the copy had not, from another look than
        the copiers'.
    """

    told: Mapping[int, CopyLag]
    unknown: Mapping[int, str]
    seen: Mapping[int, int]

    @cached_property
    def records(self) -> int:
        """Of the partitions of which that is known."""
        return sum(max(lag.records or 0, self.seen.get(partition, 0)) for partition, lag in self.told.items())

    @cached_property
    def ms(self) -> int | None:
        """How old the oldest of these records is; None: not known of a partition that lacks some."""
        ages = [0 if lag.records == 0 else lag.ms for lag in self.told.values()]
        known = [age for age in ages if age is not None]
        return max(known, default=0) if len(known) == len(ages) else None

    @cached_property
    def age_s(self) -> float:
        """How long ago the sources said their ends, the longest."""
        return max((lag.age_s for lag in self.told.values()), default=0.0)

    @property
    def lacked(self) -> str:
        """What the copy lacked, and when; of the partitions of which that is known."""
        oldest = "" if not self.ms else f", the oldest of {self.ms / 1000:.1f} s,"
        said = f"{self.records:,} records{oldest}" if self.records else "nothing"
        return f"{said} as of {duration(self.age_s)} ago"

    @property
    def unknown_words(self) -> str:
        """`of partition 1 (stopped: the source was truncated) nobody knows it`"""
        which = listed(f"partition {partition} ({why})" for partition, why in self.unknown.items())
        return f"of {which} nobody knows it"


def behind(case: PreflightCase, mirror: Mirror) -> CopyLagBound:
    reported = {partition: lag for (key, partition), lag in sorted(case.lags.items()) if key == mirror.key}
    told = {partition: lag for partition, lag in reported.items() if lag.records is not None}
    unknown = dict[int, str]()
    for partition in sorted(_partitions(case, mirror) | reported.keys()):
        if partition not in told:
            lag = reported.get(partition)
            unknown[partition] = NOBODY if lag is None else f"{lag.state}: {lag.reason or 'no reason'}"
    return CopyLagBound(told, unknown, dict(_seen_since(case, mirror, told)))


def _partitions(case: PreflightCase, mirror: Mirror) -> set[int]:
    """A mirror pins its topic, with all partitions; the copy grows with its source."""
    document, there = case.view.mapped(mirror.topic), case.facts.topic(mirror.target, mirror.topic)
    found = set() if document is None else set(document.partitions)
    return found | set(range(there.partitions if there is not None and there.exists else 0))


def _seen_since(case: PreflightCase, mirror: Mirror, told: Mapping[int, CopyLag]) -> Mapping[int, int]:
    """A copier that could not reach the source any more does not know what that has acknowledged since."""
    here = case.here(mirror.topic)
    if case.request.mode != "forced" or mirror.source != case.request.origin or here is None:
        return {}
    ends = here.ends
    return {p: max(ends[p] - lag.reached, 0) for p, lag in told.items() if p in ends and lag.reached is not None}


def by_notes(case: PreflightCase, name: str) -> tuple[int | None, str]:
    """What the copy of a topic that nobody reports lacks at most, by where its origin ended when that was last seen and
    what copiers have noted; and that in words. None, and no words: one of both is not known of each partition."""
    request, here = case.request, case.here(name)
    reached = {partition: at for (topic, partition), at in case.noted.items() if topic == name}
    if here is None or len(here.ends) < max(here.partitions, 1) or here.ends.keys() - reached.keys():
        return None, ""
    records = sum(max(0, end - reached[partition]) for partition, end in here.ends.items())
    seen = "answers now" if here.age_s is None else f"was last seen {duration(here.age_s)} ago"
    lacks = "lacks" if here.age_s is None else "lacked"
    what = f"at most {amount(records, 'record')} of what it had" if records else "nothing of what it had"
    return records, f". {request.origin} {seen}, and by the notes of its copiers the copy {lacks} {what}"
