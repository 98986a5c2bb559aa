"""Producers that bypass the gateways: a log has grown under a fence that every gateway had drained."""

from __future__ import annotations

from collections.abc import Mapping

from ha_core.plan.facts.clusters import Partition
from ha_core.plan.facts.verdict import Verdict, error, listed

MAX_TOPICS = 20
"""Per entry of an operation's history."""


def past_gateways(cluster: str, grown: Mapping[Partition, tuple[int, int]], way: str) -> tuple[Verdict, ...]:
    """A verdict for each topic.

    :param grown: partition → its log end before and after, in the cluster's own offsets.
    :param way: the way out.
    """
    by_topic: dict[str, dict[int, tuple[int, int]]] = {}
    for (topic, partition), ends in sorted(grown.items()):
        by_topic.setdefault(topic, {})[partition] = ends
    return tuple(
        error(
            "past-gateways",
            f"topic {topic}",
            f"A producer writes to topic {topic} in {cluster} without passing through the gateways: "
            f"{listed(f'partition {p} went from {low} to {high}' for p, (low, high) in found.items())}.",
            way,
            number=sum(high - low for low, high in found.values()),
            unit="offsets",
        )
        for topic, found in list(by_topic.items())[:MAX_TOPICS]
    )
