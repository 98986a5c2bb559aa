"""What lies in a stretch of a log, counted without looking at more than headers."""

from __future__ import annotations

from typing import NamedTuple

from ha_core.kafka.reading import PartitionLog
from ha_core.mirror.split import read_records
from ha_core.wire.copies import CONTROL


class Counted(NamedTuple):
    """Records of producers, not markers; aborted ones count, as a log without its end does not say which they are."""

    records: int = 0
    bytes: int = 0
    """Of their batches, as they are stored."""

    def plus(self, other: Counted) -> Counted:
        return Counted(self.records + other.records, self.bytes + other.bytes)


def count(log: PartitionLog, start: int) -> Counted:
    """What `log` has from offset `start` on.

    :raises KafkaAdminError: it cannot be read.
    """
    found = Counted()
    for batch, buf, _ in log:
        if batch.attributes & CONTROL or batch.last_offset < start:
            continue
        if batch.magic == 2 and batch.base_offset >= start:
            records = batch.records_count
        else:
            records = sum(record.offset >= start for record in read_records(buf, batch))
        found = found.plus(Counted(records, batch.end - batch.at))
    return found
