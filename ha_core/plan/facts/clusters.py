"""Facts read from clusters before a move, as frozen values: planners judge these, and do no I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal, NamedTuple

from ha_core.model import Run
from ha_core.plan.facts.verdict import amount, duration

Partition = tuple[str, int]
"""(topic, partition)."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """How a cluster answered the service account."""

    name: str
    reachable: bool
    error: str = ""
    """Why it is not usable, in words; empty: it is."""
    refused: bool = False
    """It answered, but refuses the service account or one of its rights; it is not dead."""
    answers: bool = False
    """It is not reachable, but a part of it is alive, such as one broker of three; it is not dead."""
    brokers: tuple[int, ...] = ()
    """Ids of the live brokers."""
    describe_producers: bool = True
    """DESCRIBE_PRODUCERS is offered (Kafka 2.8 and newer)."""
    topic_defaults: Mapping[str, str] = field(default_factory=dict)
    """Brokers' defaults of relevant topic settings; empty: not known."""
    limits: Mapping[str, str] = field(default_factory=dict)
    """Values of the settings in `plan/preflight/clusters`; empty: not known."""


class Replicas(NamedTuple):
    """Replicas of one partition, as its cluster reports them."""

    in_sync: int
    assigned: int


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """A transaction that has written to a partition and has not ended there."""

    partition: int
    offset: int
    """Its first offset there."""
    age_s: float
    """Time since its last write there, by its producer's clock."""
    transactional_id: str = ""
    """Empty: no coordinator knows it."""
    hanging: bool = False
    """No coordinator knows it any more, and it is too old to be in flight: it never ends by itself (KIP-664)."""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """One topic in one cluster. Offsets are that cluster's own; partitions that did not answer are missing."""

    exists: bool
    partitions: int = 0
    config: Mapping[str, str] = field(default_factory=dict)
    """Only the topic's own settings."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """Brokers' defaults of relevant settings that the topic does not set."""
    starts: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    """Log ends, including records above the high watermark."""
    replication: int = 0
    transactional: bool = False
    """Its leaders remember transactional producers."""
    transactional_ids: tuple[str, ...] = ()
    """Ids of these producers, as far as coordinators report them."""
    open_transactions: tuple[OpenTransaction, ...] = ()
    producers: int = 0
    """Producers that its leaders remember, summed over partitions."""
    replicas: Mapping[int, Replicas] = field(default_factory=dict)
    default_min_in_sync: int = 1
    """Brokers' default of `min.insync.replicas`."""
    age_s: float | None = None
    """None: read just now. Else the cluster does not answer, and these facts were recorded so long ago."""
    fastest: float | None = None
    """See `KnownTopic`."""
    leaderless: Mapping[int, int | None] = field(default_factory=dict)
    """Partitions that no live broker can lead without data loss → last known log end; None: unknown. Filled only if
    the cluster answers."""
    leaderless_age_s: float | None = None
    """Age of these log ends."""

    @property
    def compacted(self) -> bool:
        return "compact" in self.config.get("cleanup.policy", "")

    @property
    def own_min_in_sync(self) -> int | None:
        """The topic's own setting."""
        value = self.config.get("min.insync.replicas", "")
        return int(value) if value.isdecimal() else None

    @property
    def min_in_sync(self) -> int:
        """Replicas that have to be in sync for produce with acks=all."""
        return self.default_min_in_sync if self.own_min_in_sync is None else self.own_min_in_sync


def may_have_members(state: str, members: Collection[str] = ()) -> bool:
    """Whether a group has members, is getting some, or may have some: an unknown state counts as live."""
    return bool(members) or state not in {"Empty", "Dead"}


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """One consumer group as its coordinator knows it. A group that does not exist has state `Dead` and no offsets."""

    state: str = "Dead"
    protocol_type: str = ""
    members: tuple[str, ...] = ()
    """Member ids."""
    offsets: Mapping[Partition, int] = field(default_factory=dict)
    """Committed offsets: client offsets, or physical ones of a direct group (`View.direct`)."""
    age_s: float | None = None
    """See `TopicFacts`. Recorded facts have no members."""

    @property
    def may_have_members(self) -> bool:
        return may_have_members(self.state, self.members)

    @property
    def words(self) -> str:
        if self.age_s is not None:
            return f"last seen {duration(self.age_s)} ago{f' as {self.state}' if self.state else ''}"
        return f"{self.state}, {amount(len(self.members), 'member')}"


@dataclass(frozen=True, slots=True)
class Facts:
    """All facts of a pre-flight. Those that were not, or could not be, read are missing."""

    clusters: dict[str, ClusterFacts] = field(default_factory=dict)
    topics: dict[tuple[str, str], TopicFacts] = field(default_factory=dict)
    """By (cluster, topic)."""
    groups: dict[tuple[str, str], GroupFacts] = field(default_factory=dict)
    """By (cluster, group)."""

    def also(self, more: Facts) -> Facts:
        """Both facts; `more` wins."""
        return Facts(self.clusters | more.clusters, self.topics | more.topics, self.groups | more.groups)

    def topic(self, cluster: str, topic: str) -> TopicFacts | None:
        return self.topics.get((cluster, topic))

    def group(self, cluster: str, group: str) -> GroupFacts | None:
        return self.groups.get((cluster, group))


@dataclass(frozen=True, slots=True)
class ProducerFacts:
    """A producer in the memory of a partition's leader (DESCRIBE_PRODUCERS). Ids are that cluster's own.

    The last two fields are -1 unless the leader itself was asked.
    """

    producer_id: int
    epoch: int
    last_sequence: int
    """-1: none."""
    last_timestamp_ms: int
    coordinator_epoch: int = -1
    transaction_start_offset: int = -1
    """-1: no transaction is open."""

    @property
    def transactional(self) -> bool:
        return self.coordinator_epoch >= 0 or self.in_transaction

    @property
    def in_transaction(self) -> bool:
        return self.transaction_start_offset >= 0


@dataclass(frozen=True, slots=True)
class Surplus:
    """Producers in the headers of an origin's batches at and above a cut. Ids are the origin's own."""

    first: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """Producer id → (epoch, first sequence) of its first batch there, including a batch that contains the cut."""
    whole: bool = True
    """False: offsets are missing by compaction or deletion, so a producer's first record may be among them."""


@dataclass(frozen=True, slots=True)
class PartitionEnds:
    """Log ends of one partition on both sides, read under the fence, in each cluster's own offsets."""

    target: int
    origin: int | None = None
    """None: the origin does not answer."""
    _: KW_ONLY
    seen: int | None = None
    """Log end of the origin when it was last read."""
    seen_age_s: float | None = 0.0
    """Age of `seen`; None: not known."""
    known: int | None = None
    """Highest *client* offset that groups have committed, here or in another cluster."""
    origin_start: int = 0
    """Log start of the origin, now or when it was last read."""
    deleted_below: int = 0
    """*Client* offset below which a deletion was confirmed to clients (`DeletedRecords`)."""
    target_start: int = 0
    """Log start of the target. A copy has deleted copied records below this."""


@dataclass(frozen=True, slots=True)
class CopyLag:
    """Lag of a partition's copy in its copier's last report."""

    state: Literal["copying", "waiting", "stopped"]
    """`waiting`: a takeover follows in a moment. `stopped`: an operator has to act."""
    records: int | None
    """Acknowledged in the source then, and missing in the copy; None: not known."""
    ms: int | None
    """Age of the oldest of them; None: not known."""
    age_s: float
    """Time since the source reported its end, as far as the report knows."""
    reason: str = ""
    """Why it is not copying."""
    reached: int | None = None
    """The first source offset that was not in the copy; None: not known."""


@dataclass(frozen=True, slots=True)
class CopyFacts:
    """State of a copy at its takeover. Offsets are those of its two clusters."""

    mirrored: int
    """The first source offset that is not in the copy."""
    runs: tuple[Run, ...] = ()
    producers: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """Producer id in the source → (epoch, last sequence) in the copy; the last writers come last."""
    whole: bool = False
    """The runs are all that the mirror ever had. Else the source keeps what is below the first one."""


Ends = Mapping[Partition, PartitionEnds]
Producers = Mapping[Partition, Sequence[ProducerFacts] | None]
"""None, or missing: not known."""


class TopicSetting(NamedTuple):
    """The effective value of one topic setting in its brokers."""

    value: str | None
    """None: brokers do not reveal it."""
    own: bool
    """Set for the topic itself; else a default."""
    default: str | None = None
    """If it is the topic's own: the brokers' default. None: not known."""

    @property
    def beneath(self) -> str | None:
        """The brokers' default; None: not known."""
        return self.default if self.own else self.value


@dataclass(frozen=True, slots=True)
class Trial:
    """Result of validating a topic's creation in a cluster. Nothing was created."""

    unknown: Mapping[str, str] = field(default_factory=dict)
    """Settings that it does not know, with their values: the topic is created without them."""
    refused: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Setting → its value, and why that is refused."""
    why: str = ""
    """Why the topic is refused with any settings; empty: it is not."""


class ListedTopic(NamedTuple):
    """A topic as METADATA lists it.

    :ivar topic_id: in hexadecimal; "": its brokers have no topic ids (before Kafka 2.8).
    :ivar error: why the cluster did not describe it; "": it did.
    """

    partitions: int
    topic_id: str = ""
    error: str = ""


class DescribedSetting(NamedTuple):
    """A setting of a topic, as DESCRIBE_CONFIGS has it.

    :ivar level: Kafka's number of the level that sets it: 1 the topic, 2 a broker, 3 all brokers, 4 a broker's file,
        5 Kafka's default.
    """

    name: str
    value: str | None
    level: int
    read_only: bool = False
    sensitive: bool = False


BrokerQuotaEntity = tuple[tuple[str, str | None], ...]
"""An entity of the brokers' quotas: (type, name; None: the default of that type), in the order of types."""


def quota_entity_words(entity: BrokerQuotaEntity) -> str:
    return ", ".join(f"{kind} {'(default)' if name is None else name}" for kind, name in entity)


class BrokerAcl(NamedTuple):
    """One access rule of a cluster (an ACL), for a resource of any type. The numbers are Kafka's."""

    resource_type: int
    pattern: int
    name: str
    principal: str
    host: str
    operation: int
    permission: int


class TopicAcl(NamedTuple):
    """One access rule for topics (an ACL). Numbers of operations are Kafka's."""

    pattern: Literal["literal", "prefixed"]
    name: str
    """Name of a topic, `*` for all, or a prefix."""
    principal: str
    host: str
    operation: int
    allows: bool
    """False: it denies."""
