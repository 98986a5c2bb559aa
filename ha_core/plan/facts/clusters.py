"""What was learnt of clusters before a move, as frozen values: the planners judge these, and never ask themselves."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Literal, NamedTuple

from ha_core.model import Run
from ha_core.plan.facts.verdict import duration

Partition = tuple[str, int]
"""(topic, partition)."""


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """How a cluster answered the service account."""

    name: str
    reachable: bool
    error: str = ""
    """Why it is not usable, in words; empty when it is."""
    refused: bool = False
    """It answered, but does not take the service account or lacks a right: not the same as dead."""
    answers: bool = False
    """Something of it is alive where it is not reachable, as with one broker of three: not the same as dead either."""
    brokers: tuple[int, ...] = ()
    """Ids of the live brokers."""
    describe_producers: bool = True
    """DESCRIBE_PRODUCERS is offered (Kafka 2.8 and newer)."""
    topic_defaults: Mapping[str, str] = field(default_factory=dict)
    """What its brokers go by where a topic is silent, of the settings that matter; empty: not known."""
    limits: Mapping[str, str] = field(default_factory=dict)
    """Values of the settings in `plan/facts/limits`; empty: not known."""


class Replicas(NamedTuple):
    """Of one partition, as its cluster tells them."""

    in_sync: int
    assigned: int


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """One that has written to a partition and has not ended there."""

    partition: int
    offset: int
    """The first that it wrote there."""
    age_s: float
    """Since it last wrote there, by the clock of its producer."""
    transactional_id: str = ""
    """Empty: no coordinator knows it."""
    hanging: bool = False
    """No coordinator knows of it any more, and it is too old to be on its way: it never ends by itself (KIP-664)."""


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """One topic in one cluster. Offsets are that cluster's own; partitions that could not be asked are missing."""

    exists: bool
    partitions: int = 0
    config: Mapping[str, str] = field(default_factory=dict)
    """Only what is set for the topic itself."""
    defaults: Mapping[str, str] = field(default_factory=dict)
    """What its brokers go by where it is silent, of the settings that matter."""
    starts: Mapping[int, int] = field(default_factory=dict)
    ends: Mapping[int, int] = field(default_factory=dict)
    """Log ends: everything that was appended counts."""
    replication: int = 0
    transactional: bool = False
    """Its leaders remember transactional producers."""
    transactional_ids: tuple[str, ...] = ()
    """Of the transactional producers that its leaders remember, as far as coordinators tell them."""
    open_transactions: tuple[OpenTransaction, ...] = ()
    producers: int = 0
    """Producers that its leaders remember, counted in each partition."""
    replicas: Mapping[int, Replicas] = field(default_factory=dict)
    default_min_in_sync: int = 1
    """What its brokers demand where the topic is silent (`min.insync.replicas`)."""
    age_s: float | None = None
    """None: it was asked just now. Else the cluster does not answer, and this is what was last seen of it."""
    fastest: float | None = None
    """As of `KnownTopic`."""
    leaderless: Mapping[int, int | None] = field(default_factory=dict)
    """Partitions that no live broker can lead without data loss → last known log end; None: unknown. Only filled if the
    cluster answers."""
    leaderless_age_s: float | None = None
    """Age of these log ends."""

    @property
    def compacted(self) -> bool:
        return "compact" in self.config.get("cleanup.policy", "")

    @property
    def own_min_in_sync(self) -> int | None:
        """As it is set for the topic itself."""
        value = self.config.get("min.insync.replicas", "")
        return int(value) if value.isdecimal() else None

    @property
    def min_in_sync(self) -> int:
        """How many replicas have to be in sync for a record with acks=all to be taken."""
        return self.default_min_in_sync if self.own_min_in_sync is None else self.own_min_in_sync


def is_live(state: str, members: Collection[str] = ()) -> bool:
    """Whether a group has members, is getting some, or may have: a state that nobody has told says nothing."""
    return bool(members) or state not in {"Empty", "Dead"}


@dataclass(frozen=True, slots=True)
class GroupFacts:
    """One consumer group as its coordinator knows it. A group that does not exist has state `Dead` and no offsets."""

    state: str = "Dead"
    protocol_type: str = ""
    members: tuple[str, ...] = ()
    """Member ids."""
    offsets: Mapping[Partition, int] = field(default_factory=dict)
    """Committed offsets, which are client offsets."""
    age_s: float | None = None
    """As of `TopicFacts`. Members of what was last seen are not known."""

    @property
    def live(self) -> bool:
        return is_live(self.state, self.members)

    @property
    def words(self) -> str:
        if self.age_s is not None:
            return f"last seen {duration(self.age_s)} ago{f' as {self.state}' if self.state else ''}"
        return f"{self.state}, {len(self.members)} members"


@dataclass(frozen=True, slots=True)
class Facts:
    """All that a pre-flight looks at. What was not, or could not be, asked is missing."""

    clusters: dict[str, ClusterFacts] = field(default_factory=dict)
    topics: dict[tuple[str, str], TopicFacts] = field(default_factory=dict)
    """By (cluster, topic)."""
    groups: dict[tuple[str, str], GroupFacts] = field(default_factory=dict)
    """By (cluster, group)."""

    def also(self, more: Facts) -> Facts:
        """These, and `more`, which count where both know something."""
        return Facts(self.clusters | more.clusters, self.topics | more.topics, self.groups | more.groups)

    def topic(self, cluster: str, topic: str) -> TopicFacts | None:
        return self.topics.get((cluster, topic))

    def group(self, cluster: str, group: str) -> GroupFacts | None:
        return self.groups.get((cluster, group))


@dataclass(frozen=True, slots=True)
class ProducerFacts:
    """What a partition's leader remembers of one producer (DESCRIBE_PRODUCERS). Ids are that cluster's own.

    The last two are known where the leader was asked, and not where only the sequence is.
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
    """What the headers of an origin's batches at and above a cut say. Ids are the origin's own."""

    first: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """Producer id → (epoch, first sequence) of its first batch there, that through which the cut runs included."""
    whole: bool = True
    """False: offsets are missing, by compaction or deletion. Whose first record was among them is not known."""


@dataclass(frozen=True, slots=True)
class PartitionEnds:
    """Log ends of one partition on both sides, read behind the fence, in each cluster's own offsets."""

    target: int
    origin: int | None = None
    """None: the origin cannot be asked."""
    _: KW_ONLY
    seen: int | None = None
    """Log end of the origin when it was last looked at."""
    seen_age_s: float | None = 0.0
    """None: nobody can say how long ago that was."""
    known: int | None = None
    """Highest *client* offset that groups have committed, here or in another cluster."""
    origin_start: int = 0
    """Where the origin's log starts, now or when it was last looked at: what lies below was deleted."""
    deleted_below: int = 0
    """*Client* offset below which clients were told that all is deleted (`DeletedRecords`)."""
    target_start: int = 0
    """Log start of the target. A copy has deleted the records that were copied to it below this."""


@dataclass(frozen=True, slots=True)
class CopyLag:
    """How far the copy of a partition was behind its source when its copier reported last."""

    state: Literal["copying", "waiting", "stopped"]
    """`waiting`: it is taken over again in a moment. `stopped`: somebody has to look."""
    records: int | None
    """Of what the source had acknowledged then; None: not known."""
    ms: int | None
    """How long ago the oldest of them was written; None: not known."""
    age_s: float
    """How long ago the source said its end, as far as the report knows."""
    reason: str = ""
    """Why it is not copying."""
    reached: int | None = None
    """The first offset of the source that was not in it; None: not known."""


@dataclass(frozen=True, slots=True)
class CopyFacts:
    """How far a copy was when it was taken over. Offsets are those of its two clusters."""

    mirrored: int
    """The first offset of the source that is not in it."""
    runs: tuple[Run, ...] = ()
    producers: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """Producer id in the source → (epoch, last sequence), of what is in the copy; those that wrote last come last."""
    whole: bool = False
    """The runs are all that the mirror ever had. Else what lies below the first one is left to the source."""


Ends = Mapping[Partition, PartitionEnds]
Producers = Mapping[Partition, Sequence[ProducerFacts] | None]
"""None, or missing: nobody can say."""


class TopicSetting(NamedTuple):
    """One setting of a topic, as the brokers that have it go by it."""

    value: str | None
    """None: they keep it secret."""
    own: bool
    """Set for the topic itself; else a default."""
    default: str | None = None
    """Where it is the topic's own: what its brokers would go by without. None: not known."""

    @property
    def beneath(self) -> str | None:
        """What the brokers go by where the topic is silent; None: not known."""
        return self.default if self.own else self.value


@dataclass(frozen=True, slots=True)
class Trial:
    """What a cluster says to a topic that is to be created there. Nothing was created."""

    unknown: Mapping[str, str] = field(default_factory=dict)
    """Settings that it does not know, with their values: the topic is created without."""
    refused: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Setting → its value, and why that is refused."""
    why: str = ""
    """Why the topic is refused, whatever its settings; empty: it is not."""


class TopicAcl(NamedTuple):
    """One access rule for topics (an ACL). Numbers of operations are Kafka's."""

    pattern: Literal["literal", "prefixed"]
    name: str
    """Of a topic, `*` for all, or what names begin with."""
    principal: str
    host: str
    operation: int
    allows: bool
    """False: it denies."""
