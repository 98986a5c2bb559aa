"""Mirrors: topics of one cluster that are copied to another all the time; and tails that a forced move lost."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple, Self

from pydantic import Field

from ha_core.model.document import FEW_BYTES, Document, Part
from ha_core.model.extent import Extents

LEAST_BYTES_S = 1024
COPY_LOG = "switchyard-copies"
"""Default topic of the copy log. Not a topic of users."""


class Run(NamedTuple):
    """Offsets `[source, source + records)` of the source are at `[target, target + records)` of the copy."""

    source: int
    target: int
    records: int

    @property
    def after(self) -> int:
        """The source offset after its last record."""
        return self.source + self.records

    @property
    def reversed(self) -> Run:
        """This run in a mirror of the opposite direction."""
        return Run(self.target, self.source, self.records)


def begins_at(runs: Sequence[Run], copy_start: int) -> int:
    """The lowest source offset whose record is still in the copy; retention has deleted those below.

    :param runs: ascending. There may be millions, and clients may wait for this.
    :param copy_start: log start of the copy.
    """
    at = bisect_right(runs, copy_start, key=lambda run: run.target + run.records)
    if at == len(runs):
        return runs[-1].after if runs else 0
    return runs[at].source + max(0, copy_start - runs[at].target)


def copied_between(runs: Sequence[Run], low: int, high: int) -> int:
    """Number of records of `runs` (see `begins_at`) at source offsets `[low, high)`."""
    first = bisect_right(runs, low, key=lambda run: run.after)
    last = bisect_right(runs, high - 1, lo=first, key=lambda run: run.source)
    if first == last or low >= high:
        return 0
    cut_off = max(0, low - runs[first].source) + max(0, runs[last - 1].after - high)
    return sum(run.records for run in islice(runs, first, last)) - cut_off


class MirrorPolicy(Part):
    """How a topic is copied, as an operator decided it. The mirror that follows another one keeps its policy."""

    max_bytes_s: int | None = Field(default=None, ge=LEAST_BYTES_S)
    """Limit for all partitions together; None: none. Its copiers keep it (`ha_core.mirror.pace`)."""
    settings_left_alone: tuple[str, ...] = ()
    """Patterns of settings that are not synced, besides those of `ha_core.plan.mirror.syncing`."""
    remove_revoked_rights: bool = False
    """Whether access rules that this mirror has brought to the target go there when they have gone in the source."""

    @property
    def policy(self) -> dict[str, Any]:
        """As fields of another document."""
        return {name: value for name, value in self if name in MirrorPolicy.model_fields}


class Mirror(Document, MirrorPolicy):
    """`/mirrors/{topic}@{target}`. While it exists, the topic is copied; the operation that locks the topic owns it."""

    FOLDER = "/mirrors"
    KEY = "key"
    REPLICATED = True

    key: str
    topic: str
    source: str
    target: str
    link: str = Field(min_length=1)
    """Id of the operation that created it. Copiers' notes begin with it, so copiers ignore the notes of an earlier
    mirror of the topic."""
    since: str
    by: str
    log: str = COPY_LOG
    """Topic of the target with the copiers' notes (`ha_core.mirror.notes`)."""
    log_partitions: int = Field(default=16, ge=1, le=1000)
    """Partitions of the copy log, which never grows."""
    held: str | None = None
    """Id of the operation that has reserved the copy: no job copies until it is over."""

    @classmethod
    def of(cls, topic: str, source: str, target: str, link: str, since: str, by: str, **more: Any) -> Self:
        """:param more: further fields."""
        key = f"{topic}@{target}"
        return cls(key=key, topic=topic, source=source, target=target, link=link, since=since, by=by, **more)


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
