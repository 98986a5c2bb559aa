"""Operations: what was asked for, how far it got, and its append-only history."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, Self, cast

from pydantic import AliasChoices, Field, TypeAdapter, model_validator

from ha_core.model.binding import UserBindings
from ha_core.model.document import FEW_BYTES, Document, Part
from ha_core.model.group import Group
from ha_core.model.lost_tail import LostTail
from ha_core.model.mirror import LEAST_BYTES_S, Mirror
from ha_core.model.scope import Scope
from ha_core.model.topic import LastSequences, Topic

Mode = Literal["planned", "forced"]
UnreadPolicy = Literal["wait", "skip"]
DamagedCopies = Literal["refuse", "leave", "good-part"]
Verify = Literal["none", "sample", "full"]
"""How much of copies is compared with their sources before anybody relies on them. `sample`: a tenth of each partition,
and no longer than half a minute. `full`: all of it, which takes as long as to read both clusters."""
CutMode = Literal["barrier", "predicted"]
GroupsChoice = Literal["leave", "move"]
Driver = Literal["command", "run"]
"""`command`: one process from the beginning to the end, which is gone where nobody holds the operation. `run`: tasks of
a run of Airflow; between two of them nobody holds it, and it may wait for a slot or for somebody's approval."""
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
    "delete",
]
"""Operations of one revision."""
OperationState = Literal["planned", "running", "crossing", "fenced", "undoing", "cut", "succeeded", "undone", "failed"]
"""`crossing`: cuts that lie ahead are published. `fenced`: a fence may stand. `undoing`: on the way back.
`cut`: the map was published, from here on only forward. The last three are final."""


def _table(**successors: str) -> Mapping[str, frozenset[str]]:
    return {state: frozenset(after.split()) for state, after in successors.items()}


class MoveRequest(Part):
    """Parameters of a switch, as given by the operator."""

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

    `include_followers`: as written before 2026-11."""
    unread: UnreadPolicy | None = None
    """Forced only: what readers below the cut do while the origin is away. Somebody has to say it."""
    max_rate_records_s: int | None = Field(default=None, ge=1, le=10_000_000)
    """Forced only: an operator's word for how many records a partition of the origin gets in a second at most. The cut
    lies as much lower. None: as many as no leader can append."""
    force: bool = False
    """Forced only: give the origin up although it answers."""
    warn_lag_records: int = Field(default=100_000, ge=0)
    warn_lag_ms: int = Field(default=60_000, ge=0)
    """Of mirrored topics: more than this, in all partitions together or in the worst, is told as a warning."""
    refuse_lag_records: int | None = Field(default=None, ge=0)
    refuse_lag_ms: int | None = Field(default=None, ge=0)
    """The same, and the move is refused; None: it goes however far the copy is behind."""
    damaged_copies: DamagedCopies = "refuse"
    """Forced only: what becomes of topics whose copies are damaged. `leave`: they stay in the origin, the others go.
    `good-part`: they go on at their copies, of which that is read which is known to be the source's."""
    verify: Verify = "sample"
    """Planned only: what of mirrored topics is compared before their copies are taken. A difference undoes the move."""
    cut: CutMode = "barrier"
    preparation_s: float = Field(default=300.0, ge=0, le=7 * 86_400)
    """Predicted only: a cut lies as far ahead as the log grows in so many seconds."""
    finish_after_s: float | None = Field(default=None, gt=0)
    """Predicted only: so many seconds after it was opened, a crossing that has not ended is ended behind a fence."""
    settings_left_alone: tuple[str, ...] = ()
    """Settings that topics do not get in the target as they are in the origin: names or patterns."""
    groups: GroupsChoice = "leave"
    """Migrations only: whether the groups that read the topics come along. Where the scope names groups, these do; else
    they are looked for, and moved, when the topics have been."""


class MoveSet(Part):
    """What a move takes along, as the closure over usage found it."""

    topics: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    reasons: dict[str, str] = {}
    """`topic:NAME` or `group:NAME` → why it moves."""
    left_out: tuple[str, ...] = ()
    """`topic:NAME` or `group:NAME` that was found with it, and stays: it is in the target, or nowhere."""

    @property
    def keys(self) -> frozenset[str]:
        """`topic:NAME` or `group:NAME` of all that moves."""
        return frozenset([*(f"topic:{name}" for name in self.topics), *(f"group:{name}" for name in self.groups)])


class Cut(NamedTuple):
    """Where a partition was cut: the client offset, the target's own offset there, and the term that begins."""

    partition: int
    start: int
    base: int
    term: int


@dataclass(frozen=True, slots=True)
class AdoptedGroup:
    """A group that was joined in the target on its members' behalf."""

    generation: int
    """In the target."""
    origin_generation: int
    """The generation that the members say."""
    members: Mapping[str, str]
    """Member id in the origin → member id in the target."""


class ComparedCopies(Part):
    """What of the copies was equal to their sources before a switch to them."""

    verify: Verify
    records: int
    partitions: int
    ranges: int
    of_ranges: int
    """Source offsets are compared in ranges; so many there were, and so many were looked at, some not to their end."""
    seed: int
    """By which a sample was drawn."""
    seconds: float


class DependentGroups(Part):
    """What became of the groups that were to come along with topics."""

    operations: tuple[str, ...] = ()
    moved: int = 0
    left_out: dict[str, str] = {}
    """Group → why it stays."""
    error: str = ""
    next: str = ""
    """The command that does by hand what failed."""
    scope: tuple[tuple[str, str], ...] = ()
    """(user, group) of those that failed."""


class Evidence(Part):
    """What later steps of an operation need of earlier ones. Each kind of operation has a type of its own."""


class SingleEvidence(Evidence):
    """What an operation of one revision is about."""

    about: tuple[str, ...] = ()
    """The first ones of its lock keys."""
    deletes_in: str = ""
    """The cluster in which it deletes topics: those of `topic_ids`. Where these are not named, all that it locks, and
    it has no revision."""
    topic_ids: dict[str, str] = {}
    """Topics that it deletes there → their ids when they were judged."""
    mirrors: tuple[Mirror, ...] = ()
    """Those that it ends, as they were."""
    doomed: dict[str, dict[str, str]] = {}
    """Of `delete`: topic → cluster that had it when it was judged → its id there, empty where brokers have no ids."""
    unasked: tuple[str, ...] = ()
    """Clusters that did not answer then, and may have them."""


class MoveEvidence(Evidence):
    """What every move keeps, by topic where nothing else is said."""

    pinned: tuple[str, ...] = ()
    """Topics that the operation has given an identity map."""
    created: tuple[str, ...] = ()
    """Topics that it was about to create in the target."""
    unsettled: tuple[str, ...] = ()
    """Asked for, and the target has not answered: they may appear yet."""
    gateways: tuple[str, ...] = ()
    """Ids of those that lived when it prepared itself."""
    adopted: dict[str, AdoptedGroup] = {}
    """By group."""
    cuts: dict[str, tuple[Cut, ...]] = {}
    unknown_ends: dict[str, tuple[int, ...]] = {}
    """Partitions that were cut without a word of the origin."""
    holes: dict[str, dict[int, int]] = {}
    """Topic → partition → offsets without a record below its forced cut."""
    origin_ends: dict[str, dict[int, int]] = {}
    """The origin's own offsets at the cut."""
    compared: ComparedCopies | None = None
    """None: nothing was compared."""
    mirrored: tuple[str, ...] = ()
    """Topics that go to where their copies are, which the operation holds."""
    also_mirrored: dict[str, tuple[Mirror, ...]] = {}
    """Further mirrors of these topics, as they stood at the hold: a forced cut ends them with its own."""
    stayed: dict[str, str] = {}
    """Topics that a forced move left in the origin, since their copies are damaged → why."""
    ended_mirrors_verified: bool | None = Field(
        default=None, validation_alias=AliasChoices("ended_mirrors_verified", "verified")
    )
    """Nothing was appended to the origin behind a cut that ended mirrors; from then on it is copied to. None: the cut
    ended none, or it is not known yet. It was `verified` in earlier versions, and says nothing of other cuts."""
    partly: dict[str, str] = {}
    """Topics that went on at the good part of damaged copies → what the damage is."""
    left_to_origin: dict[str, int] = {}
    """Records that copies hold, and that are read in the origin only: the map had no room for them."""
    gone_from_copies: dict[str, int] = {}
    """Records that copies had deleted and the origin has, as far as is known: readers get them only there."""
    unset: tuple[str, ...] = ()
    """Topics whose copies became the ones that are written to, and have not all settings of their sources."""
    copies_set: bool | None = None
    """True once the copies have these settings: later changes by clients are left alone."""
    ended: dict[str, Mirror] = {}
    """Mirrors of these topics that a planned cut has ended, as they were."""
    groups: DependentGroups | None = None

    @property
    def went_to_copies(self) -> tuple[str, ...]:
        return tuple(name for name in self.mirrored if name not in self.stayed)

    @property
    def ended_too(self) -> tuple[Mirror, ...]:
        """Behind a forced cut: further mirrors that have ended with it."""
        return tuple(one for name in self.went_to_copies for one in self.also_mirrored.get(name, ()))


class PlannedCuts(Part):
    """By what the cuts of a migration are chosen: topic → partition → value, where nothing else is said."""

    rates: dict[str, dict[int, float]] = {}
    """Records per second that a log hardly exceeds."""
    expected: dict[str, dict[int, float]] = {}
    """Records per second as a log is expected to go on."""
    rates_from: str = ""
    cut_at: dict[str, dict[int, int]] = {}
    """Cuts that were asked for."""


class CrossingEvidence(PlannedCuts, MoveEvidence):
    """What a migration without a fence keeps besides. Numbers are by topic and partition, too."""

    batch: int = 0
    opened: str | None = None
    """When the crossing was opened."""
    opened_at: dict[str, dict[int, int]] = {}
    """The origin's client ends then; empty where they are too many to be kept."""
    below: dict[str, dict[int, tuple[tuple[int, int, int, int], ...] | None]] = {}
    """What producers had below cuts that were reached: id, epoch, last sequence, its time. None: nobody can say."""
    below_is_full: bool = False
    retreated: tuple[str, ...] = ()
    """Topics that were open before the way back began."""
    went_back: dict[str, tuple[int, ...]] = {}
    """Partitions whose log had reached its cut and was truncated below it: their crossing was ended at the cut."""
    remaining: dict[str, tuple[int, ...]] = {}
    """Partitions that were added meanwhile, and remain in the origin."""


class Operation(Document):
    """`/operations/{id}`. Its history, one node per entry below it, is never deleted.

    Each kind of operation is a class below this one, with its own request and evidence (`AnyKind`).
    """

    FOLDER = "/operations"
    KEY = "id"
    REVISED = True
    PLAIN_BYTES = 32 * FEW_BYTES
    """It keeps what it found of each partition, in the same revision as their maps; most are short."""
    NOUN: ClassVar[str] = "operation"
    """For people."""
    SUCCESSORS: ClassVar[Mapping[str, frozenset[str]]]
    """State → what it may become, besides itself."""

    id: str = Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")
    kind: str
    state: OperationState = "planned"
    by: str
    """Who runs it: `cli:USER@HOST` or `airflow:DAG/RUN`."""
    driver: Driver = "command"
    """Who is to go on with it."""
    reason: str
    started: str
    ended: str | None = None
    revision: int = 0
    """Revision of its last change to the state."""
    evidence: Evidence = Evidence()
    result: str = ""

    @property
    def about(self) -> tuple[str, ...]:
        """What it works on, as operators write it."""
        return ()

    @property
    def route(self) -> tuple[str, str] | None:
        """From which cluster to which."""
        return None

    @property
    def moved(self) -> tuple[str, ...]:
        """Topics that it moves."""
        return ()

    @property
    def writes(self) -> tuple[tuple[type[Document], str], ...]:
        """Documents that its revisions may write."""
        return ((Operation, self.id),)

    @classmethod
    def parse(cls, data: bytes) -> Self:
        """As the class of its kind."""
        return cast(Self, _BY_KIND.validate_json(data)) if cls is Operation else super().parse(data)

    def noting(self, **found: Any) -> Self:
        """With more evidence, each in its field."""
        return self.changed(evidence=self.evidence.changed(**found))


class SingleOperation(Operation):
    """One revision. Until it is committed nothing has been changed."""

    SUCCESSORS = _table(running="cut undone failed", cut="succeeded failed")

    kind: SingleKind
    evidence: SingleEvidence = SingleEvidence()

    @property
    def about(self) -> tuple[str, ...]:
        return self.evidence.about


class MoveOperation(Operation):
    """Topics change their writer, identities and groups their binding."""

    NOUN = "move"

    request: MoveRequest
    moves: MoveSet
    evidence: MoveEvidence = MoveEvidence()

    @model_validator(mode="before")
    @classmethod
    def _on_its_way_back(cls, stored: Any) -> Any:
        """Stored once as a flag beside the state that it had: taken for that, a way back would turn forward, and open
        cuts again above what was acknowledged."""
        evidence = stored.get("evidence")
        ended = stored.get("state") in {"succeeded", "undone", "failed"}
        if ended or not isinstance(evidence, dict) or not evidence.get("undoing"):
            return stored
        left = {name: found for name, found in evidence.items() if name != "undoing"}
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
    def writes(self) -> tuple[tuple[type[Document], str], ...]:
        return (
            *super().writes,
            *((kind, topic) for kind in (Topic, LastSequences) for topic in self.moves.topics),
            *((Group, group) for group in self.moves.groups),
            *((UserBindings, user) for user in self.request.scope.named_users),
        )


class SwitchOperation(MoveOperation):
    """Behind a fence of some milliseconds."""

    SUCCESSORS = _table(
        planned="running fenced undoing undone",
        running="fenced undoing undone",
        fenced="cut undoing",
        undoing="undone",
        cut="succeeded failed",
    )

    kind: Literal["switch"] = "switch"

    @property
    def writes(self) -> tuple[tuple[type[Document], str], ...]:
        origin, target = self.route
        mirrored = self.evidence.mirrored
        return (
            *super().writes,
            *((Mirror, f"{topic}@{cluster}") for topic in mirrored for cluster in (target, origin)),
            *((LostTail, LostTail.key_of(topic, origin, self.id)) for topic in mirrored),
            *((Mirror, one.key) for some in self.evidence.also_mirrored.values() for one in some),
        )


class MigrateOperation(MoveOperation):
    """By cuts that lie ahead of their logs."""

    NOUN = "migration"
    SUCCESSORS = _table(
        planned="running crossing undoing undone succeeded failed",  # at its end: others have moved its topics
        running="crossing undoing undone",
        crossing="fenced cut undoing",
        fenced="crossing cut undoing",
        undoing="running crossing undone",
        cut="succeeded failed",
    )

    kind: Literal["migrate"] = "migrate"
    evidence: CrossingEvidence = CrossingEvidence()


class LinkRequest(MoveRequest):
    """Which topics get a mirror: of the class by which nobody takes it for a switch of the same topics."""

    max_bytes_s: int | None = Field(default=None, ge=LEAST_BYTES_S)
    """As of the mirrors (`Mirror`), and so are the settings that are left alone."""


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
    detail: dict[str, Any] = {}


class Lock(Document):
    """`/locks/{scope key}`: who runs an operation on it.

    Keys: `topic:NAME`, `group:NAME`, `user:NAME`, `cluster:NAME`.
    """

    FOLDER = "/locks"
    KEY = "key"

    key: str
    operation: str
    by: str
    since: str
