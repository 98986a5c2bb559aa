"""Views after a revision."""

from typing import TypeVar

from ha_core.model import LastSequences, MigrateOperation, MoveOperation, Topic, View
from ha_core.plan.engine.revision import Documents

Move = TypeVar("Move", bound=MoveOperation)


def written(documents: Documents, view: View | None = None) -> tuple[MigrateOperation, View]:
    """The migration, and the view after the revision."""
    return written_of(MigrateOperation, documents, view)


def written_of(kind: type[Move], documents: Documents, view: View | None = None) -> tuple[Move, View]:
    """`after` for another kind of move."""
    topics = dict(view.topics) if view else {}
    sequences = dict(view.sequences) if view else {}
    operation: Move | None = None
    for put in documents.puts:
        if isinstance(put, Topic):
            topics[put.name] = put
        elif isinstance(put, LastSequences):
            sequences[put.name] = put
        elif isinstance(put, kind):
            operation = put
    for _, name in documents.deletes:
        del topics[name]
    assert operation is not None
    return operation, View(topics=topics, sequences=sequences)
