"""Facts that the adapter reads from clusters, and specs that it executes, as frozen values."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ha_core.wire.assignment import assigned_topics


@dataclass(frozen=True, slots=True)
class LogEnds:
    """One partition's offsets, all from its leader, read in the order of the fields (see `offsets`)."""

    start: int
    last_stable: int
    high_watermark: int
    log_end: int
    leader: int
    leader_epoch: int

    @property
    def replicated(self) -> bool:
        """True if every in-sync replica has all that the leader has appended: a clean election cannot lose any of
        it."""
        return self.high_watermark == self.log_end

    @property
    def open_transaction(self) -> bool:
        """True if a transaction was open, or records were not replicated yet, when the offsets were read."""
        return self.last_stable < self.log_end

    @property
    def never_used(self) -> bool:
        return self.start == 0 == self.log_end


@dataclass(frozen=True, slots=True)
class RecordTimes:
    """Timestamps of a partition's records in milliseconds, as in the log; None: no such record, or unknown."""

    first_ms: int | None
    """Timestamp of the first record that has one."""
    newest_ms: int | None
    """The largest; `docs/design/spark-jobs.md`, *Timestamps*, says whose clock that is."""


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """Everything that another cluster needs to create a like topic."""

    name: str
    partitions: int
    replication: int
    config: Mapping[str, str] = field(default_factory=dict)
    """Settings of the topic itself, without the brokers' defaults."""
    defaults: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    """Defaults of its brokers for all other settings."""


@dataclass(frozen=True, slots=True)
class CreatedTopics:
    """`notes` list settings that could not be copied."""

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
    """A group as its coordinator reports it. A group that does not exist has the state `Dead`."""

    name: str
    state: str
    protocol_type: str
    protocol: str
    members: tuple[MemberDescription, ...]
    coordinator: int

    @property
    def assigned(self) -> frozenset[str]:
        """Topics of which its members have partitions."""
        return frozenset[str]().union(*(assigned_topics(member.assignment) for member in self.members))


@dataclass(frozen=True, slots=True)
class Adopted:
    """A group joined on its members' behalf. `members`: member id in the origin → member id here."""

    group: str
    generation: int
    members: Mapping[str, str]
