"""A topic of one cluster that is copied to another, kept up to date all the time."""

from __future__ import annotations

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
    """Patterns of settings that are not kept as in the source, besides those of `ha_core.plan.syncing`."""

    @classmethod
    def of(cls, topic: str, source: str, target: str, link: str, since: str, by: str, **more: Any) -> Self:
        """:param more: further fields."""
        key = f"{topic}@{target}"
        return cls(key=key, topic=topic, source=source, target=target, link=link, since=since, by=by, **more)
