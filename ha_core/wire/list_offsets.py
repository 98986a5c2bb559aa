"""LIST_OFFSETS, for requests of the gateway and the admin themselves."""

from collections.abc import Iterable, Mapping
from typing import Any

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
"""Constants in place of a time in milliseconds."""
CONSUMER = -1
"""The replica id of all requests on behalf of clients. Another id stands for a broker, which sees uncommitted records:
the gateway's account must not show those to a client."""


def list_offsets(
    partitions: Iterable[tuple[str, int]],
    timestamp: int,
    isolation: int = 0,
    replica: int = CONSUMER,
    epochs: Mapping[tuple[str, int], int] = {},
) -> dict[str, Any]:
    """A request with one timestamp for all partitions.

    :param epochs: leader epochs, to exclude answers of former leaders.
    """
    topics: dict[str, list[dict[str, int]]] = {}
    for topic, partition in partitions:
        epoch = epochs.get((topic, partition), -1)
        entry = {"partition_index": partition, "current_leader_epoch": epoch, "timestamp": timestamp}
        topics.setdefault(topic, []).append(entry)
    asked = [{"name": topic, "partitions": entries} for topic, entries in topics.items()]
    return {"replica_id": replica, "isolation_level": isolation, "topics": asked}
