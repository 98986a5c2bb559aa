"""Lag of a topic's copy, from all known facts. Unknown never counts as zero."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from ha_core.model import Mirror
from ha_core.plan.facts.clusters import CopyLag
from ha_core.plan.facts.verdict import amount, duration, listed
from ha_core.plan.preflight.case import PreflightCase

UNREPORTED = "no copier reports it"


@dataclass(frozen=True)
class CopyLagBound:
    """
    :ivar reported: partition → its lag, if a copier reported one.
    :ivar unknown: partition → why its lag is unknown.
    :ivar seen: partition → offsets recorded of its dead source that the copy lacked, not from the copier's report.
    """

    reported: Mapping[int, CopyLag]
    unknown: Mapping[int, str]
    seen: Mapping[int, int]

    @cached_property
    def records(self) -> int:
        """Lag over the partitions where it is known."""
        return sum(max(lag.records or 0, self.seen.get(partition, 0)) for partition, lag in self.reported.items())

    @cached_property
    def ms(self) -> int | None:
        """Age of the oldest of these records; None: not known for a partition that lacks some."""
        ages = [0 if lag.records == 0 else lag.ms for lag in self.reported.values()]
        known = [age for age in ages if age is not None]
        return max(known, default=0) if len(known) == len(ages) else None

    @cached_property
    def age_s(self) -> float:
        """Age of the oldest source end in the reports."""
        return max((lag.age_s for lag in self.reported.values()), default=0.0)

    @property
    def lacked(self) -> str:
        """Known lag of the copy, and its age, in words."""
        oldest = "" if not self.ms else f", the oldest of {self.ms / 1000:.1f} s,"
        lag = f"{amount(self.records, 'record')}{oldest}" if self.records else "nothing"
        return f"{lag} as of {duration(self.age_s)} ago"

    @property
    def unknown_words(self) -> str:
        """`unknown for partition 1 (stopped: the source was truncated)`"""
        which = listed(f"partition {partition} ({why})" for partition, why in self.unknown.items())
        return f"unknown for {which}"


def lag_bound(case: PreflightCase, mirror: Mirror) -> CopyLagBound:
    reported = {partition: lag for (key, partition), lag in sorted(case.lags.items()) if key == mirror.key}
    lags = {partition: lag for partition, lag in reported.items() if lag.records is not None}
    unknown = dict[int, str]()
    for partition in sorted(_partitions(case, mirror) | reported.keys()):
        if partition not in lags:
            lag = reported.get(partition)
            unknown[partition] = UNREPORTED if lag is None else f"{lag.state}: {lag.reason or 'no reason'}"
    return CopyLagBound(lags, unknown, dict(_seen_since(case, mirror, lags)))


def _partitions(case: PreflightCase, mirror: Mirror) -> set[int]:
    """All partitions of a mirrored topic: its map has those at the link, and its copy grows with the source."""
    document, there = case.view.mapped(mirror.topic), case.facts.topic(mirror.target, mirror.topic)
    found = set() if document is None else set(document.partitions)
    return found | set(range(there.partitions if there is not None and there.exists else 0))


def _seen_since(case: PreflightCase, mirror: Mirror, lags: Mapping[int, CopyLag]) -> Mapping[int, int]:
    """Lag by the source's recorded log ends: a copier that lost its source does not know of later records."""
    here = case.here(mirror.topic)
    if case.request.mode != "forced" or mirror.source != case.request.origin or here is None:
        return {}
    ends = here.ends
    return {p: max(ends[p] - lag.reached, 0) for p, lag in lags.items() if p in ends and lag.reached is not None}


def by_notes(case: PreflightCase, name: str) -> tuple[int | None, str]:
    """Upper bound of the lag of a copy without reports, from the origin's last known log ends and the copiers' notes;
    and that in words. (None, ""): an end or a note is missing for a partition."""
    request, here = case.request, case.here(name)
    reached = {partition: at for (topic, partition), at in case.noted.items() if topic == name}
    if here is None or len(here.ends) < max(here.partitions, 1) or here.ends.keys() - reached.keys():
        return None, ""
    records = sum(max(0, end - reached[partition]) for partition, end in here.ends.items())
    seen = "answers now" if here.age_s is None else f"was last seen {duration(here.age_s)} ago"
    lacks = "lacks" if here.age_s is None else "lacked"
    what = f"at most {amount(records, 'record')} that it had" if records else "none of its records"
    return records, f". {request.origin} {seen}, and by its copiers' notes the copy {lacks} {what}"
