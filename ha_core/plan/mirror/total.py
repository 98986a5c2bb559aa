"""The state of a mirror as a whole, from the reports of its partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from ha_core.model import PartitionReport


@dataclass(frozen=True, slots=True)
class MirrorTotal:
    """Sums over the partitions with known values, and the longest of times."""

    partitions: int = 0
    copying: int = 0
    waiting: int = 0
    stopped: int = 0
    unknown: int = 0
    """Partitions with unknown lag: no copier has begun, or they have stopped."""
    lag_records: int | None = None
    lag_bytes: int | None = None
    lag_ms: int | None = None
    rpo_s: int | None = None
    bytes_s: int = 0
    unknown_rpo: int = 0
    """Partitions with unknown RPO."""

    @classmethod
    def of(cls, reports: Iterable[PartitionReport]) -> MirrorTotal:
        partition_reports = list(reports)
        states = Counter(report.state for report in partition_reports)
        known = [report for report in partition_reports if report.lag_records is not None]
        sizes = [report.lag_bytes for report in known if report.lag_bytes is not None]
        return cls(
            partitions=len(partition_reports),
            copying=states["copying"],
            waiting=states["waiting"],
            stopped=states["stopped"],
            unknown=len(partition_reports) - len(known),
            lag_records=sum(report.lag_records or 0 for report in known) if known else None,
            lag_bytes=sum(sizes) if sizes else None,
            lag_ms=max((report.lag_ms for report in known if report.lag_ms is not None), default=None),
            rpo_s=max((report.rpo_s for report in partition_reports if report.rpo_s is not None), default=None),
            bytes_s=sum(report.bytes_s for report in partition_reports),
            unknown_rpo=sum(report.rpo_s is None for report in partition_reports),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
