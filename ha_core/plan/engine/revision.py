"""Parts shared by all revisions of moves: documents to write, required states, cuts, and the error that stops them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar

from ha_core.model import Document, Extent, Group, MoveOperation, MoveRequest, Operation, Topic
from ha_core.model.extent import Extents, append, check, open_extent
from ha_core.model.operation import OperationState
from ha_core.plan.facts.clusters import Ends

AnyOperation = TypeVar("AnyOperation", bound=Operation)
Fenced = TypeVar("Fenced", Topic, Group)
FINAL = frozenset({"succeeded", "undone", "failed"})


class Documents(NamedTuple):
    """Documents of one revision. The operation's `writes` lists every put and delete."""

    puts: tuple[Document, ...]
    deletes: tuple[tuple[type[Document], str], ...] = ()


class MoveDamagedError(ValueError):
    """The state is not what the operation left: publishing could break the invariant, so nothing is published."""


def entering(operation: AnyOperation, state: OperationState) -> AnyOperation:
    """The operation in another state. :raises MoveDamagedError: its state has no such successor."""
    if state != operation.state and state not in operation.SUCCESSORS.get(operation.state, ()):
        raise MoveDamagedError(f"{_words(operation)}: it cannot become {state}")
    return operation.changed(state=state)


def require_state(operation: Operation, *states: str) -> None:
    """:raises MoveDamagedError: the operation is in none of `states`."""
    if operation.state not in states:
        raise MoveDamagedError(f"{_words(operation)}, not {' or '.join(states)}")


def _words(operation: Operation) -> str:
    return f"operation {operation.id} is {'being undone' if operation.state == 'undoing' else operation.state}"


def fenced(operation: MoveOperation, topics: Mapping[str, Topic], groups: Mapping[str, Group]) -> list[Topic | Group]:
    """The topics and groups that the operation has fenced, by either kind of fence."""
    moved = [*map(topics.get, operation.moves.topics), *map(groups.get, operation.moves.groups)]
    return [document for document in moved if document is not None and document.fenced_by == operation.id]


def require_free(operation: MoveOperation, what: str, document: Topic | Group | None) -> None:
    """:raises MoveDamagedError: another operation has fenced it."""
    if document is not None and document.fenced_by not in {None, operation.id}:
        raise MoveDamagedError(f"{what} is fenced by operation {document.fenced_by}: resume or undo that one first")


def require_fenced(operation: MoveOperation, what: str, document: Fenced | None) -> Fenced:
    """:raises MoveDamagedError: the operation has not fenced it; a transaction fence does not count."""
    if document is None or document.fence is None or document.fence.operation != operation.id:
        raise MoveDamagedError(f"the fence of operation {operation.id} on {what} does not stand any more")
    return document


def all_partitions(topic: Topic, ends: Ends) -> list[int]:
    """The partitions of a topic whose ends were read.

    :raises MoveDamagedError: partitions of its map are missing, or their numbers have gaps.
    """
    found = sorted(partition for name, partition in ends if name == topic.name)
    if not found or set(topic.partitions) - set(found) or found != list(range(len(found))):
        raise MoveDamagedError(
            f"topic {topic.name}: the ends of partitions {found} were read, its map has {sorted(topic.partitions)}; "
            "a cut has to include all of them"
        )
    return found


def cut_at(
    request: MoveRequest, where: str, before: Sequence[Extent], at: int, base: int, known_end: int | None = None
) -> Extents:
    """`before` with a cut at client offset `at`; the target's log ends at `base`.

    :param known_end: forced cuts only, see `Extent.known_end`.
    :raises MoveDamagedError: the partition is not written in the origin, or the map would be wrong.
    """
    if open_extent(before).cluster != request.origin:
        raise MoveDamagedError(f"{where} is written in {open_extent(before).cluster}, not in {request.origin} any more")
    try:
        after = append(before, request.target, at, base, known_end)
    except ValueError as error:
        raise MoveDamagedError(f"{where}: {error}") from error
    return require_sound(where, after)


def require_sound(where: str, extents: Extents) -> Extents:
    """:raises MoveDamagedError: the map would be wrong."""
    if problems := check(extents):
        raise MoveDamagedError(f"{where} would get a wrong map: {'; '.join(problems)}")
    return extents
