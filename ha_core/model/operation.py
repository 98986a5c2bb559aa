"""Operations: their kinds, states and append-only history."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Annotated, Any, ClassVar, Literal, Self, cast

from pydantic import Field, TypeAdapter, model_validator

from ha_core.model.document import FEW_BYTES, Document
from ha_core.model.evidence import CrossingEvidence, Evidence, MoveEvidence, SingleEvidence
from ha_core.model.group import Group
from ha_core.model.identity import UserBindings
from ha_core.model.mirror import LostTail, Mirror, MirrorPolicy
from ha_core.model.move_request import MoveRequest, MoveSet
from ha_core.model.provenance import Provenance
from ha_core.model.topic import LastSequences, Topic

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
