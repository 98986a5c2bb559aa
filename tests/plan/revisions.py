"""What stands in the state after a revision."""

from __future__ import annotations

from ha_core.model import LastSequences, Operation, Topic, View
from ha_core.plan.revision import Documents


def written(documents: Documents, view: View | None = None) -> tuple[Operation, View]:
    """The operation, and the view with what the revision wrote."""
    topics = dict(view.topics) if view else {}
    sequences = dict(view.sequences) if view else {}
    operation: Operation | None = None
    for put in documents.puts:
        if isinstance(put, Topic):
            topics[put.name] = put
        elif isinstance(put, LastSequences):
            sequences[put.name] = put
        elif isinstance(put, Operation):
            operation = put
    for _, name in documents.deletes:
        del topics[name]
    assert operation is not None
    return operation, View(topics=topics, sequences=sequences)
