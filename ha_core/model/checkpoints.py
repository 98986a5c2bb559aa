"""Checkpoints of direct groups: the offsets at which they resume in a mirror's target."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

from ha_core.model.document import FEW_BYTES, Document


class GroupCheckpoints(Document):
    """`/checkpoints/{source}>{target}:{group}`: a group's translated commits in the target. It has no revision.

    Checkpoints show which numbers in the target's coordinator are translated. A number without a checkpoint may be the
    source's number, which a sync has carried over unchanged.
    """

    FOLDER = "/checkpoints"
    KEY = "key"
    PLAIN_BYTES = FEW_BYTES

    source: str
    target: str
    group: str
    at: str
    """UTC, ISO 8601."""
    links: dict[str, str] = {}
    """Topic → link id of the mirror whose map translated the commits."""
    offsets: dict[str, dict[int, tuple[int, int]]] = {}
    """Topic → partition → (offset in the source, offset in the target)."""

    @property
    def key(self) -> str:
        return checkpoint_key(self.source, self.target, self.group)

    @classmethod
    def of(
        cls,
        source: str,
        target: str,
        group: str,
        at: str,
        links: dict[str, str],
        offsets: dict[str, dict[int, tuple[int, int]]],
    ) -> Self:
        return cls(source=source, target=target, group=group, at=at, links=links, offsets=offsets)

    def valid(self, links: Mapping[str, str]) -> dict[tuple[str, int], tuple[int, int]]:
        """Partition → (offset in the source, offset in the target), for mirrors that still have these link ids."""
        return {
            (topic, partition): pair
            for topic, partitions in self.offsets.items()
            if topic in links and links[topic] == self.links.get(topic)
            for partition, pair in partitions.items()
        }


def checkpoint_key(source: str, target: str, group: str = "") -> str:
    """The document's key; without a group, the prefix of the keys of a pair of clusters. Cluster names contain neither
    `>` nor `:`."""
    return f"{source}>{target}:{group}"
