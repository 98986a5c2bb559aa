"""When the records of a log were written, as far as the log itself says, without fetching one.

LIST_OFFSETS with a time answers the first record that is not older; with time 0 that is the first one that has a
timestamp at all. With MAX_TIMESTAMP (KIP-734, version 7, brokers from 3.0 on) it answers the record with the largest
one. An older broker would take that word for a time, so it is not asked, and tells the first record alone.

What a timestamp is worth: with `message.timestamp.type=CreateTime`, the default, it is what the producer has set, right
or wrong; with `LogAppendTime` the leader's clock. The largest is not always that of the last record: a producer whose
clock is ahead holds it until its record is deleted. A broker looks for the largest in what is left of its files, which
go on for a while below a start that was raised; an answer from there is none. Compaction keeps the timestamps of what
it keeps, and of a tiered topic the largest is that of the local part.

Answering costs a broker reads from its files, cold ones for the first record: requests are small, one after another
for each leader, and those that find no time are left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from ha_core.kafka.brokers import Brokers, pages
from ha_core.kafka.deadline import Deadline
from ha_core.kafka.facts import LogEnds, RecordTimes
from ha_core.kafka.offsets import DEBUGGER, UNCOMMITTED, told
from ha_core.plan.facts import Partition

_FIRST, _LARGEST = 0, -3
_LARGEST_FROM_VERSION = 7
_MAX_PER_REQUEST = 500
"""A request occupies one of the broker's few handler threads: at 10 ms for a cold read, for 5 s."""
_NOTHING = RecordTimes(None, None)


def record_times(
    brokers: Brokers, ends: Mapping[Partition, LogEnds], deadline: Deadline
) -> dict[Partition, RecordTimes]:
    """Timestamps of the partitions of `ends`, asked at the leaders that told these.

    Information only, so nothing is repeated and nothing raised: partitions that were not told until the deadline are
    missing, and null stands for what a broker cannot tell.
    """
    found = {key: _NOTHING for key, one in ends.items() if one.start >= one.log_end}
    by_leader: dict[int, list[Partition]] = {}
    for key, one in ends.items():
        if key not in found and one.leader in brokers.nodes:
            by_leader.setdefault(one.leader, []).append(key)

    def ask(node: int, asked: list[Partition]) -> None:
        for page in pages(asked, _MAX_PER_REQUEST):
            if deadline.passed:
                return
            some = {key: ends[key] for key in page}
            first = _times(brokers, node, some, _FIRST, deadline)
            newest = _times(brokers, node, some, _LARGEST, deadline, _LARGEST_FROM_VERSION)
            found.update((key, RecordTimes(first.get(key), newest.get(key))) for key in some)

    brokers.on_each({node: partial(ask, node, asked) for node, asked in by_leader.items()})
    return found


def _times(
    brokers: Brokers,
    node: int,
    ends: Mapping[Partition, LogEnds],
    word: int,
    deadline: Deadline,
    least_version: int = 1,
) -> dict[Partition, int]:
    # As the debugging replica, like the log ends: records above the high watermark count.
    epochs = {key: one.leader_epoch for key, one in ends.items()}
    answers = told(brokers, node, ends, epochs, (DEBUGGER, UNCOMMITTED, word), deadline, least_version)
    return {
        key: one["timestamp"]
        for key, one in answers
        if not one["error_code"] and one["timestamp"] >= 0 and one["offset"] >= ends[key].start
    }
