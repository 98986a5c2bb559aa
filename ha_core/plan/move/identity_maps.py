"""Identity maps keep all clients in the origin, from before a copy exists in the target until the cut or the undo.

Without a map, gateways route to any cluster that has the topic: once a move has created it in the target, clients bound
there, or unbound ones if the target is the default, would be routed to the empty copy, and their records would be below
the cut's base, in no extent. So first every gateway applies a map `[0, ∞)` of the origin, and only then is a topic
created. Undoing reverses that order: a map is removed only after the copy is gone.
"""

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
    """Identity maps for topics of `partitions` (name → number) without a map, noted in the evidence.

    :raises MoveDamagedError: another operation has fenced a topic.
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
    """Remove the operation's identity maps of the topics `alone`, which exist in the origin only."""
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
    """:raises MoveDamagedError: a copy that the move created, or that existed without a map, is not empty."""
    if topic not in {*operation.evidence.pinned, *operation.evidence.created}:
        return
    target = operation.request.target
    for (name, partition), one in sorted(ends.items()):
        if name == topic and one.target:
            raise MoveDamagedError(
                f"topic {topic} partition {partition} ends at {one.target} in {target}, where it was empty "
                "when the move began and gateways routed no client: a producer writes there past the gateways. "
                f"Nothing was cut. Check these records, delete the copy in {target}, and move again"
            )
