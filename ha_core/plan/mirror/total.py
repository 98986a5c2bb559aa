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
        found = list(reports)
        states = Counter(one.state for one in found)
        known = [one for one in found if one.lag_records is not None]
        sizes = [one.lag_bytes for one in known if one.lag_bytes is not None]
        return cls(
            partitions=len(found),
            copying=states["copying"],
            waiting=states["waiting"],
            stopped=states["stopped"],
            unknown=len(found) - len(known),
            lag_records=sum(one.lag_records or 0 for one in known) if known else None,
            lag_bytes=sum(sizes) if sizes else None,
            lag_ms=max((one.lag_ms for one in known if one.lag_ms is not None), default=None),
            rpo_s=max((one.rpo_s for one in found if one.rpo_s is not None), default=None),
            bytes_s=sum(one.bytes_s for one in found),
            unknown_rpo=sum(one.rpo_s is None for one in found),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)
