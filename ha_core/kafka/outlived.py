"""Copies that have deleted only what their sources may delete at any moment.

Segments of a copy begin and end elsewhere than those of its source, so of two logs with the same retention either may
be the first to delete. What the source keeps no longer by its own retention is missed by nobody.
"""

from __future__ import annotations

from collections.abc import Mapping

from ha_core.kafka.facts import LogEnds, TopicSpec
from ha_core.kafka.record_times import Times
from ha_core.plan.facts import Partition


def kept_ms(topic: TopicSpec) -> int | None:
    """For how long the brokers of a topic keep its records; None: for ever, or as long as others are few, or nobody
    knows."""
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
    """Partitions whose copies begin with a record that its source need not have any more.

    :param ends: of source and copy, where the copy has deleted what its source has.
    :param kept: as of `kept_ms`, in the sources.
    """
    bounds = {key: now_ms - ms for key in ends if (ms := kept.get(key[0])) is not None}
    first = copies.record_times({key: ends[key][1] for key in bounds})
    begins = {key: one.first_ms for key, one in first.items() if one.first_ms is not None}
    # A copy without a record has deleted the newest one of its source as well.
    newest = source.record_times({key: ends[key][0] for key in bounds.keys() - begins.keys()})
    begins |= {key: one.newest_ms for key, one in newest.items() if one.newest_ms is not None}
    return frozenset(key for key, at_ms in begins.items() if at_ms < bounds[key])
