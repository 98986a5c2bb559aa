"""How mirrors stand: what copiers report of each partition, and of which nobody reports anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from ha_core.model import Mirror, PartitionReport, View
from ha_core.operations.environment import Environment
from ha_core.plan.facts import CopyLag

State = Literal["copying", "waiting", "stopped", "held", "nobody", "unreported", "unreadable"]
"""`waiting`: it is taken over again in a moment. `stopped`: somebody has to look. `held`: an operation has it for
itself. `nobody`: no task reports it. `unreported`: one may, whose report is full and leaves out what is copied.
`unreadable`: its document cannot be read by this version, so nobody begins anything with it."""


@dataclass(frozen=True, slots=True)
class MirrorRow:
    """One partition; of a mirror that nobody reports, the topic as a whole."""

    topic: str
    partition: int | None
    source: str
    target: str
    state: State
    lag_records: int | None = None
    lag_ms: int | None = None
    bytes_s: int | None = None
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "topic": self.topic,
            "partition": self.partition,
            "from": self.source,
            "to": self.target,
            "state": self.state,
            "lag_records": self.lag_records,
            "lag_ms": self.lag_ms,
            "reason": self.reason,
        }


def mirror_rows(environment: Environment) -> list[MirrorRow]:
    """All partitions of all mirrors, by topic, target and partition. What reports leave out is told by the topic."""
    reports = list(environment.store.mirror_reports().values())
    found: dict[str, dict[int, PartitionReport]] = {}
    for report in reports:
        for one in report.partitions:
            # Of a partition that has just moved to another task two may tell: the one that copies it knows more.
            told = found.setdefault(one.mirror, {}).get(one.partition)
            if told is None or one.state == "copying":
                found[one.mirror][one.partition] = one
    left_out = any(report.left_out for report in reports)
    rows = list[MirrorRow]()
    mirrors = environment.store.find_mirrors()
    for mirror in mirrors.readable:
        told_of = {} if mirror.held is not None else found.get(mirror.key, {})
        partitions = [_row(mirror, one) for _, one in sorted(told_of.items())]
        rows += partitions or [_row(mirror, None, left_out)]
    rows += [_unreadable(key, why) for key, why in mirrors.unreadable.items()]
    return sorted(rows, key=lambda row: (row.topic, row.target, -1 if row.partition is None else row.partition))


def reported_lags(environment: Environment, view: View) -> dict[tuple[str, int], CopyLag]:
    """How far mirrors are by what copiers have reported: by the mirror's key and the partition."""
    if not view.mirrors:
        return {}
    found: dict[tuple[str, int], CopyLag] = {}
    for report in environment.store.mirror_reports().values():
        age_s = environment.age_s(report.at) if report.at else 0.0
        for one in report.partitions:
            if one.mirror in view.mirrors and one.source_end >= 0 and one.state == "copying":
                found[one.mirror, one.partition] = CopyLag(True, one.lag_records, one.lag_ms, age_s)
            elif one.mirror in view.mirrors:
                found.setdefault((one.mirror, one.partition), CopyLag(False, one.lag_records, one.lag_ms, age_s))
    return found


def _unreadable(key: str, why: str) -> MirrorRow:
    topic, _, target = key.rpartition("@")
    return MirrorRow(topic, None, "?", target, "unreadable", reason=f"its document cannot be read: {why}")


def _row(mirror: Mirror, told: PartitionReport | None, left_out: bool = False) -> MirrorRow:
    where = mirror.topic, None if told is None else told.partition, mirror.source, mirror.target
    if mirror.held is not None:
        return MirrorRow(*where, "held", reason=f"operation {mirror.held} copies it by itself until it is over")
    if told is None and left_out:
        return MirrorRow(*where, "unreported", reason="a task has more partitions than its report can hold")
    if told is None:
        return MirrorRow(*where, "nobody", reason="no task reports it: is the job `mirror` running?")
    known = told.source_end >= 0
    return MirrorRow(*where, told.state, told.lag_records if known else None, told.lag_ms, told.bytes_s, told.reason)
