"""The mirror job's documents: its leader, the shares of its tasks, and their reports.

None is part of the state that gateways follow, and all can be deleted while the job does not run.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import model_validator

from ha_core.model.document import FEW_BYTES, Document, Part

_OFFSETS = frozenset({"source", "source_end"})


class MirrorJob(Document):
    """`/mirror_jobs/{name}`, ephemeral: the driver that leads and assigns shares. Other drivers wait for its end."""

    FOLDER = "/mirror_jobs"

    name: str = "mirror"
    id: str
    """Random, new for each leader."""
    host: str
    pid: int
    since: str


class MirrorShare(Part):
    """The partitions of one mirror that a slot copies, with everything that its task needs of the mirror."""

    mirror: str
    """Key of the mirror."""
    topic: str
    source: str
    target: str
    link: str
    log: str
    log_partitions: int
    partitions: tuple[int, ...]
    max_bytes_s: int | None = None
    """For these partitions together."""


class SlotDocument(Document):
    """A document of a slot. Slots are numbered from 0; each has at most one long-lived task."""

    PLAIN_BYTES = FEW_BYTES

    slot: int
    job: str
    """Id of the leader (`MirrorJob.id`), or of the one that started the task."""

    @property
    def name(self) -> str:
        return str(self.slot)


class MirrorTask(SlotDocument):
    """`/mirror_tasks/{slot}`: shares of the slot's task, if `job` started it. Tasks of other jobs end on reading it."""

    FOLDER = "/mirror_tasks"

    shares: tuple[MirrorShare, ...] = ()
    max_bytes_s: int | None = None
    """For all shares together."""


class PartitionReport(Part):
    """State of a mirror's partition. Offsets are the source's. None is unknown, and never shown as 0."""

    mirror: str
    topic: str
    partition: int
    state: Literal["copying", "waiting", "stopped"]
    source: int | None = None
    """The next offset to copy."""
    source_end: int | None = None
    """The source's last stable offset."""
    source_start: int | None = None
    """Log start of the source; None: 0, or not known."""
    lag_records: int | None = None
    """Offsets that the source has acknowledged, also above an open transaction, and the copy lacks."""
    lag_bytes: int | None = None
    """An estimate (`ha_core.mirror.lag`); None: not known."""
    lag_ms: int | None = None
    """From the records' timestamps, plus the time since the source last answered; None: not known."""
    rpo_s: int | None = None
    """An estimate, rounded up: seconds of acknowledged records that would be lost with the source now
    (`ha_core.mirror.lag`); None: not known."""
    bytes_s: int = 0
    reason: str = ""
    unheard_s: int | None = None
    """Seconds since the source last reported its end; None: it answers, or never did."""

    @model_validator(mode="before")
    @classmethod
    def _unknown(cls, data: Any) -> Any:
        """Tasks of earlier versions write -1 for an unknown offset, and 0 for its lag."""
        if not isinstance(data, dict):
            return data
        known = {name: value for name, value in data.items() if name not in _OFFSETS or value != -1}
        if data.get("source_end") == -1:
            known.pop("lag_records", None)
        return known

    def has(self, end: int) -> bool:
        """Whether the copy is known to have all of the source below `end`."""
        return self.source is not None and self.source >= end

    def within(self, records: int) -> bool:
        """Whether the lag is known to be at most `records`."""
        return self.lag_records is not None and self.lag_records <= records


class PairWork(Part):
    """Counters of a task for one pair of clusters. They only grow."""

    id: str
    """Random, new whenever the counters restart from 0."""
    source: str
    target: str
    copied_bytes: int = 0
    copied_records: int = 0
    takeovers: int = 0


class MirrorReport(SlotDocument):
    """`/mirror_reports/{slot}`, ephemeral: states of the slot's partitions. The session that owns the node owns the
    slot."""

    FOLDER = "/mirror_reports"

    at: str = ""
    """UTC, ISO 8601. An unchanged report is written again only after some seconds."""
    partitions: tuple[PartitionReport, ...] = ()
    """Bounded: partitions that are not copying come first, then those with the most lag."""
    left_out: int = 0
    """Number of partitions left out."""
    work: tuple[PairWork, ...] = ()
    """Over all partitions, also those left out."""
