"""What the driver says in its log: each change of how mirrors stand, and now and then how far their partitions are."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Mapping

from ha_core.model import Mirror, MirrorReport, PartitionReport
from ha_core.plan.mirror.total import MirrorTotal

log = logging.getLogger(__name__)
EVERY_S = 60.0
MAX_PARTITIONS = 20
"""Of a mirror, that are told one by one: the worst. All are in `switchyard mirrors` and in the metrics."""
_REASONS = 3


class ProgressLog:
    def __init__(self) -> None:
        self._told: dict[str, str] = {}
        self._told_s = float("-inf")

    def tell(
        self,
        mirrors: Collection[Mirror],
        counts: Mapping[tuple[str, str], int],
        reports: Mapping[int, MirrorReport],
        now_s: float,
    ) -> None:
        found: dict[str, list[PartitionReport]] = {mirror.key: [] for mirror in mirrors}
        for report in reports.values():
            for one in report.partitions:
                found.setdefault(one.mirror, []).append(one)
        due = now_s - self._told_s >= EVERY_S
        if due:
            self._told_s = now_s
        for mirror in mirrors:
            its = found[mirror.key]
            said = states(mirror, counts, its)
            if due or self._told.get(mirror.key) != said:
                log.info("%s: %s; %s", mirror.key, said, behind(MirrorTotal.of(its)))
            if due:
                for one in worst(its):
                    log.info(
                        "%s: partition %d %s; %s", mirror.key, one.partition, one.state, behind(MirrorTotal.of([one]))
                    )
            self._told[mirror.key] = said
        for gone in self._told.keys() - found.keys():
            log.info("%s: no mirror any more", gone)
            del self._told[gone]


def behind(total: MirrorTotal) -> str:
    """By how much, and how fast it is copied; what is not known is a question mark."""
    counts = (total.lag_records, total.lag_bytes, total.rpo_s)
    records, size, rpo = ("?" if one is None else f"{one:,}" for one in counts)
    lag = "?" if total.lag_ms is None else f"{total.lag_ms / 1000:.1f}"
    unknown = (
        f" ({total.unknown} of {total.partitions} partitions unknown)"
        if total.unknown and total.lag_records is not None
        else ""
    )
    return f"{records} records{unknown}, {size} bytes, {lag} s behind, RPO {rpo} s, {total.bytes_s / 1e6:.1f} MB/s"


def worst(found: Collection[PartitionReport]) -> list[PartitionReport]:
    """Those of which most would be lost with the source, the worst first; none where there are no others beside it."""
    if len(found) < 2:
        return []
    return sorted(found, key=lambda it: (-(it.rpo_s or 0), -(it.lag_records or 0), it.partition))[:MAX_PARTITIONS]


def states(mirror: Mirror, counts: Mapping[tuple[str, str], int], found: Collection[PartitionReport]) -> str:
    """How many partitions are in which state, and why those that are not copied are not."""
    source, target = (counts.get((cluster, mirror.topic), 0) for cluster in (mirror.source, mirror.target))
    said = [f"{count} {state}" for state, count in sorted(Counter(one.state for one in found).items())]
    if source != target:
        said.append(f"{source} partitions in {mirror.source}, {target} in {mirror.target}")
    reasons = Counter(one.reason for one in found if one.state != "copying")
    said += [f"{count} of them: {reason}" for reason, count in reasons.most_common(_REASONS)]
    return ", ".join(said) or "nothing is known of it yet"
