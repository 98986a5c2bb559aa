"""Changes of many topics, cut into revisions that ZooKeeper takes.

A batch is one operation: its locks, its revision and its entry in the history are written as wholes, and a conflict on
one topic puts all of it off. Maps are small as stored; for most changes it is the history that fills up first.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ha_core.model import Topic
from ha_core.store.documents import to_bytes

BATCH_BYTES = 300_000
"""Of maps as stored, and of details; each is a write of its own, of which ZooKeeper takes 1 MiB."""
BATCH_TOPICS = 200


def in_batches(topics: Iterable[Topic], details: Mapping[str, Any]) -> Iterator[tuple[Topic, ...]]:
    """`topics` in their order, so many at a time as one revision with its note, and one history entry, hold.

    :param details: topic → what the history will say of it, JSON-able.
    """
    batch: list[Topic] = []
    stored = said = 0
    for topic in topics:
        map_bytes, detail_bytes = len(to_bytes(topic)), len(json.dumps(details.get(topic.name)))
        full = max(stored + map_bytes, said + detail_bytes) > BATCH_BYTES or len(batch) >= BATCH_TOPICS
        if batch and full:
            yield tuple(batch)
            batch, stored, said = [], 0, 0
        batch.append(topic)
        stored += map_bytes
        said += detail_bytes
    if batch:
        yield tuple(batch)
