"""LIST_OFFSETS, as the gateway and the admin ask it of brokers themselves."""

from collections.abc import Iterable, Mapping
from typing import Any

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
"""Words in the place of a time in milliseconds."""
CONSUMER = -1
"""The replica id of everything that is asked for clients. Another one says that a broker asks, which shows what is not
committed yet: of a client that is not for the gateway's account to say."""


def list_offsets(
    partitions: Iterable[tuple[str, int]],
    timestamp: int,
    isolation: int = 0,
    replica: int = CONSUMER,
    epochs: Mapping[tuple[str, int], int] = {},
) -> dict[str, Any]:
    """The same question of each partition.

    :param epochs: of their leaders, where a broker that is not the leader any more must not answer.
    """
    topics: dict[str, list[dict[str, int]]] = {}
    for topic, partition in partitions:
        epoch = epochs.get((topic, partition), -1)
        entry = {"partition_index": partition, "current_leader_epoch": epoch, "timestamp": timestamp}
        topics.setdefault(topic, []).append(entry)
    asked = [{"name": topic, "partitions": entries} for topic, entries in topics.items()]
    return {"replica_id": replica, "isolation_level": isolation, "topics": asked}
