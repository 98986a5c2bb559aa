"""What a cluster had and its mirror had not, when the writer changed to the copy by force."""

from __future__ import annotations

from pydantic import Field

from ha_core.model.document import FEW_BYTES, Document, Part
from ha_core.model.extent import Extents


class Tail(Part):
    """Of a partition. Offsets are those of the cluster that had failed."""

    mirrored: int = Field(ge=0)
    """The first offset that was not mirrored."""
    client: int = Field(ge=0)
    """The client offset that it would have been."""
    start: int | None = None
    """Where the tail begins, `mirrored` or the log's start, if that is above it; None: not looked at yet."""
    end: int | None = None
    """Of its log, exclusive."""
    records: int | None = None
    bytes_: int | None = Field(default=None, alias="bytes")
    aborted: int | None = None
    """Records beside `records` of transactions that were aborted; None: an earlier version counted them among these."""
    differs_at: int | None = None
    """The first offset below `mirrored`, of those that were compared, at which the log is not what the copy has."""
    difference: str = ""
    below: Extents = ()
    """What the cluster had of the map up to `client`, the newest: if the copy's cluster dies as well, it is read there
    again."""


class LostTail(Document):
    """`/lost_tails/{topic}@{cluster}:{operation}`: what lies in the log of `cluster` and in no extent.

    It is written in the revision of the cut, filled in when the cluster is back, and never served.
    """

    FOLDER = "/lost_tails"
    KEY = "key"
    REVISED = True
    PLAIN_BYTES = FEW_BYTES

    key: str
    topic: str
    cluster: str
    """That had failed; its copy was in `target`."""
    target: str
    operation: str
    """The forced move."""
    since: str
    link: str
    """Of the mirror that had copied it, by whose notes it can be turned round."""
    log: str
    """Topic of `target` with the notes."""
    log_partitions: int = Field(ge=1)
    settings_left_alone: tuple[str, ...] = ()
    max_bytes_s: int | None = None
    """Both of the mirror."""
    partitions: dict[int, Tail] = {}
    counted: str | None = None
    """When the cluster was back, and all of it was looked at."""

    @classmethod
    def key_of(cls, topic: str, cluster: str, operation: str) -> str:
        return f"{topic}@{cluster}:{operation}"
