"""Age and latency of copied records, batch by batch: records are not decoded, so a batch tells only its first and its
largest timestamp."""

from collections import deque
from dataclasses import dataclass, field
from struct import Struct

from ha_core.mirror.partition import Claimed
from ha_core.mirror.sampled import Sampled

_FIRST_MS_AT = 27
"""Timestamp of a batch's first record (format 2)."""
_LONG = Struct(">q")


@dataclass(slots=True)
class CopyMeasures:
    """Measurements of one partition. Times come from the clocks of producers and of this machine.

    :ivar age_ms: age of records when they are sent to the target.
    :ivar latency_ms: age of records when the target has acknowledged them.
    :ivar record_bytes: bytes of a batch for each of its records.
    :ivar records: acknowledged records; likewise bytes.
    """

    age_ms: Sampled = field(default_factory=Sampled)
    latency_ms: Sampled = field(default_factory=Sampled)
    record_bytes: Sampled = field(default_factory=Sampled)
    records: int = 0
    bytes: int = 0
    _sent: deque[tuple[int, int, int, int]] = field(default_factory=deque)
    """(first timestamp, largest timestamp, records, bytes) of batches in flight."""

    def sent(self, claimed: Claimed, now_ms: int, now: float) -> None:
        (first_ms,) = _LONG.unpack_from(claimed.data, _FIRST_MS_AT)
        first_ms, newest_ms = min(first_ms, claimed.newest_ms), claimed.newest_ms
        count = claimed.copied[-1].records
        self._sent.append((first_ms, newest_ms, count, len(claimed.data)))
        _add(self.age_ms, first_ms, newest_ms, count, now_ms, now)

    def acknowledged(self, now_ms: int, now: float) -> None:
        first_ms, newest_ms, count, size = self._sent.popleft()
        self.records += count
        self.bytes += size
        self.record_bytes.add(size / count, size / count, count, now)
        _add(self.latency_ms, first_ms, newest_ms, count, now_ms, now)


def _add(sampled: Sampled, first_ms: int, newest_ms: int, count: int, now_ms: int, now: float) -> None:
    if first_ms >= 0:  # -1: the producer gave no timestamp
        sampled.add(max(now_ms - newest_ms, 0), max(now_ms - first_ms, 0), count, now)
