"""What the job that copies mirrors keeps in the store: who leads it, who copies what, and how that stands.

None of it is part of the state that gateways follow, and all of it can be deleted while the job does not run.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import model_validator

from ha_core.model.document import FEW_BYTES, Document, Part

_OFFSETS = frozenset({"source", "source_end"})


class MirrorJob(Document):
    """`/mirror_jobs/{name}`, ephemeral: the driver that says who copies what. Others that run wait for its end."""

    FOLDER = "/mirror_jobs"

    name: str = "mirror"
    id: str
    """Drawn anew by whoever takes the lead."""
    host: str
    pid: int
    since: str


class MirrorShare(Part):
    """The partitions of one mirror that a slot copies, with all that its task has to know of the mirror."""

    mirror: str
    """Its key."""
    topic: str
    source: str
    target: str
    link: str
    log: str
    log_partitions: int
    partitions: tuple[int, ...]
    max_bytes_s: int | None = None
    """Of these partitions together."""


class OfSlot(Document):
    """Slots are counted from 0; each is one long-lived task at most."""

    PLAIN_BYTES = FEW_BYTES

    slot: int
    job: str
    """Id of the lead (`MirrorJob.id`); of a task: the one that started it."""

    @property
    def name(self) -> str:
        return str(self.slot)


class MirrorTask(OfSlot):
    """`/mirror_tasks/{slot}`: what the slot's task copies, if the job has started it. Others end when they read it."""

    FOLDER = "/mirror_tasks"

    shares: tuple[MirrorShare, ...] = ()
    max_bytes_s: int | None = None
    """Of all shares together."""


class PartitionReport(Part):
    """How a partition of a mirror stands. Offsets are the source's. None is unknown, which is never shown as 0."""

    mirror: str
    topic: str
    partition: int
    state: Literal["copying", "waiting", "stopped"]
    source: int | None = None
    """The next one to copy."""
    source_end: int | None = None
    """Of what is committed."""
    source_start: int | None = None
    """Where the source's log starts: what lies below was deleted there; None: at 0, or not known."""
    lag_records: int | None = None
    """Offsets that the source has acknowledged, also behind an open transaction, and the copy has not."""
    lag_bytes: int | None = None
    """An estimate (`ha_core.mirror.lag`); None: not known."""
    lag_ms: int | None = None
    """By the times of records, and what the source has not been heard of since; None: not known."""
    rpo_s: int | None = None
    """An estimate, rounded up: if the source were lost now, what was acknowledged there in so many seconds would be
    (`ha_core.mirror.lag`); None: not known."""
    bytes_s: int = 0
    reason: str = ""
    unheard_s: int | None = None
    """So long before this was written the source said its end last; None: it says it all the time, or never did."""

    @model_validator(mode="before")
    @classmethod
    def _unknown(cls, data: Any) -> Any:
        """Tasks of earlier versions write -1 where an offset is not known, and 0 for the lag beside it."""
        if not isinstance(data, dict):
            return data
        known = {name: value for name, value in data.items() if name not in _OFFSETS or value != -1}
        if data.get("source_end") == -1:
            known.pop("lag_records", None)
        return known

    def has(self, end: int) -> bool:
        """Whether all that the source has below `end` is known to be in the copy."""
        return self.source is not None and self.source >= end

    def within(self, records: int) -> bool:
        """Whether it is known to lack no more."""
        return self.lag_records is not None and self.lag_records <= records


class PairWork(Part):
    """What a task has copied from one cluster to another. It only grows."""

    id: str
    """Drawn anew by whoever begins to count from 0."""
    source: str
    target: str
    copied_bytes: int = 0
    copied_records: int = 0
    takeovers: int = 0


class MirrorReport(OfSlot):
    """`/mirror_reports/{slot}`, ephemeral: how its partitions stand. Whose session has the node has the slot."""

    FOLDER = "/mirror_reports"

    at: str = ""
    """UTC, ISO 8601. What stays as it is is told again some seconds later only."""
    partitions: tuple[PartitionReport, ...] = ()
    """Bounded: those that are not copying first, then those that lag most."""
    left_out: int = 0
    """How many more there are."""
    work: tuple[PairWork, ...] = ()
    """Of all partitions, also those that are left out."""
