"""Timestamps of the records of a log, without fetching any.

LIST_OFFSETS with a time returns the first record that is not older; with time 0 that is the first record with a
timestamp. With MAX_TIMESTAMP (KIP-734, version 7, brokers from 3.0 on) it returns the record with the largest one. An
older broker would take that constant for a time, so it is not asked, and reports the first record alone.

`docs/design/spark-jobs.md`, *Timestamps*, says how far to trust one. A broker searches the largest in its remaining
files, which for a while include offsets below a raised log start; such an answer is discarded.

Answers cost brokers file reads, cold ones for the first record: requests are small and sequential per leader, and
partitions without a result in time are left out.
"""

from __future__ import annotations

from collections.abc import Mapping

from ha_core.kafka.brokers import Brokers, pages
from ha_core.kafka.facts import LogEnds, RecordTimes
from ha_core.kafka.offsets import DEBUGGER, UNCOMMITTED, listed_offsets
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.list_offsets import MAX_TIMESTAMP

_READINGS = (((DEBUGGER, UNCOMMITTED, 0), 1), ((DEBUGGER, UNCOMMITTED, MAX_TIMESTAMP), 7))
"""For the first and the newest record, with the required version. As the debugging replica, like the log ends, so that
records above the high watermark count."""
_MAX_PER_REQUEST = 500
"""A request occupies one of the broker's few handler threads: 5 s at 10 ms per cold read."""
_NOTHING = RecordTimes(None, None)


class Times(Brokers):
    def record_times(
        self, ends: Mapping[Partition, LogEnds], timeout_s: float | None = None
    ) -> dict[Partition, RecordTimes]:
        """Timestamps of the first and newest records, from the leaders that reported `ends`.

        Only informative, so nothing is retried or raised: partitions without an answer at the deadline are missing, and
        None means that the broker cannot tell.
        """
        asking = self.asking(timeout_s)
        found = {key: _NOTHING for key, end in ends.items() if end.start >= end.log_end}
        by_leader: dict[int, list[Partition]] = {}
        for key, end in ends.items():
            if key not in found and end.leader in asking.nodes:
                by_leader.setdefault(end.leader, []).append(key)

        def ask(node: int) -> None:
            for page in pages(by_leader[node], _MAX_PER_REQUEST):
                if not asking.deadline.left_s:
                    return
                epochs = {key: ends[key].leader_epoch for key in page}
                first, newest = (
                    {
                        key: part["timestamp"]
                        for key, part in listed_offsets(asking, node, page, epochs, reading, least_version)
                        if not part["error_code"] and part["timestamp"] >= 0 and part["offset"] >= ends[key].start
                    }
                    for reading, least_version in _READINGS
                )
                found.update((key, RecordTimes(first.get(key), newest.get(key))) for key in page)

        asking.on_each(by_leader, ask)
        return found
