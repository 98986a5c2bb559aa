"""What the job that copies mirrors keeps in the store: who leads it, who copies what, and how that stands.

None of it is part of the state that gateways follow, and all of it can be deleted while the job does not run.
"""

from __future__ import annotations

from typing import Literal

from ha_core.model.document import FEW_BYTES, Document, Part


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
    """How a partition of a mirror stands. Offsets are the source's; -1: not known."""

    mirror: str
    topic: str
    partition: int
    state: Literal["copying", "waiting", "stopped"]
    source: int = -1
    """The next one to copy."""
    source_end: int = -1
    """Of what is committed."""
    lag_records: int = 0
    lag_bytes: int | None = None
    """An estimate (`ha_core.mirror.behind`); None: not known."""
    lag_ms: int | None = None
    """By the times of records; None: not known."""
    rpo_s: int | None = None
    """An estimate, rounded up: if the source were lost now, what was acknowledged there in so many seconds would be
    (`ha_core.mirror.behind`); None: not known."""
    bytes_s: int = 0
    reason: str = ""


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
