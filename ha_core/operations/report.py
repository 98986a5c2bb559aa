"""What an operation came to, in the form that machines read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ha_core.model import HistoryEntry, Operation, Topic
from ha_core.plan.crossing_stages import crossings

Result = Literal["succeeded", "crossing", "undone", "failed"]
"""`crossing`: cuts lie ahead of their logs; it ends when these have reached them."""


@dataclass(frozen=True, slots=True)
class StepTime:
    """A step's last completed run."""

    name: str
    ms: float


@dataclass(frozen=True, slots=True)
class PartitionCut:
    """Where one partition changed its writer. `cut` is a client offset."""

    topic: str
    partition: int
    cut: int
    origin: str
    target: str


@dataclass(frozen=True, slots=True)
class Report:
    """The end of an operation."""

    operation: str
    result: Result
    revision: int
    steps: tuple[StepTime, ...] = ()
    partitions: tuple[PartitionCut, ...] = ()
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        """`{"operation", "result", "revision", "steps": [{"name", "ms"}], "partitions": [{"topic", …}]}`."""
        document: dict[str, Any] = {
            "operation": self.operation,
            "result": self.result,
            "revision": self.revision,
            "steps": [asdict(step) for step in self.steps],
            "partitions": [
                {
                    "topic": part.topic,
                    "partition": part.partition,
                    "cut": part.cut,
                    "from": part.origin,
                    "to": part.target,
                }
                for part in self.partitions
            ],
        }
        if self.error:
            document["error"] = self.error
        return document


def step_times(history: Iterable[HistoryEntry]) -> tuple[StepTime, ...]:
    """One entry per step in order of first completion, with the milliseconds of its last completion."""
    last: dict[str, float] = {}
    for entry in history:
        if entry.outcome in {"done", "undone"} and entry.ms is not None:
            last[entry.step] = round(entry.ms, 1)
    return tuple(StepTime(name, ms) for name, ms in last.items())


def partition_cuts(operation: Operation, topics: Iterable[Topic]) -> tuple[PartitionCut, ...]:
    """The cuts of a move: as its evidence has them, since maps show those of later moves too; and those ahead.

    :param topics: what it moves, as the maps are now.
    """
    if operation.request is None:
        return ()
    origin, target = operation.request.origin, operation.request.target
    rows = [(name, cut.partition, cut.start) for name, cuts in operation.move.cuts.items() for cut in cuts]
    rows += [
        (topic.name, partition, ahead.start)
        for topic in topics
        if topic.crossing is not None and topic.crossing.operation == operation.id
        for partition, _, ahead in crossings(topic)
    ]
    return tuple(PartitionCut(name, partition, cut, origin, target) for name, partition, cut in sorted(rows))
