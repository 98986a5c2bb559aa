"""The driver's Prometheus metrics, `switchyard_mirror_…`, from the reports of tasks. A waiting driver shows zeros.

Counters sum up what tasks have counted since this driver leads, so they restart with another driver. Topics are labels,
since operators choose the mirrors; to bound their number, single partitions are shown only up to `MOST_PARTITIONS`,
first those that are not copying and then those with the largest lag.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from prometheus_client.core import Metric

from ha_core.metrics.http import Families, render
from ha_core.metrics.process import ProcessMetrics
from ha_core.model import Mirror, MirrorReport, MirrorSync, PairWork, PartitionReport
from ha_core.plan.mirror.total import MirrorTotal

MOST_PARTITIONS = 5_000
_MOST_KNOWN = 10_000
"""Most tasks' counts remembered, so that nothing is added twice if a report comes back."""
_families = Families("switchyard_mirror_")
_gauge, _counter = _families.gauge, _families.counter
_PAIR = ("source", "target")
_PARTITION = (*_PAIR, "topic", "partition")

Pair = tuple[str, str]
"""(source, target)"""


class _Counted(NamedTuple):
    copied_bytes: int = 0
    copied_records: int = 0
    takeovers: int = 0

    @classmethod
    def of(cls, work: PairWork) -> _Counted:
        return cls(work.copied_bytes, work.copied_records, work.takeovers)

    def plus(self, more: _Counted, less: _Counted) -> _Counted:
        return _Counted(*(a + b - c for a, b, c in zip(self, more, less, strict=True)))


class _DriverState(NamedTuple):
    leads: bool = False
    mirrors: int = 0
    partitions: tuple[tuple[Pair, PartitionReport], ...] = ()
    left_out: int = 0
    untended: int = 0
    """Partitions that no task reports."""


class MirrorMetrics:
    """The driver calls `follow` and `leave`; any thread may call `render`."""

    def __init__(self) -> None:
        self._seen = _DriverState()
        self._process = ProcessMetrics()
        self._known: dict[str, _Counted] = {}
        """Id of a task's count → the part already added."""
        self._sums: dict[Pair, _Counted] = {}
        self._syncs: dict[Pair, MirrorSync] = {}
        """The last sync of groups' offsets."""

    def leave(self) -> None:
        """This driver does not lead any more."""
        self._seen = _DriverState()

    def follow(self, mirrors: Collection[Mirror], reports: Mapping[int, MirrorReport], wanted: int = 0) -> None:
        """Takes the current reports of tasks.

        :param wanted: number of partitions that tasks should copy.
        """
        pairs = {mirror.key: (mirror.source, mirror.target) for mirror in mirrors}
        sums = dict(self._sums) | {pair: self._sums.get(pair, _Counted()) for pair in pairs.values()}
        for report in reports.values():
            for work in report.work:
                now, pair = _Counted.of(work), (work.source, work.target)
                sums[pair] = sums.get(pair, _Counted()).plus(now, self._known.pop(work.id, _Counted()))
                self._known[work.id] = now  # moves to the end
        while len(self._known) > _MOST_KNOWN:
            del self._known[next(iter(self._known))]
        self._sums = sums
        shown = [
            partition for report in reports.values() for partition in report.partitions if partition.mirror in pairs
        ]
        left_out = sum(report.left_out for report in reports.values())
        self._seen = _DriverState(
            True,
            len(mirrors),
            tuple((pairs[partition_report.mirror], partition_report) for partition_report in shown),
            left_out,
            max(0, wanted - len(shown) - left_out),
        )

    def synced(self, sync: MirrorSync) -> None:
        """Takes the result of a sync of groups."""
        self._syncs = {**self._syncs, (sync.source, sync.target): sync}

    def render(self) -> bytes:
        return render(self, self._process)

    def collect(self) -> Iterable[Metric]:
        seen, sums = self._seen, self._sums
        yield _gauge("leads", "1 if this driver leads and assigns partitions.", seen.leads)
        yield _gauge("mirrors", "Mirrored topics, counted once per target.", seen.mirrors)
        yield from _counters(sums)
        by_pair: dict[Pair, list[PartitionReport]] = {pair: [] for pair in sums} if seen.leads else {}
        for pair, partition in seen.partitions:
            by_pair.setdefault(pair, []).append(partition)
        yield from _totals({pair: MirrorTotal.of(its) for pair, its in by_pair.items()})
        text = "Copied partitions for which no report has room."
        yield _gauge("unreported_partitions", text, seen.left_out)
        text = "Partitions that no task copies: the workers of the job are away, or have not begun yet."
        yield _gauge("untended_partitions", text, seen.untended)
        yield from _groups({pair: sync for pair, sync in self._syncs.items() if pair in by_pair})
        yield from _lags(seen.partitions)


def _groups(syncs: Mapping[Pair, MirrorSync]) -> Iterable[Metric]:
    kinds = {(*pair, kind): count for pair, sync in syncs.items() for kind, count in sync.kinds.items()}
    text = "Groups with commits on mirrored topics, by the offsets that the target gets of them."
    yield _gauge("groups", text, kinds, *_PAIR, "offsets")
    waiting = {pair: sum(finding.stop for finding in sync.findings) for pair, sync in syncs.items()}
    yield _gauge("groups_stopped", "Differences of groups' offsets that an operator has to act on.", waiting, *_PAIR)


def _counters(sums: Mapping[Pair, _Counted]) -> Iterable[Metric]:
    copied = {pair: counted.copied_bytes for pair, counted in sums.items()}
    yield _counter("copied_bytes", "Bytes of batches that targets have acknowledged.", copied, *_PAIR)
    records = {pair: counted.copied_records for pair, counted in sums.items()}
    yield _counter("copied_records", "Records that targets have acknowledged.", records, *_PAIR)
    takeovers = {pair: counted.takeovers for pair, counted in sums.items()}
    yield _counter("takeovers", "Takeovers of partitions by copiers, including first ones.", takeovers, *_PAIR)


def _totals(totals: Mapping[Pair, MirrorTotal]) -> Iterable[Metric]:
    states = {
        (*pair, state): count
        for pair, total in totals.items()
        for state, count in (("copying", total.copying), ("waiting", total.waiting), ("stopped", total.stopped))
    }
    yield _gauge(
        "partitions", "Partitions as tasks report them; stopped ones need an operator.", states, *_PAIR, "state"
    )
    records = {pair: total.lag_records for pair, total in totals.items() if total.lag_records is not None}
    yield _gauge("total_lag_records", "Records that are not copied yet, as far as known.", records, *_PAIR)
    unknown = {pair: total.unknown for pair, total in totals.items()}
    yield _gauge("unknown_lag_partitions", "Partitions with unknown lag, which no total includes.", unknown, *_PAIR)
    sizes = {pair: total.lag_bytes for pair, total in totals.items() if total.lag_bytes is not None}
    yield _gauge("total_lag_bytes", "Estimated bytes that are not copied yet.", sizes, *_PAIR)
    times = {pair: total.lag_ms / 1000 for pair, total in totals.items() if total.lag_ms is not None}
    yield _gauge("longest_lag_seconds", "The longest lag by timestamps of records.", times, *_PAIR)
    losses = {pair: total.rpo_s for pair, total in totals.items() if total.rpo_s is not None}
    text = "Estimate: losing the source now would lose the records of this many seconds."
    yield _gauge("longest_rpo_seconds", text, losses, *_PAIR)


def _lags(partitions: Iterable[tuple[Pair, PartitionReport]]) -> Iterable[Metric]:
    worst = sorted(
        partitions, key=lambda item: (item[1].state == "copying", -(item[1].lag_records or 0), -(item[1].rpo_s or 0))
    )
    shown = {(*pair, report.topic, str(report.partition)): report for pair, report in worst[:MOST_PARTITIONS]}
    records = {labels: report.lag_records for labels, report in shown.items() if report.lag_records is not None}
    yield _gauge("lag_records", "Records of a partition that are not copied yet.", records, *_PARTITION)
    sizes = {labels: report.lag_bytes for labels, report in shown.items() if report.lag_bytes is not None}
    yield _gauge("lag_bytes", "Estimated bytes of a partition that are not copied yet.", sizes, *_PARTITION)
    times = {labels: report.lag_ms / 1000 for labels, report in shown.items() if report.lag_ms is not None}
    yield _gauge("lag_seconds", "Time between the newest records of source and copy.", times, *_PARTITION)
    losses = {labels: report.rpo_s for labels, report in shown.items() if report.rpo_s is not None}
    text = "Estimate: losing the source now would lose the partition's records of this many seconds."
    yield _gauge("rpo_seconds", text, losses, *_PARTITION)
    speeds = {labels: report.bytes_s for labels, report in shown.items()}
    yield _gauge("bytes_per_second", "Recent bytes of a partition copied per second.", speeds, *_PARTITION)
