"""Records that a cluster had and its mirror lacked when a forced move made the copy the writer."""

from __future__ import annotations

from pydantic import Field

from ha_core.model.document import FEW_BYTES, Document, Part
from ha_core.model.extent import Extents
from ha_core.model.mirror import MirrorPolicy


class Tail(Part):
    """The lost tail of a partition. Offsets are those of the failed cluster."""

    mirrored: int = Field(ge=0)
    """The first offset that was not mirrored."""
    client: int = Field(ge=0)
    """The client offset that it would have had."""
    start: int | None = None
    """Start of the tail: `mirrored`, or the log start if that is above; None: not read yet."""
    end: int | None = None
    """Log end, exclusive."""
    records: int | None = None
    bytes_: int | None = Field(default=None, alias="bytes")
    aborted: int | None = None
    """Records of aborted transactions, not counted in `records`; None: an earlier version counted them there."""
    differs_at: int | None = None
    """The first compared offset below `mirrored` at which log and copy differ."""
    difference: str = ""
    below: Extents = ()
    """The newest extents of the cluster up to `client`: if the copy's cluster dies as well, readers use them again."""


class LostTail(Document, MirrorPolicy):
    """`/lost_tails/{topic}@{cluster}:{operation}`: records in the log of `cluster` that no extent has.

    The cut's revision writes it, reconciling fills it in when the cluster is back, and its records are never served.
    """

    FOLDER = "/lost_tails"
    KEY = "key"
    REVISED = True
    PLAIN_BYTES = FEW_BYTES

    key: str
    topic: str
    cluster: str
    """The failed cluster; its copy was in `target`."""
    target: str
    operation: str
    """The forced move."""
    since: str
    link: str
    """Link id of the mirror that copied it; its notes allow a reversal."""
    log: str
    """Topic of `target` with these notes."""
    log_partitions: int = Field(ge=1)
    partitions: dict[int, Tail] = {}
    counted: str | None = None
    """When all partitions had been counted in the returned cluster."""

    @classmethod
    def key_of(cls, topic: str, cluster: str, operation: str) -> str:
        return f"{topic}@{cluster}:{operation}"

    @classmethod
    def named_by(cls, key: str) -> tuple[str, str]:
        """Topic and cluster of the key. Neither contains its separators, so this needs no readable document."""
        topic, _, rest = key.partition("@")
        return topic, rest.partition(":")[0]
