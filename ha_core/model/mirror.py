"""A topic of one cluster that is copied to another, kept up to date all the time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple, Self

from pydantic import Field

from ha_core.model.document import Document

LEAST_BYTES_S = 1024
COPY_LOG = "switchyard-copies"
"""Unless a mirror names another one. No topic of users."""


class Run(NamedTuple):
    """Offsets `[source, source + records)` of the source lie at `[target, target + records)` of the copy."""

    source: int
    target: int
    records: int

    @property
    def after(self) -> int:
        """The source offset behind its last record."""
        return self.source + self.records

    @property
    def reversed(self) -> Run:
        """The same run of a mirror the other way."""
        return Run(self.target, self.source, self.records)


def begins_at(runs: Sequence[Run], copy_start: int) -> int:
    """The source offset from which on a copy still has the records that were copied to it; older ones were deleted.

    :param runs: ascending. There may be millions, and clients may wait for this.
    :param copy_start: where the copy's log starts.
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


class Mirror(Document):
    """`/mirrors/{topic}@{target}`. While it stands, the topic is copied; whoever has the topic's lock decides on it."""

    FOLDER = "/mirrors"
    KEY = "key"
    REPLICATED = True

    key: str
    topic: str
    source: str
    target: str
    link: str = Field(min_length=1)
    """Id of the operation that made it: notes of copiers begin with it, so those of an earlier mirror of the same topic
    mean nothing to this one."""
    since: str
    by: str
    log: str = COPY_LOG
    """Topic of the target with the notes of copiers (`ha_core.mirror.notes`)."""
    log_partitions: int = Field(default=16, ge=1, le=1000)
    """Of the copy log, which never gets more."""
    max_bytes_s: int | None = Field(default=None, ge=LEAST_BYTES_S)
    """Of all its partitions together; None: as fast as it goes. Kept by its copiers (`ha_core.mirror.pace`)."""
    held: str | None = None
    """Id of the operation that has taken the copy for itself: until that is over no job copies it."""
    settings_left_alone: tuple[str, ...] = ()
    """Patterns of settings that are not kept as in the source, besides those of `ha_core.plan.mirror.syncing`."""

    @classmethod
    def of(cls, topic: str, source: str, target: str, link: str, since: str, by: str, **more: Any) -> Self:
        """:param more: further fields."""
        key = f"{topic}@{target}"
        return cls(key=key, topic=topic, source=source, target=target, link=link, since=since, by=by, **more)
