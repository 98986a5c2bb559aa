"""How far partitions are copied, for people, metrics and readers of copies."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from ha_core.model import Run

CopyState = Literal["copying", "waiting", "stopped"]


class SourceEnds(NamedTuple):
    """The ends of a partition of the source, from one answer of its leader."""

    copyable: int
    """End of the records that can be copied (`Isolation.end`): the last stable offset, or the high watermark if
    uncommitted records are copied, too."""
    acknowledged: int
    """Offset below which all in-sync replicas have the log (high watermark), including open transactions."""


class CopyStatus(NamedTuple):
    """Status of a partition for people and metrics. None is unknown, and is never shown as 0."""

    state: CopyState
    source: int | None
    """The next source offset to copy."""
    ends: SourceEnds | None
    """Last known ends of the source."""
    reason: str = ""
    lag_ms: int | None = None
    """Time between the last copied record and the newest known record of the source. If all that can be copied is, and
    an open transaction holds back more, the time since that began. Time without news of the source is
    added."""
    lag_bytes: int | None = None
    """Bytes fetched and not appended, plus an estimate for the rest from recent fetches; None: nothing was fetched."""
    rpo_s: float | None = None
    """Estimate: losing the source now would lose what it acknowledged in the last `rpo_s` seconds. None: unknown."""
    bytes_s: float = 0.0
    copied_bytes: int = 0
    """Since this task copies the partition."""
    unheard_s: float | None = None
    """Time since the source last reported its ends; None: it does report, or never has to this task."""
    source_start: int | None = None
    """Where the source's log starts."""
    foreign: bool = False
    """The copy has records, and its copiers have no notes: it is stopped until an operator, or a flow that knows the
    writer, decides where to go on."""
    damaged: bool = False
    """The copy is not what its copiers' notes say, when one took over: another program may have gone on with it."""
    overtaken: int | None = None
    """Offsets in all that retention deleted in the source before they were copied, and that the copy passed."""

    @property
    def lag_records(self) -> int | None:
        """Offsets that the source has acknowledged and the copy lacks: losing the source would lose them."""
        return None if self.source is None or self.ends is None else max(self.ends.acknowledged - self.source, 0)

    @property
    def to_copy(self) -> int | None:
        """The part of `lag_records` that can be copied now, below any open transaction."""
        return None if self.source is None or self.ends is None else max(self.ends.copyable - self.source, 0)

    def has(self, end: int) -> bool:
        """True if the copy is known to have everything that the source has below `end`."""
        return self.source is not None and self.source >= end

    def within(self, records: int) -> bool:
        """True if the lag is known and at most `records`."""
        return self.lag_records is not None and self.lag_records <= records


@dataclass
class CopyTotals:
    """Totals of a pair of clusters over all its loops. Counted by one thread, read by any."""

    copied_bytes: int = 0
    copied_records: int = 0
    takeovers: int = 0


class CopyCoverage(NamedTuple):
    """The part of a partition that its copy has, in source offsets."""

    end: int
    level: bool
    """No fault, and the copy's lag is small."""
    runs: tuple[Run, ...]
    """The newest ones."""
    start: int | None = None
    """Where the source's log starts."""
    target: int = 0
    """Offset of the copy after its last record: the next one has at least this offset."""
    source_base: int = 0
    """See `Progress`."""
