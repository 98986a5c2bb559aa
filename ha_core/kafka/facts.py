"""What the adapter learns of a cluster and what it is told to make, as frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ha_core.wire.assignment import assigned_topics


@dataclass(frozen=True, slots=True)
class LogEnds:
    """One partition's offsets, all from its leader; read in the order of the fields (see `offsets`)."""

    start: int
    last_stable: int
    high_watermark: int
    log_end: int
    leader: int
    leader_epoch: int

    @property
    def replicated(self) -> bool:
        """All that the leader has appended is on every in-sync replica: no clean election can take it away."""
        return self.high_watermark == self.log_end

    @property
    def open_transaction(self) -> bool:
        """A transaction was open, or records were not replicated yet, when the offsets were read."""
        return self.last_stable < self.log_end

    @property
    def never_used(self) -> bool:
        return self.start == 0 == self.log_end


@dataclass(frozen=True, slots=True)
class RecordTimes:
    """Timestamps of a partition's records in milliseconds, as the log has them; None: no such record, or not told."""

    first_ms: int | None
    """Of the first record that has one."""
    newest_ms: int | None
    """The largest; `docs/design/spark-jobs.md`, *Timestamps*, says whose clock that is."""


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """What another cluster needs to make the like of a topic."""

    name: str
    partitions: int
    replication: int
    config: Mapping[str, str] = field(default_factory=dict)
    """What was set on the topic itself; the brokers' defaults are not in it."""
    defaults: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    """What the brokers that have it go by where it is silent."""


@dataclass(frozen=True, slots=True)
class CreatedTopics:
    """`notes` say in words what could not be carried over."""

    created: tuple[str, ...] = ()
    existing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A live member of a group. Metadata and assignment are the clients' own bytes."""

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    metadata: bytes = field(repr=False)
    assignment: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group as its coordinator knows it. A group that does not exist has the state `Dead`."""

    name: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[MemberDescription, ...]
    coordinator: int

    @property
    def assigned(self) -> frozenset[str]:
        """Topics that its members have partitions of."""
        return frozenset[str]().union(*(assigned_topics(member.assignment) for member in self.members))


@dataclass(frozen=True, slots=True)
class Adopted:
    """A group that was joined on its members' behalf. `members`: member id in the origin → member id here."""

    group: str
    generation: int
    members: Mapping[str, str]
