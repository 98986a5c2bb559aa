"""The driver's log lines: each change of a mirror's state, and periodically the progress of partitions."""

import logging
from collections import Counter
from collections.abc import Collection, Mapping

from ha_core.model import Mirror, MirrorReport, PartitionReport
from ha_core.plan.mirror.total import MirrorTotal

log = logging.getLogger(__name__)
EVERY_S = 60.0
MAX_PARTITIONS = 20
"""Most partitions logged per mirror, the worst ones. `switchyard mirrors` and the metrics have all."""
_REASONS = 3


class ProgressLog:
    def __init__(self) -> None:
        self._logged: dict[str, str] = {}
        self._logged_s = float("-inf")

    def log_changes(
        self,
        mirrors: Collection[Mirror],
        counts: Mapping[tuple[str, str], int],
        reports: Mapping[int, MirrorReport],
        now_s: float,
    ) -> None:
        partition_reports: dict[str, list[PartitionReport]] = {mirror.key: [] for mirror in mirrors}
        for report in reports.values():
            for partition in report.partitions:
                partition_reports.setdefault(partition.mirror, []).append(partition)
        due = now_s - self._logged_s >= EVERY_S
        if due:
            self._logged_s = now_s
        for mirror in mirrors:
            its = partition_reports[mirror.key]
            text = states(mirror, counts, its)
            if due or self._logged.get(mirror.key) != text:
                log.info("%s: %s; %s", mirror.key, text, lag_text(MirrorTotal.of(its)))
            if due:
                for partition in worst(its):
                    log.info(
                        "%s: partition %d %s; %s",
                        mirror.key,
                        partition.partition,
                        partition.state,
                        lag_text(MirrorTotal.of([partition])),
                    )
            self._logged[mirror.key] = text
        for gone in self._logged.keys() - partition_reports.keys():
            log.info("%s: no mirror any more", gone)
            del self._logged[gone]


def lag_text(total: MirrorTotal) -> str:
    """Lag and speed; unknown values are question marks."""
    counts = (total.lag_records, total.lag_bytes, total.rpo_s)
    records, size, rpo = ("?" if count is None else f"{count:,}" for count in counts)
    lag = "?" if total.lag_ms is None else f"{total.lag_ms / 1000:.1f}"
    unknown = (
        f" ({total.unknown} of {total.partitions} partitions unknown)"
        if total.unknown and total.lag_records is not None
        else ""
    )
    return f"{records} records{unknown}, {size} bytes, lag {lag} s, RPO {rpo} s, {total.bytes_s / 1e6:.1f} MB/s"


def worst(reports: Collection[PartitionReport]) -> list[PartitionReport]:
    """Partitions with the largest possible loss, the worst first; none if there is only one partition."""
    if len(reports) < 2:
        return []
    return sorted(reports, key=lambda report: (-(report.rpo_s or 0), -(report.lag_records or 0), report.partition))[
        :MAX_PARTITIONS
    ]


def states(mirror: Mirror, counts: Mapping[tuple[str, str], int], reports: Collection[PartitionReport]) -> str:
    """Number of partitions per state, and the reasons of those that are not copied."""
    source, target = (counts.get((cluster, mirror.topic), 0) for cluster in (mirror.source, mirror.target))
    text = [f"{count} {state}" for state, count in sorted(Counter(report.state for report in reports).items())]
    if source != target:
        text.append(f"{source} partitions in {mirror.source}, {target} in {mirror.target}")
    reasons = Counter(report.reason for report in reports if report.state != "copying")
    text += [f"{count} of them: {reason}" for reason, count in reasons.most_common(_REASONS)]
    return ", ".join(text) or "nothing is known of it yet"
