"""The state of mirrors: copiers' reports of each partition, and mirrors without a report."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from ha_core.kafka.copying import ELSEWHERE, TAKEN_OVER
from ha_core.model import Mirror, MirrorSync, MoveRequest, PartitionReport, SyncFinding, View
from ha_core.operations.clusters.registered import running_operations
from ha_core.operations.engine.environment import Environment
from ha_core.plan.facts.clusters import CopyLag
from ha_core.plan.mirror.total import MirrorTotal
from ha_core.store.store import Store

UNREPORTED = "no task reports it: one begins within a minute; else check that the job `mirror` is running"
BEHIND_A_COPY = "its source is a copy: it trails the writer by the lag of both"
State = Literal["copying", "waiting", "stopped", "held", "nobody", "unreported", "unreadable"]
"""States of a partition. `waiting`: it is taken over again in a moment. `stopped`: it waits for an operator. `held`: an
operation copies it itself. `unreported`: a task may copy it whose report is full. `unreadable`: this version cannot
read its document, so no task begins it."""


@dataclass(frozen=True, slots=True)
class MirrorRow:
    """One partition; or the topic as a whole if no task reports the mirror."""

    topic: str
    partition: int | None
    source: str
    target: str
    state: State
    lag_records: int | None = None
    lag_bytes: int | None = None
    lag_ms: int | None = None
    rpo_s: int | None = None
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
            "lag_bytes": self.lag_bytes,
            "lag_ms": self.lag_ms,
            "rpo_s": self.rpo_s,
            "bytes_s": self.bytes_s,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class MirrorsNow:
    """The current state of mirrors.

    :ivar rows: all partitions of all mirrors, by topic, target and partition. A mirror without reports has one row for
        the topic.
    :ivar totals: for each mirror, in the same order, its state as a whole.
    """

    rows: list[MirrorRow]
    totals: list[tuple[Mirror, MirrorTotal]]

    @property
    def mirrors(self) -> list[Mirror]:
        return [mirror for mirror, _ in self.totals]

    def totals_json(self) -> list[dict[str, Any]]:
        return [_total_json(*total) for total in self.totals]


def _total_json(mirror: Mirror, total: MirrorTotal) -> dict[str, Any]:
    named = {"topic": mirror.topic, "from": mirror.source, "to": mirror.target, "max_bytes_s": mirror.max_bytes_s}
    return named | total.to_json()


def mirrors_now(environment: Environment) -> MirrorsNow:
    reports = list(environment.store.mirror_reports().values())
    partition_reports: dict[str, dict[int, PartitionReport]] = {}
    for report in reports:
        for partition in report.partitions:
            # After a move to another task two may report the partition: the one that copies it knows more.
            reported = partition_reports.setdefault(partition.mirror, {}).get(partition.partition)
            if reported is None or partition.state == "copying":
                partition_reports[partition.mirror][partition.partition] = partition
    left_out = any(report.left_out for report in reports)
    rows, totals = list[MirrorRow](), list[tuple[Mirror, MirrorTotal]]()
    mirrors = environment.store.find_mirrors()
    keys = {mirror.key for mirror in mirrors.readable}
    for mirror in sorted(mirrors.readable, key=lambda one: one.key):
        reports_of = {} if mirror.held is not None else partition_reports.get(mirror.key, {})
        partitions = [_row(mirror, one) for _, one in sorted(reports_of.items())]
        if f"{mirror.topic}@{mirror.source}" in keys:
            partitions = [replace(row, reason=row.reason or BEHIND_A_COPY) for row in partitions]
        rows += partitions or [_row(mirror, None, left_out)]
        totals.append((mirror, MirrorTotal.of(reports_of.values())))
    rows += [_unreadable(key, why) for key, why in mirrors.unreadable.items()]
    rows += _between(environment, keys)
    rows.sort(key=lambda row: (row.topic, row.target, -1 if row.partition is None else row.partition))
    return MirrorsNow(rows, totals)


def synced(environment: Environment, mirrors: Iterable[Mirror]) -> list[MirrorSync]:
    """Findings of the last syncs, for mirrors that have not ended."""
    pairs = {(mirror.source, mirror.target) for mirror in mirrors}
    looks = environment.store.mirror_syncs() if pairs else []
    return [sync for sync in looks if (sync.source, sync.target) in pairs]


def reported_lags(environment: Environment, view: View) -> dict[tuple[str, int], CopyLag]:
    """Mirrors' lags by copiers' reports: by the mirror's key and the partition."""
    if not view.mirrors:
        return {}
    lags: dict[tuple[str, int], CopyLag] = {}
    for report in environment.store.mirror_reports().values():
        age_s = environment.age_s(report.at) if report.at else 0.0
        for partition in report.partitions:
            if partition.mirror not in view.mirrors:
                continue
            # A partition that another task has taken over is not stopped: a task adds it again if it is to be copied
            # here.
            state = "waiting" if partition.reason in {TAKEN_OVER, ELSEWHERE} else partition.state
            lag = CopyLag(
                state,
                partition.lag_records,
                partition.lag_ms,
                age_s + (partition.unheard_s or 0),
                partition.reason,
                partition.source,
            )
            key = partition.mirror, partition.partition
            before = lags.get(key)
            # After a move to another task two may report the partition: the one that copies it knows more.
            if before is None or _knows(lag) > _knows(before):
                lags[key] = lag
    return lags


def _knows(lag: CopyLag) -> tuple[bool, bool]:
    return lag.records is not None, lag.state == "copying"


def findings(store: Store, request: MoveRequest) -> tuple[SyncFinding, ...]:
    """Findings of the last sync from the request's origin to its target."""
    route = request.origin, request.target
    looks = (look for look in store.mirror_syncs() if (look.source, look.target) == route)
    return tuple(finding for look in looks for finding in look.findings)


def _between(environment: Environment, there: Collection[str]) -> Iterator[MirrorRow]:
    """Between its cut and its end a switch has ended mirrors and not yet linked the reversed and the repointed ones.
    Without these rows an operator could think that there is none, and link it again."""
    for operation in running_operations(environment):
        if operation.state != "cut":
            continue
        evidence = operation.move_evidence
        for mirror in evidence.further:
            if mirror.key not in evidence.kept_out and mirror.key not in there and operation.route is not None:
                reason = f"operation {operation.id} has switched it to {operation.route[1]}, from where it goes on"
                yield MirrorRow(mirror.topic, None, operation.route[1], mirror.target, "held", reason=reason)
        if operation.forced:
            continue
        for topic, mirror in evidence.ended.items():
            if f"{topic}@{mirror.source}" not in there:
                reason = f"operation {operation.id} has switched it to {mirror.target}, and reverses its mirror"
                yield MirrorRow(topic, None, mirror.target, mirror.source, "held", reason=reason)


def _unreadable(key: str, why: str) -> MirrorRow:
    topic, _, target = key.rpartition("@")
    return MirrorRow(topic, None, "?", target, "unreadable", reason=f"its document cannot be read: {why}")


def _row(mirror: Mirror, reported: PartitionReport | None, left_out: bool = False) -> MirrorRow:
    where = mirror.topic, None if reported is None else reported.partition, mirror.source, mirror.target
    if mirror.held is not None:
        return MirrorRow(*where, "held", reason=f"operation {mirror.held} copies it by itself until it is over")
    if reported is None and left_out:
        return MirrorRow(*where, "unreported", reason="a task has more partitions than its report can hold")
    if reported is None:
        return MirrorRow(*where, "nobody", reason=UNREPORTED)
    lags = reported.lag_records, reported.lag_bytes, reported.lag_ms, reported.rpo_s
    return MirrorRow(*where, reported.state, *lags, reported.bytes_s, reported.reason)
