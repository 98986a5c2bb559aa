"""Clusters with logs, and requests for their offsets."""

from collections.abc import Mapping
from typing import Any

from gateway.composed.ask import Ask
from gateway.composed.offsets import list_offsets
from ha_core.model import Topic
from ha_core.wire.codes import ApiKey
from tests.gateway.composed.playbook import Playbook, moved, only_partition, requested, world

LATEST, EARLIEST, MAX = -1, -2, -3
"""Timestamps of log ends."""
HOLDS = {"orders": {0: 1, 1: 1}}


def ask(timestamp: int, topic: str = "orders", partition: int = 0, isolation: int = 0) -> dict[str, Any]:
    partitions = [{"partition_index": partition, "current_leader_epoch": 3, "timestamp": timestamp}]
    return requested(
        ApiKey.LIST_OFFSETS,
        7,
        replica_id=-1,
        isolation_level=isolation,
        topics=[{"name": topic, "partitions": partitions}],
    )


def log(start: int = 0, end: int = 0, times: Mapping[int, int] | None = None) -> Any:
    """A cluster whose logs run from start to end; `times`: offset → timestamp of the record there."""
    held = dict(times or {})

    def answer(ask: Ask) -> dict[str, Any]:
        def one(timestamp: int) -> tuple[int, int]:
            if timestamp in (LATEST, EARLIEST):
                return -1, end if timestamp == LATEST else start
            if timestamp == MAX:
                return max(((t, o) for o, t in held.items()), default=(-1, -1))
            return next(((t, o) for o, t in sorted(held.items()) if t >= timestamp), (-1, -1))

        topics = []
        for topic in ask.message["topics"]:
            partitions = []
            for p in topic["partitions"]:
                assert p["current_leader_epoch"] == -1
                timestamp, offset = one(p["timestamp"])
                answer = {"partition_index": p["partition_index"], "leader_epoch": 9}
                partitions.append(answer | {"timestamp": timestamp, "offset": offset})
            topics.append({"name": topic["name"], "partitions": partitions})
        return {"topics": topics}

    return answer


def listed(
    timestamp: int, east: Any, west: Any, topic: Topic | None = None, isolation: int = 0
) -> tuple[int, int, int]:
    """(error, timestamp, offset) of partition 0 of `orders`."""
    context = world(east=HOLDS, west=HOLDS, topics=(topic or moved(),), port=("west", 1))
    play = Playbook(list_offsets(context, 7, ask(timestamp, isolation=isolation)))
    assert all(a.message["isolation_level"] == isolation for a in play.asks if timestamp != EARLIEST)
    play.answers({"east": east, "west": west})
    partition = only_partition(play.encodes(ApiKey.LIST_OFFSETS, 7))
    assert partition["leader_epoch"] == -1
    return partition["error_code"], partition["timestamp"], partition["offset"]
