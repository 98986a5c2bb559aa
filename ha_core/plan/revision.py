"""What every revision of a move is made of: what was asked for, what is written, what keeps it from being written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from ha_core.model import Document, Extent, MoveRequest, Operation, Topic
from ha_core.model.extent import append, check, live
from ha_core.model.operation import OperationState
from ha_core.plan.facts import Partition, PartitionEnds

AnyOperation = TypeVar("AnyOperation", bound=Operation)
FINAL = frozenset({"succeeded", "undone", "failed"})


class Documents(NamedTuple):
    """What one revision writes. Every put and delete is of a document that the operation `writes`."""

    puts: tuple[Document, ...]
    deletes: tuple[tuple[type[Document], str], ...] = ()


class MoveDamagedError(ValueError):
    """The state is not what the operation left: publishing now could break the invariant, so nothing is published."""


def entering(operation: AnyOperation, state: OperationState) -> AnyOperation:
    """The operation in another state. :raises MoveDamagedError: no way leads there from where it is."""
    if state != operation.state and state not in operation.SUCCESSORS.get(operation.state, ()):
        being = "being undone" if operation.state == "undoing" else operation.state
        raise MoveDamagedError(f"operation {operation.id} is {being}: it cannot become {state}")
    return operation.model_copy(update={"state": state})


def require_state(operation: Operation, *states: str) -> None:
    """:raises MoveDamagedError: the operation is in none of `states`."""
    if operation.state not in states:
        being = "being undone" if operation.state == "undoing" else operation.state
        raise MoveDamagedError(f"operation {operation.id} is {being}, not {' or '.join(states)}")


def all_partitions(topic: Topic, ends: Mapping[Partition, PartitionEnds]) -> list[int]:
    """The partitions of a topic whose ends were read.

    :raises MoveDamagedError: some of its map are missing, or they have gaps.
    """
    found = sorted(partition for name, partition in ends if name == topic.name)
    if not found or set(topic.partitions) - set(found) or found != list(range(len(found))):
        raise MoveDamagedError(
            f"topic {topic.name}: the ends of partitions {found} were read, its map has {sorted(topic.partitions)}; "
            "a cut without all of them would leave the others behind"
        )
    return found


def cut_at(
    request: MoveRequest, where: str, before: Sequence[Extent], at: int, base: int, known_end: int | None = None
) -> tuple[Extent, ...]:
    """`before` with a cut at client offset `at`; the target's log ends at `base`.

    :param known_end: of a forced cut, see `Extent.known_end`.
    :raises MoveDamagedError: the partition is not written in the origin, or the map would be wrong.
    """
    if live(before).cluster != request.origin:
        raise MoveDamagedError(f"{where} is written in {live(before).cluster}, not in {request.origin} any more")
    try:
        after = append(before, request.target, at, base, known_end)
    except ValueError as error:
        raise MoveDamagedError(f"{where}: {error}") from error
    return require_sound(where, after)


def require_sound(where: str, extents: tuple[Extent, ...]) -> tuple[Extent, ...]:
    """:raises MoveDamagedError: the map would be wrong."""
    if problems := check(extents):
        raise MoveDamagedError(f"{where} would get a wrong map: {'; '.join(problems)}")
    return extents
