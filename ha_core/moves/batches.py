"""Changes of many topics, cut into revisions that ZooKeeper takes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ha_core.model import Topic

BATCH_BYTES = 300_000
BATCH_TOPICS = 200


def in_batches(topics: Iterable[Topic]) -> Iterator[tuple[Topic, ...]]:
    """`topics` in their order, so many at a time as one revision and its note and history entry hold."""
    batch: list[Topic] = []
    size = 0
    for topic in topics:
        length = len(topic.to_bytes())
        if batch and (size + length > BATCH_BYTES or len(batch) >= BATCH_TOPICS):
            yield tuple(batch)
            batch, size = [], 0
        batch.append(topic)
        size += length
    if batch:
        yield tuple(batch)
