"""Facts last recorded of a cluster while it answered: the only evidence once it does not.

One document for each topic and group of each cluster, replaced at every reading and kept when the cluster is gone. It
is not part of the state that gateways follow: planners use it only while its cluster does not answer.
"""

from ha_core.model.document import Document


class _Known(Document):
    KEY = "key"

    cluster: str
    name: str
    at: str
    """UTC, ISO 8601, taken before the first offset was read."""

    @property
    def key(self) -> str:
        return known_key(self.cluster, self.name)


class KnownTopic(_Known):
    """`/known_topics/{cluster}:{name}`. Offsets are the cluster's own."""

    FOLDER = "/known_topics"

    partitions: int
    replication: int
    config: dict[str, str] = {}
    """Only the topic's own settings."""
    defaults: dict[str, str] = {}
    """Brokers' defaults of relevant settings that the topic does not set; empty if an earlier version wrote this."""
    ends: dict[int, int] = {}
    """partition → log end. Partitions whose leader did not answer are missing."""
    fastest: float | None = None
    """Records per second: the highest rate of a partition between two readings. None: read only once."""
    starts: dict[int, int] = {}
    """partition → log start; empty if an earlier version wrote this."""
    look_s: float = 0.0
    """Seconds from reading the first offset to writing this, at most, on a monotonic clock."""


class KnownGroup(_Known):
    """`/known_groups/{cluster}:{name}`: a group's committed offsets: client offsets, or for a direct group
    those of the cluster."""

    FOLDER = "/known_groups"

    state: str = ""
    """As the coordinator reported it; empty if it did not."""
    offsets: dict[str, dict[int, int]] = {}
    """topic → partition → offset."""

    @property
    def committed(self) -> dict[tuple[str, int], int]:
        """`offsets` by (topic, partition)."""
        return {(topic, p): offset for topic, offsets in self.offsets.items() for p, offset in offsets.items()}


def known_key(cluster: str, name: str) -> str:
    """Key of both kinds of document; cluster names have no colon."""
    return f"{cluster}:{name}"
