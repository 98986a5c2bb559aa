"""Identity maps that keep everybody in the origin, from before a copy exists in the target until the cut or the undo.

A topic without a map is wherever it exists: as soon as a move has made it in the target, whoever is bound there, or to
nothing where the target is the default cluster, would be led to the empty copy, and what he writes lies below the cut's
base, in no extent. So first every gateway follows a map that says `[0, ∞)` of the origin, and only then is anything
created. The maps go the other way round: only where no copy is left.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ha_core.model import Document, MoveOperation, Topic, View
from ha_core.model.extent import identity
from ha_core.plan.engine.revision import Documents, MoveDamagedError, entering, require_free, require_state
from ha_core.plan.facts.clusters import Ends


def to_pin(operation: MoveOperation, view: View) -> tuple[str, ...]:
    """Topics of the operation that have no map yet."""
    return tuple(name for name in operation.moves.topics if view.mapped(name) is None)


def pinned_map(origin: str, name: str, partitions: int) -> Topic:
    """A topic of `partitions` that never left `origin`."""
    return Topic(name=name, writer=origin, partitions={partition: identity(origin) for partition in range(partitions)})


def pin_change(operation: MoveOperation, view: View, partitions: Mapping[str, int]) -> Documents:
    """Identity maps for those topics of `partitions` (name → how many it has) that have none, and a note of which.

    :raises MoveDamagedError: something is fenced by another operation.
    """
    require_state(operation, "planned", "running")
    puts: list[Topic] = []
    for name in filter(partitions.__contains__, to_pin(operation, view)):
        require_free(operation, f"topic {name}", view.topics.get(name))
        puts.append(pinned_map(operation.request.origin, name, partitions[name]))
    pinned = [*operation.evidence.pinned, *(put.name for put in puts)]
    noted = operation.noting(pinned=tuple(dict.fromkeys(pinned)))
    return Documents((*puts, entering(noted, "running")))


def unpin_change(operation: MoveOperation, view: View, alone: Collection[str]) -> Documents:
    """The end of the identity maps of the operation, for the topics `alone`: those that exist in the origin only."""
    deletes: list[tuple[type[Document], str]] = []
    kept: list[str] = []
    for name in operation.evidence.pinned:
        topic = view.topics.get(name)
        if topic is None:
            continue
        if name in alone and topic == pinned_map(operation.request.origin, name, len(topic.partitions)):
            deletes.append((Topic, name))
        else:
            kept.append(name)
    return Documents((operation.noting(pinned=tuple(kept)),), tuple(deletes))


def require_unused(operation: MoveOperation, topic: str, ends: Ends) -> None:
    """:raises MoveDamagedError: the copy that was made for the move, or was there without a map, is not empty."""
    if topic not in {*operation.evidence.pinned, *operation.evidence.created}:
        return
    target = operation.request.target
    for (name, partition), one in sorted(ends.items()):
        if name == topic and one.target:
            raise MoveDamagedError(
                f"topic {topic} partition {partition} ends at {one.target} in {target}, where it was empty "
                "when the move began and the gateways led nobody: somebody writes there without passing through them. "
                f"Nothing was cut. Look what these records are, delete the copy in {target}, and move again"
            )
