"""Proposals and results of operations: documents that are judged, shown, and passed from task to task."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from ha_core.model import HistoryEntry, Operation, Topic
from ha_core.model.evidence import ComparedCopies
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import unchanged
from ha_core.operations.engine.journal import ASKED_FOR
from ha_core.plan.facts.verdict import Verdict, refused
from ha_core.plan.migration.crossing_stages import crossings
from ha_core.store.errors import StoreError


def require_no_errors(verdicts: Iterable[Verdict]) -> None:
    """:raises RefusedError: a verdict is an error; the text has all of them with their remedies."""
    found = tuple(verdicts)
    if text := " ".join(verdict.words for verdict in found if verdict.level == "error"):
        raise unchanged(f"{text}", found)


class BaseProposal(BaseModel):
    """A change proposed on the state at `revision`, and the verdicts against it."""

    model_config = ConfigDict(frozen=True)

    revision: int
    verdicts: tuple[Verdict, ...] = ()

    @property
    def refused(self) -> bool:
        return refused(self.verdicts)

    @property
    def nothing_to_do(self) -> bool:
        """Whether its only error is that everything is where it should be."""
        return [verdict.code for verdict in self.verdicts if verdict.level == "error"] == ["nothing-to-move"]

    def require_sound(self) -> None:
        """:raises RefusedError: a verdict is an error."""
        require_no_errors(self.verdicts)

    def to_json(self) -> dict[str, Any]:
        document: dict[str, Any] = self.model_dump(mode="json", exclude={"judged"})
        document["verdicts"] = [asdict(verdict) for verdict in self.verdicts]
        return document


Result = Literal["succeeded", "crossing", "undone", "failed", "interrupted"]
"""`crossing`: its cuts are above their log ends, and it ends when the logs reach them. `interrupted`: it has no
executor now."""


class StepTime(NamedTuple):
    """A step's last completed run."""

    name: str
    ms: float


class PartitionCut(NamedTuple):
    """A partition's change of writer. `cut` is a client offset; `hole` offsets below it have no record."""

    topic: str
    partition: int
    cut: int
    origin: str
    target: str
    hole: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """The end of an operation."""

    operation: str
    result: Result
    revision: int
    steps: tuple[StepTime, ...] = ()
    partitions: tuple[PartitionCut, ...] = ()
    error: str = ""
    verdicts: tuple[Verdict, ...] = ()
    """The verdicts that led to the error, if any did."""
    stayed: Mapping[str, str] = field(default_factory=dict)
    """Topics that did not move because their copies are damaged → reason."""
    compared: ComparedCopies | None = None
    """The part of its copies that was compared with their sources before, and is equal."""
    kept_out: Mapping[str, str] = field(default_factory=dict)
    """Keys of further mirrors that ended, because they could not go on from the target → reason."""

    @property
    def words(self) -> str:
        return f"{self.result} {self.error}".rstrip()

    def to_json(self) -> dict[str, Any]:
        return {
            "operation": self.operation,
            "result": self.result,
            "revision": self.revision,
            "steps": [step._asdict() for step in self.steps],
            "partitions": [
                {
                    "topic": p.topic,
                    "partition": p.partition,
                    "cut": p.cut,
                    "from": p.origin,
                    "to": p.target,
                    **({"hole": p.hole} if p.hole else {}),
                }
                for p in self.partitions
            ],
            **({"error": self.error} if self.error else {}),
            **({"verdicts": [asdict(verdict) for verdict in self.verdicts]} if self.verdicts else {}),
            **({"stayed": dict(self.stayed)} if self.stayed else {}),
            **({"compared": self.compared.model_dump(mode="json")} if self.compared else {}),
            **({"kept_out": dict(self.kept_out)} if self.kept_out else {}),
        }


def step_times(history: Iterable[HistoryEntry]) -> tuple[StepTime, ...]:
    """One entry per step in order of first completion, with the milliseconds of its last completion."""
    ended = (entry for entry in history if entry.outcome in {"done", "undone"})
    last = {entry.step: round(entry.ms, 1) for entry in ended if entry.ms is not None}
    return tuple(StepTime(name, ms) for name, ms in last.items())


def verdicts_of(history: Iterable[HistoryEntry]) -> tuple[Verdict, ...]:
    """The verdicts of the last failure that has some, with the fields that this version has."""
    failed = [entry.detail["verdicts"] for entry in history if entry.outcome == "failed" and "verdicts" in entry.detail]
    known = [field.name for field in fields(Verdict)]
    return tuple(
        Verdict(**{name: row[name] for name in known if name in row}) for row in (failed[-1] if failed else ())
    )


def partition_cuts(operation: Operation, topics: Mapping[str, Topic]) -> tuple[PartitionCut, ...]:
    """The cuts of a move: from its evidence, since maps show those of later moves too; and cuts ahead from the maps."""
    evidence, (origin, target) = operation.move_evidence, operation.route or ("", "")
    rows = [(name, cut.partition, cut.start) for name, cuts in evidence.cuts.items() for cut in cuts]
    rows += [
        (name, partition, ahead.start)
        for name in operation.moved
        if (topic := topics.get(name)) and topic.crossing and topic.crossing.operation == operation.id
        for partition, _, ahead in crossings(topic)
    ]
    return tuple(
        PartitionCut(name, partition, cut, origin, target, evidence.holes.get(name, {}).get(partition, 0))
        for name, partition, cut in sorted(rows)
    )


def report_of(
    environment: Environment, operation: Operation, error: str = "", verdicts: tuple[Verdict, ...] = ()
) -> Report:
    """The report of an operation that no executor works on now.

    :param verdicts: those of the error; if empty, the history's.
    """
    state = operation.state
    result: Result = state if state in {"succeeded", "undone", "crossing", "failed"} else "interrupted"
    cuts: tuple[PartitionCut, ...] = ()
    times: tuple[StepTime, ...] = ()
    try:
        history = environment.store.history(operation.id)
        times = step_times(history)
        if not verdicts and result not in {"succeeded", "crossing"}:
            verdicts = verdicts_of(history)
        if operation.moved and operation.revision and result != "undone":
            cuts = partition_cuts(operation, environment.store.load().topics)
    except StoreError as unread:
        # The result is known, and has to be reported even if its details cannot be read now.
        environment.say(f"the details of operation {operation.id} cannot be read: {unread}")
    quiet = result in {"succeeded", "crossing"} or operation.result.startswith(ASKED_FOR)
    text = error or ("" if quiet else operation.result)
    evidence = operation.move_evidence
    copies = evidence.stayed, evidence.compared, evidence.kept_out
    return Report(operation.id, result, operation.revision, times, cuts, text, verdicts, *copies)
