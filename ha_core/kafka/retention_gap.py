"""Finds copies that have deleted only records that their sources may delete at any moment.

A copy rolls its segments at other offsets than its source, so with equal retention either log may delete first. Records
older than the source's own retention are not counted as missing.
"""

from __future__ import annotations

from collections.abc import Mapping

from ha_core.kafka.facts import LogEnds, TopicSpec
from ha_core.kafka.record_times import Times
from ha_core.plan.facts.clusters import Partition


def kept_ms(topic: TopicSpec) -> int | None:
    """How long the topic's brokers keep its records; None: without limit, limited by size only, or unknown."""
    settings = {**topic.defaults, **topic.config}
    value = settings.get("retention.ms", "")
    return int(value) if value.isdecimal() and "delete" in settings.get("cleanup.policy", "delete") else None


def outlived(
    source: Times,
    copies: Times,
    ends: Mapping[Partition, tuple[LogEnds, LogEnds]],
    kept: Mapping[str, int | None],
    now_ms: int,
) -> frozenset[Partition]:
    """Partitions whose copies begin with a record older than the retention of the source.

    :param ends: of source and copy, for partitions whose copy has deleted records that its source has.
    :param kept: topic → `kept_ms` of the source.
    """
    bounds = {key: now_ms - ms for key in ends if (ms := kept.get(key[0])) is not None}
    first = copies.record_times({key: ends[key][1] for key in bounds})
    begins = {key: one.first_ms for key, one in first.items() if one.first_ms is not None}
    # An empty copy has deleted even the newest record of its source.
    newest = source.record_times({key: ends[key][0] for key in bounds.keys() - begins.keys()})
    begins |= {key: one.newest_ms for key, one in newest.items() if one.newest_ms is not None}
    return frozenset(key for key, at_ms in begins.items() if at_ms < bounds[key])
