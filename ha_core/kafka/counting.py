"""Counts the records of a part of a log, as for the lost tail of a cluster that returned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol

from ha_core.mirror.partition_diff import Piece
from ha_core.mirror.split import read_records
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.copied_batch import CONTROL


class Counted(NamedTuple):
    """Records of producers, not markers. Those of unfinished transactions count as records."""

    records: int = 0
    bytes: int = 0
    """Stored size of their batches."""
    aborted: int = 0
    """Records of aborted transactions, which were never acknowledged as committed."""

    def plus(self, other: Counted) -> Counted:
        return Counted(self.records + other.records, self.bytes + other.bytes, self.aborted + other.aborted)


class Logs(Protocol):
    def log(self, key: Partition, start: int, end: int, committed: bool = False) -> Iterable[Piece]: ...


def count(cluster: Logs, key: Partition, start: int, end: int, last_stable: int) -> Counted:
    """Counts a partition's records in `[start, end)`: acknowledged ones, and aborted ones separately.

    Only headers of batches are read, except for batches that span the start.

    :param last_stable: start of the first unfinished transaction; the log's end if there is none.
    :raises KafkaAdminError: it cannot be read.
    """
    decided = min(max(last_stable, start), end)
    counted = _count(cluster.log(key, start, decided, committed=True), start) if start < decided else Counted()
    return counted.plus(_count(cluster.log(key, decided, end), decided)) if decided < end else counted


def _count(log: Iterable[Piece], start: int) -> Counted:
    counted = Counted()
    for batch, buf, committed in log:
        if batch.attributes & CONTROL or batch.last_offset < start:
            continue
        if batch.magic == 2 and batch.base_offset >= start:
            records = batch.records_count
        else:
            records = sum(record.offset >= start for record in read_records(buf, batch))
        more = Counted(records, batch.end - batch.at) if committed else Counted(aborted=records)
        counted = counted.plus(more)
    return counted
