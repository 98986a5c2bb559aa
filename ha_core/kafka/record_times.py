"""When the records of a log were written, as far as the log itself says, without fetching one.

LIST_OFFSETS with a time answers the first record that is not older; with time 0 that is the first one that has a
timestamp at all. With MAX_TIMESTAMP (KIP-734, version 7, brokers from 3.0 on) it answers the record with the largest
one. An older broker would take that word for a time, so it is not asked, and tells the first record alone.

`docs/design/spark-jobs.md`, *Timestamps*, says how far to trust one. A broker looks for the largest in what is left
of its files, which go on for a while below a start that was raised; an answer from there is none.

Answering costs a broker reads from its files, cold ones for the first record: requests are small, one after another
for each leader, and those that find no time are left out.
"""

from __future__ import annotations

from collections.abc import Mapping

from ha_core.kafka.brokers import Brokers, pages
from ha_core.kafka.facts import LogEnds, RecordTimes
from ha_core.kafka.offsets import DEBUGGER, UNCOMMITTED, told
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.list_offsets import MAX_TIMESTAMP

_READINGS = (((DEBUGGER, UNCOMMITTED, 0), 1), ((DEBUGGER, UNCOMMITTED, MAX_TIMESTAMP), 7))
"""For the first record and the newest, and the versions that know what is meant. As the debugging replica, like the log
ends: records above the high watermark count."""
_MAX_PER_REQUEST = 500
"""A request occupies one of the broker's few handler threads: at 10 ms for a cold read, for 5 s."""
_NOTHING = RecordTimes(None, None)


class Times(Brokers):
    def record_times(
        self, ends: Mapping[Partition, LogEnds], timeout_s: float | None = None
    ) -> dict[Partition, RecordTimes]:
        """Timestamps of the first and newest records, asked at the leaders that told `ends`.

        Information only, so nothing is repeated and nothing raised: partitions that were not told until the deadline
        are missing, and null stands for what a broker cannot tell.
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
                        for key, part in told(asking, node, page, epochs, reading, least_version)
                        if not part["error_code"] and part["timestamp"] >= 0 and part["offset"] >= ends[key].start
                    }
                    for reading, least_version in _READINGS
                )
                found.update((key, RecordTimes(first.get(key), newest.get(key))) for key in page)

        asking.on_each(by_leader, ask)
        return found
