"""What was last seen of a cluster while it answered: all there is to go by when it no longer does.

One document for each topic and group of each cluster, replaced at every look and kept when the cluster is gone. It is
no part of the state that gateways follow: nothing is decided on it while its cluster can be asked.
"""

from __future__ import annotations

from ha_core.model.document import Document


class _Known(Document):
    KEY = "key"

    cluster: str
    name: str
    at: str
    """UTC, ISO 8601: before the first of the offsets was read."""

    @property
    def key(self) -> str:
        return known_key(self.cluster, self.name)


class KnownTopic(_Known):
    """`/known_topics/{cluster}:{name}`. Offsets are the cluster's own."""

    FOLDER = "/known_topics"

    partitions: int
    replication: int
    config: dict[str, str] = {}
    """Only what was set for the topic itself."""
    defaults: dict[str, str] = {}
    """What its brokers go by where it is silent, of the settings that matter; empty where an earlier version looked."""
    ends: dict[int, int] = {}
    """partition → log end; those whose leader did not answer are missing."""
    fastest: float | None = None
    """Records per second: most that a partition has got between two looks. None: it was not looked at twice."""
    starts: dict[int, int] = {}
    """partition → where its log starts; empty where an earlier version looked."""
    look_s: float = 0.0
    """How long before it was written the first of the offsets was read, at most; by a clock that nobody sets."""


class KnownGroup(_Known):
    """`/known_groups/{cluster}:{name}`: what a group had committed, in client offsets."""

    FOLDER = "/known_groups"

    state: str = ""
    """As the coordinator said it; empty where it did not."""
    offsets: dict[str, dict[int, int]] = {}
    """topic → partition → offset."""

    @property
    def committed(self) -> dict[tuple[str, int], int]:
        """The same by (topic, partition)."""
        return {(topic, p): offset for topic, offsets in self.offsets.items() for p, offset in offsets.items()}


def known_key(cluster: str, name: str) -> str:
    """The name of both kinds of document; cluster names have no colon."""
    return f"{cluster}:{name}"
