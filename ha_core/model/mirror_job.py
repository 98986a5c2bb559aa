"""The mirror job's documents: its leader, the shares of its tasks, their reports, copy positions, findings of syncs.

None is part of the state that gateways follow, and all can be deleted while the job does not run.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from ha_core.model.document import FEW_BYTES, Document, Part
from ha_core.model.mirror import Run

MAX_FINDINGS = 500
"""Per document."""
OffsetKind = Literal["client", "translated"]
"""Commits that a mirror brings to its target: client offsets as they are, or those of direct groups, translated by the
copy's map."""
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


class CopiedPartition(Part):
    """Offsets are the source's."""

    end: int = Field(ge=0)
    """The copy has all committed records below it, acknowledged by all in-sync replicas."""
    level: bool
    """The copy has nearly caught up with the source: a reader ahead of it does not wait for long."""
    steps: tuple[int, ...] = ()
    """The newest runs as deltas, three numbers for each (`runs`), which keeps long lists short as text."""
    start: int | None = None
    """Log start of the source: records below it are deleted there, even if the copy has them; None: 0."""

    @classmethod
    def of(cls, end: int, level: bool, runs: Iterable[Run], start: int | None = None) -> Self:
        """:param runs: ascending."""
        steps, source, target = list[int](), 0, 0
        for run in runs:
            steps += (run.source - source, run.target - target, run.records)
            source, target = run.after, run.target + run.records
        return cls(end=end, level=level, steps=tuple(steps), start=start or None)

    @property
    def runs(self) -> tuple[Run, ...]:
        """Decoded `steps`: distance from the end of the run before, in source and in copy, and number of records."""
        runs, source, target = list[Run](), 0, 0
        for at in range(0, len(self.steps) - 2, 3):
            run = Run(source + self.steps[at], target + self.steps[at + 1], self.steps[at + 2])
            source, target = run.after, run.target + run.records
            runs.append(run)
        return tuple(runs)


class CopiedMirror(Part):
    """The partitions of one mirror that a slot copies."""

    mirror: str
    """Key of the mirror."""
    link: str
    partitions: dict[int, CopiedPartition]


class MirrorCopies(SlotDocument):
    """`/mirror_copies/{slot}`, ephemeral: positions of the copies that the slot's task appends to. Bounded: gateways
    read partitions that are left out from their source.

    A known run never changes. So an old document is never wrong: a gateway that has one serves new records a little
    later.
    """

    FOLDER = "/mirror_copies"

    mirrors: tuple[CopiedMirror, ...] = ()


class SyncFinding(Part):
    """A difference between target and source."""

    what: Literal["partitions", "settings", "rights", "offsets"]
    about: str
    """`topic orders`, `group billing`, `cluster west`."""
    reason: str
    stop: bool = False
    """An operator has to act; else the difference is intended or heals by itself."""


class MirrorSync(Document):
    """`/mirror_syncs/{source}>{target}:{part}`: findings for all mirrors of one cluster in another. No revision: the
    last sync overwrites it."""

    FOLDER = "/mirror_syncs"
    KEY = "key"
    PLAIN_BYTES = FEW_BYTES

    key: str
    source: str
    target: str
    part: Literal["topics", "groups"]
    at: str
    """UTC, ISO 8601: start of the sync. Unchanged findings are written again only after some seconds."""
    looked_at: int = 0
    """Number of topics, or groups, compared."""
    kinds: dict[OffsetKind, int] = {}
    """Part `groups`: number of groups, by the kind of offsets that the target gets of them."""
    findings: tuple[SyncFinding, ...] = ()
    """Bounded: those that an operator has to act on come first."""
    left_out: int = 0
    """Number of findings left out."""

    @classmethod
    def of(
        cls,
        source: str,
        target: str,
        part: Literal["topics", "groups"],
        at: str,
        looked_at: int,
        findings: tuple[SyncFinding, ...],
        kinds: Mapping[OffsetKind, int] | None = None,
    ) -> Self:
        shown = sorted(findings, key=lambda finding: (not finding.stop, finding.about, finding.what))[:MAX_FINDINGS]
        return cls(
            key=f"{source}>{target}:{part}",
            source=source,
            target=target,
            part=part,
            at=at,
            looked_at=looked_at,
            kinds=dict(kinds or {}),
            findings=tuple(shown),
            left_out=len(findings) - len(shown),
        )
