"""Operations: request, state, evidence and append-only history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, cast
from urllib.parse import quote

from pydantic import AliasChoices, Field, TypeAdapter, model_validator

from ha_core.model.document import FEW_BYTES, Document, Part
from ha_core.model.group import Group
from ha_core.model.identity import UserBindings
from ha_core.model.mirror import LostTail, Mirror, MirrorPolicy
from ha_core.model.provenance import Provenance
from ha_core.model.scope import Scope
from ha_core.model.topic import LastSequences, Topic

Mode = Literal["planned", "forced"]
UnreadPolicy = Literal["wait", "skip"]
DamagedCopies = Literal["refuse", "leave", "good-part"]
Verify = Literal["none", "sample", "full"]
"""How much of the copies a switch compares with their sources before it uses them. `sample`: a tenth of each partition,
for half a minute at most. `full`: everything, which takes as long as reading both clusters."""
CutMode = Literal["barrier", "predicted"]
GroupsChoice = Literal["leave", "move"]
_CENTURY_S = 100 * 365.25 * 86_400
"""No date lies much further ahead."""
Driver = Literal["command", "run"]
"""Executor of an operation. `command`: one process from start to end, which has died if no process holds the operation.
`run`: tasks of an Airflow run; between two tasks no process holds it, and it may wait for a slot or for an approval."""
SingleKind = Literal[
    "mask",
    "unmask",
    "bindings",
    "return",
    "age",
    "give-up",
    "add-cluster",
    "remove-cluster",
    "unlink",
    "reconcile",
    "throttle",
    "link-pattern",
    "unlink-pattern",
    "delete",
    "declare-flows",
    "withdraw-flows",
    "move-group",
    "direct-groups",
    "strict-history",
    "trim-history",
]
"""Operations of one revision."""
REFUSING: Mapping[str, str] = {"mask": "switchyard unmask {}"}
"""Kinds after which clients are refused, until this command takes the operation back. It gets the name of its thing."""
OperationState = Literal["planned", "running", "crossing", "fenced", "undoing", "cut", "succeeded", "undone", "failed"]
"""`crossing`: cuts that lie ahead are published. `fenced`: a fence may stand. `undoing`: being undone.
`cut`: the map is published, and the operation can only go forward. The last three are final."""


def _table(**successors: str) -> Mapping[str, frozenset[str]]:
    return {state: frozenset(after.split()) for state, after in successors.items()}


class MoveRequest(Part):
    """Parameters of a switch, as given by the operator."""

    COPIES: ClassVar[bool] = False
    """Whether the topics in the target are copies."""

    scope: Scope
    origin: str
    target: str
    mode: Mode = "planned"
    reason: str = Field(min_length=1)
    drain_timeout_s: float = Field(default=10.0, gt=0, le=600)
    include_other_users: bool = Field(
        default=False, validation_alias=AliasChoices("include_other_users", "include_followers")
    )
    """Topics that identities outside the scope use too: False refuses the move, True takes these users along.

    `include_followers`: name before 2026-11."""
    unread: UnreadPolicy | None = None
    """Forced only, and required there: what readers below the cut do while the origin is away."""
    max_rate_records_s: int | None = Field(default=None, ge=1, le=10_000_000)
    """Forced only: the operator's bound on records per second and partition of the origin, which lowers the cut. None:
    more than any leader can append."""
    force: bool = False
    """Forced only: treat the origin as dead although it answers."""
    warn_lag_records: int = Field(default=100_000, ge=0)
    warn_lag_ms: int = Field(default=60_000, ge=0)
    """Mirrored topics: a higher lag, summed over all partitions (records) or in the worst one (ms), gives a warning."""
    refuse_lag_records: int | None = Field(default=None, ge=0)
    refuse_lag_ms: int | None = Field(default=None, ge=0)
    """Likewise, but a higher lag refuses the move; None: any lag is accepted."""
    damaged_copies: DamagedCopies = "refuse"
    """Forced only: treatment of topics whose copies are damaged. `leave`: they stay in the origin, the others move.
    `good-part`: they move to their copies, and readers get the part that is known to be the source's."""
    verify: Verify = "sample"
    """Planned only: how much of mirrored topics is compared before the cut. A difference undoes the move."""
    cut: CutMode = "barrier"
    preparation_s: float = Field(default=300.0, ge=0, le=7 * 86_400)
    """Predicted only: a cut lies as far ahead as the log grows in so many seconds."""
    finish_after_s: float | None = Field(default=None, gt=0)
    """Predicted only: a crossing still open after so many seconds is ended under a fence."""
    settings_left_alone: tuple[str, ...] = ()
    """Settings that are not carried to the target: names or patterns."""
    groups: GroupsChoice = "leave"
    """Migrations only: whether the groups that read the topics move too. If the scope names groups, these do; else all
    readers are looked up and moved after the topics."""


class MoveSet(Part):
    """Everything that a move takes along: the closure over usage."""

    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    reasons: dict[str, str] = {}
    """`topic:NAME` or `group:NAME` → why it moves."""
    left_out: tuple[str, ...] = ()
    """`topic:NAME` or `group:NAME` of the closure that stays, because it is in the target or does not exist."""

    @property
    def keys(self) -> frozenset[str]:
        """`topic:NAME` or `group:NAME` of all that moves."""
        return frozenset([*(f"topic:{name}" for name in self.topics), *(f"group:{name}" for name in self.groups)])


class Cut(NamedTuple):
    """The cut of a partition: client offset, the target's own offset there, and the new writer epoch."""

    partition: int
    start: int
    base: int
    writer_epoch: int


@dataclass(frozen=True, slots=True)
class AdoptedGroup:
    """A group joined in the target on its members' behalf."""

    generation: int
    """In the target."""
    origin_generation: int
    """The generation that the members send."""
    members: Mapping[str, str]
    """Member id in the origin → member id in the target."""


class ComparedCopies(Part):
    """Result of comparing copies with their sources before a switch to them."""

    verify: Verify
    records: int
    partitions: int
    ranges: int
    of_ranges: int
    """Source offsets are compared in ranges: those that were compared, some not to their end, and all of them."""
    seed: int
    """Seed of the sample."""
    seconds: float


class DependentGroups(Part):
    """Outcome of moving the groups that read the topics."""

    operations: tuple[str, ...] = ()
    moved: int = 0
    left_out: dict[str, str] = {}
    """Group → why it stays."""
    error: str = ""
    next: str = ""
    """The command that repeats the failed moves."""
    scope: tuple[tuple[str, str], ...] = ()
    """(user, group) whose move failed."""


class Evidence(Part):
    """Results of earlier steps that later steps need. Each kind of operation has its own type."""


class SingleEvidence(Evidence):
    """Evidence of an operation of one revision."""

    about: tuple[str, ...] = ()
    """The first of its lock keys."""
    deletes_in: str = ""
    """The cluster in which it deletes the topics of `topic_ids`. If that is empty, it deletes all topics that it locks,
    and has no revision."""
    topic_ids: dict[str, str] = {}
    """Topics to delete there → their ids at the time of the decision."""
    mirrors: tuple[Mirror, ...] = ()
    """Mirrors to end, as they were."""
    doomed: dict[str, dict[str, str]] = {}
    """`delete` only: topic → cluster that had it at the decision → its id there, empty if brokers have no ids."""
    unasked: tuple[str, ...] = ()
    """Clusters that did not answer then, and may have the topics."""


class MoveEvidence(Evidence):
    """Evidence of every move; dicts and tuples are by topic unless noted."""

    pinned: tuple[str, ...] = ()
    """Topics that the operation has given an identity map."""
    created: tuple[str, ...] = ()
    """Topics that it was about to create in the target."""
    unsettled: tuple[str, ...] = ()
    """Topics whose creation the target has not confirmed: they may still appear."""
    gateways: tuple[str, ...] = ()
    """Ids of the gateways that were live during its preparation."""
    adopted: dict[str, AdoptedGroup] = {}
    """By group."""
    cuts: dict[str, tuple[Cut, ...]] = {}
    unknown_ends: dict[str, tuple[int, ...]] = {}
    """Partitions that were cut without an answer of the origin."""
    holes: dict[str, dict[int, int]] = {}
    """Topic → partition → offsets without a record below its forced cut."""
    origin_ends: dict[str, dict[int, int]] = {}
    """The origin's own offsets at the cut."""
    compared: ComparedCopies | None = None
    """None: no comparison was made."""
    mirrored: tuple[str, ...] = ()
    """Topics that move to their copies, which the operation holds."""
    also_mirrored: dict[str, tuple[Mirror, ...]] = {}
    """Further mirrors of these topics from the origin, at the hold. The cut ends them with its own, and they are
    repointed after it."""
    kept_out: dict[str, str] = {}
    """Key of a further mirror → why it was not repointed."""
    stayed: dict[str, str] = {}
    """Topics that a forced move left in the origin because their copies are damaged → why."""
    ended_mirrors_verified: bool | None = Field(
        default=None, validation_alias=AliasChoices("ended_mirrors_verified", "verified")
    )
    """True: nothing was appended to the origin after a cut that ended mirrors, so it may become a copy. None: the cut
    ended no mirror, or this is not known yet. Named `verified` in earlier versions; means nothing for other cuts."""
    partly: dict[str, str] = {}
    """Topics that continue at the good part of damaged copies → the damage."""
    left_to_origin: dict[str, int] = {}
    """Records in copies that readers get only from the origin, because the map had no room for them."""
    gone_from_copies: dict[str, int] = {}
    """Records that copies had deleted and the origin is known to have: readers get them only there."""
    unset: tuple[str, ...] = ()
    """Topics whose copies became the writer's and lack some settings of their sources."""
    copies_set: bool | None = None
    """True once the copies have these settings: later changes by clients are left alone."""
    ended: dict[str, Mirror] = {}
    """Mirrors of these topics that a planned cut has ended, as they were."""
    groups: DependentGroups | None = None
    direct_groups: str = ""
    """The places that direct groups have got in the target, for people; empty: there were none."""

    @property
    def went_to_copies(self) -> tuple[str, ...]:
        return tuple(name for name in self.mirrored if name not in self.stayed)

    @property
    def further(self) -> tuple[Mirror, ...]:
        """Further mirrors of topics that went to their copies, as they were."""
        return tuple(mirror for name in self.went_to_copies for mirror in self.also_mirrored.get(name, ()))

    @property
    def ended_too(self) -> tuple[Mirror, ...]:
        """Further mirrors that have ended, because they were not repointed."""
        return tuple(mirror for mirror in self.further if mirror.key in self.kept_out)


class PlannedCuts(Part):
    """Inputs that a migration's cuts are chosen by: topic → partition → value, unless noted."""

    rates: dict[str, dict[int, float]] = {}
    """Records per second that a log hardly exceeds."""
    expected: dict[str, dict[int, float]] = {}
    """Records per second expected of a log."""
    rates_from: str = ""
    cut_at: dict[str, dict[int, int]] = {}
    """Cuts that the operator chose."""


class CrossingEvidence(PlannedCuts, MoveEvidence):
    """Further evidence of a migration by a cut ahead, also by topic and partition."""

    batch: int = 0
    opened: str | None = None
    """When the crossing was opened."""
    opened_at: dict[str, dict[int, int]] = {}
    """The origin's log ends then, as client offsets; empty if there are too many to keep."""
    below: dict[str, dict[int, tuple[tuple[int, int, int, int], ...] | None]] = {}
    """Last sequences of producers below reached cuts: id, epoch, last sequence, its time. None: unknown."""
    below_is_full: bool = False
    retreated: tuple[str, ...] = ()
    """Topics that were open when undoing began."""
    went_back: dict[str, tuple[int, ...]] = {}
    """Partitions whose log had reached its cut and was truncated below it: their crossing ended at the cut."""
    remaining: dict[str, tuple[int, ...]] = {}
    """Partitions added meanwhile, which remain in the origin."""


class Operation(Document, Provenance):
    """`/operations/{id}`. Its history, one node per entry below it, is sealed when it ends (`model/seal`).

    Each kind of operation is a subclass with its own request and evidence (`AnyKind`).
    """

    FOLDER = "/operations"
    KEY = "id"
    REVISED = True
    PLAIN_BYTES = 32 * FEW_BYTES
    """Its evidence has values of each partition, and shares a revision with their maps; most are short."""
    NOUN: ClassVar[str] = "operation"
    """Word for people."""
    SUCCESSORS: ClassVar[Mapping[str, frozenset[str]]]
    """State → states that may follow, besides itself."""
    ATOMIC: ClassVar[bool] = False
    """Its whole change is one revision. Until then it has changed nothing, so any process may end it soon after its
    executor has died."""
    FENCES: ClassVar[bool] = False
    """Clients wait under its fence, and its history has the milliseconds (`fenced_ms`)."""
    CROSSES: ClassVar[bool] = False
    """Its cuts may lie ahead of the logs: then no executor waits for them, and later looks settle it."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")
    kind: str
    state: OperationState = "planned"
    by: str
    """Its executor: `cli:USER@HOST` or `airflow:DAG/RUN`."""
    driver: Driver = "command"
    """The kind of executor that is to continue it."""
    reason: str
    started: str
    ended: str | None = None
    revision: int = 0
    """Revision of its last change to the state."""
    evidence: Evidence = Evidence()
    result: str = ""

    @property
    def about(self) -> tuple[str, ...]:
        """The things that it works on, as operators write them."""
        return ()

    @property
    def route(self) -> tuple[str, str] | None:
        """(origin, target); None: it has none."""
        return None

    @property
    def refuses_until(self) -> str:
        """The command that ends its refusals of clients; empty: there are none."""
        return ""

    @property
    def moved(self) -> tuple[str, ...]:
        """Topics that it moves."""
        return ()

    @property
    def moving(self) -> tuple[str, ...]:
        """Topics whose writer it has changed or is changing."""
        return () if self.state in {"planned", "running", "undoing", "undone"} else self.moved

    @property
    def forced(self) -> bool:
        """Whether it takes its origin for dead."""
        return False

    @property
    def ends_at(self) -> datetime | None:
        """When it ends, under a fence, the crossings that have not ended by then; None: never."""
        return None

    @property
    def move_evidence(self) -> MoveEvidence:
        """Empty unless it is a move."""
        return MoveEvidence()

    @property
    def writes(self) -> tuple[tuple[type[Document], str], ...]:
        """Documents that its revisions may write."""
        return ((Operation, self.id),)

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """As the class of its kind."""
        return cast(Self, _BY_KIND.validate_json(data)) if cls is Operation else super().parse(data)

    def noting(self, **evidence: Any) -> Self:
        """A copy with these fields of the evidence set."""
        return self.changed(evidence=self.evidence.changed(**evidence))


class SingleOperation(Operation):
    """An operation of one revision. Until that is committed, nothing has changed."""

    SUCCESSORS = _table(running="cut undone failed", cut="succeeded failed")
    ATOMIC = True

    kind: SingleKind
    evidence: SingleEvidence = SingleEvidence()

    @property
    def about(self) -> tuple[str, ...]:
        return self.evidence.about

    @property
    def refuses_until(self) -> str:
        command = REFUSING.get(self.kind, "") if self.state == "succeeded" and self.about else ""
        return command.format(self.about[0].partition(":")[2]) if command else ""


class MoveOperation(Operation):
    """Topics change their writer, identities and groups their binding."""

    NOUN = "move"

    request: MoveRequest
    moves: MoveSet
    evidence: MoveEvidence = MoveEvidence()

    @model_validator(mode="before")
    @classmethod
    def _on_its_way_back(cls, stored: Any) -> Any:
        """Read `undoing` as earlier versions stored it: as a flag beside the state. Without this, undoing would turn
        forward, and open cuts again above acknowledged records."""
        evidence = stored.get("evidence")
        ended = stored.get("state") in {"succeeded", "undone", "failed"}
        if ended or not isinstance(evidence, dict) or not evidence.get("undoing"):
            return stored
        left = {name: value for name, value in evidence.items() if name != "undoing"}
        return {**stored, "state": "undoing", "evidence": left}

    @property
    def about(self) -> tuple[str, ...]:
        return self.request.scope.entries

    @property
    def route(self) -> tuple[str, str]:
        return self.request.origin, self.request.target

    @property
    def moved(self) -> tuple[str, ...]:
        return self.moves.topics

    @property
    def forced(self) -> bool:
        return self.request.mode == "forced"

    @property
    def move_evidence(self) -> MoveEvidence:
        return self.evidence

    @property
    def cuts_chosen(self) -> bool:
        """Whether the operator chose cuts that its request does not have."""
        return False

    @property
    def writes(self) -> tuple[tuple[type[Document], str], ...]:
        return (
            *super().writes,
            *((kind, topic) for kind in (Topic, LastSequences) for topic in self.moves.topics),
            *((Group, group) for group in self.moves.groups),
            *((UserBindings, user) for user in self.request.scope.named_users),
        )


class SwitchOperation(MoveOperation):
    """A move with a fence of some milliseconds."""

    SUCCESSORS = _table(
        planned="running fenced undoing undone",
        running="fenced undoing undone",
        fenced="cut undoing",
        undoing="undone",
        cut="succeeded failed",
    )
    FENCES = True

    kind: Literal["switch"] = "switch"

    @property
    def writes(self) -> tuple[tuple[type[Document], str], ...]:
        origin, target = self.route
        mirrored = self.evidence.mirrored
        return (
            *super().writes,
            *((Mirror, f"{topic}@{cluster}") for topic in mirrored for cluster in (target, origin)),
            *((LostTail, LostTail.key_of(topic, origin, self.id)) for topic in mirrored),
            *((Mirror, mirror.key) for mirrors in self.evidence.also_mirrored.values() for mirror in mirrors),
        )


class MigrateOperation(MoveOperation):
    """A move of topics, by cuts ahead of their logs or with a fence."""

    NOUN = "migration"
    SUCCESSORS = _table(
        planned="running crossing undoing undone succeeded failed",  # at its end: others have moved its topics
        running="crossing undoing undone",
        crossing="fenced cut undoing",
        fenced="crossing cut undoing",
        undoing="running crossing undone",
        cut="succeeded failed",
    )

    CROSSES = True

    kind: Literal["migrate"] = "migrate"
    evidence: CrossingEvidence = CrossingEvidence()

    @property
    def moving(self) -> tuple[str, ...]:
        """Also while it is undone: topics may have crossed over before."""
        return self.moved if self.state == "undoing" else super().moving

    @property
    def ends_at(self) -> datetime | None:
        limit_s, opened = self.request.finish_after_s, self.evidence.opened
        if limit_s is None or opened is None:
            return None
        return datetime.fromisoformat(opened) + timedelta(seconds=min(limit_s, _CENTURY_S))

    @property
    def cuts_chosen(self) -> bool:
        return bool(self.evidence.cut_at)


class LinkRequest(MoveRequest, MirrorPolicy):
    """Topics to mirror. A class of its own, so that no code takes it for a switch of these topics."""

    COPIES = True

    pattern: str = ""
    """Key of the pattern that asks for it; empty: an operator named the topics."""


class LinkOperation(MoveOperation):
    """Topics get a mirror in the target; nothing moves."""

    NOUN = "link"
    SUCCESSORS = _table(
        planned="running undoing undone",
        running="cut undoing undone",
        undoing="undone",
        cut="succeeded",
    )

    kind: Literal["link"] = "link"
    request: LinkRequest

    @property
    def moved(self) -> tuple[str, ...]:
        return ()

    @property
    def writes(self) -> tuple[tuple[type[Document], str], ...]:
        target = self.request.target
        return (*super().writes, *((Mirror, f"{topic}@{target}") for topic in self.moves.topics))


AnyKind = SingleOperation | SwitchOperation | MigrateOperation | LinkOperation
_BY_KIND: TypeAdapter[Operation] = TypeAdapter(Annotated[AnyKind, Field(discriminator="kind")])


Outcome = Literal["started", "done", "failed", "undone", "note"]


class HistoryEntry(Document):
    """One line of an operation's history."""

    at: str
    epoch: int
    step: str
    outcome: Outcome
    ms: float | None = None
    by: str | None = None
    """The executor, if it is not the one that the operation began with."""
    detail: dict[str, Any] = {}


class Lock(Document):
    """`/locks/{scope key}`: the operation that works on it.

    Keys: `topic:NAME`, `group:NAME`, `user:NAME`, `cluster:NAME`, `pattern:KEY`.
    """

    FOLDER = "/locks"
    KEY = "key"
    UNREADABLE: ClassVar[str] = "(unreadable)"
    """In place of the operation, if this version cannot read the document."""

    key: str
    operation: str
    by: str
    since: str

    @classmethod
    def unreadable(cls, key: str) -> Lock:
        """One whose document this version cannot read."""
        return cls(key=key, operation=cls.UNREADABLE, by="unknown", since="unknown")

    @property
    def readable(self) -> bool:
        return self.operation != self.UNREADABLE

    @property
    def way_out_if_unreadable(self) -> str:
        """No command of this version ends an operation that its lock does not name."""
        return (
            "End the operation with the version of Switchyard that wrote the lock. If no operation runs, remove the "
            f"lock with ZooKeeper's `zkCli.sh delete ROOT{self.FOLDER}/{quote(self.key, safe='')}` (ROOT as in --root)."
        )
