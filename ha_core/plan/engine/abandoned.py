"""Orphans: how long an operation may be without an executor before orphan recovery continues it.

An executor holds its operation while it works (`holder`, ephemeral), so the end of its session shows its death.
Clients wait for a fence, for a cut that was proposed and not opened, and for the undoing of both, so these are
continued at once. Mirrors that the operation has taken from the job are continued soon, because their copies lag.
An operation that is about to begin, or between two tasks, blocks no client; its executor or an operator decides
whether it continues.
"""

from collections.abc import Mapping

from ha_core.model import Operation, Topic
from ha_core.plan.engine.revision import FINAL

AT_ONCE_S = 0.5
"""Longer than from taking an operation over to holding it."""
SOON_S = 5.0
"""For operations that only others' locks wait for."""
NEXT_TASK_S = 60.0
"""Time for the next task of a run to begin; only others' locks wait for it."""


def patience_s(operation: Operation, topics: Mapping[str, Topic]) -> float | None:
    """Seconds that the operation may be without an executor before it is resumed; None: unlimited.

    :param topics: its topics, needed only if it is `crossing`.
    """
    if operation.ATOMIC or operation.state in FINAL:
        return SOON_S
    if operation.state in {"fenced", "undoing"}:
        return AT_ONCE_S
    if operation.state == "cut":
        return NEXT_TASK_S if operation.driver == "run" else AT_ONCE_S
    if operation.state == "running" and operation.move_evidence.mirrored:
        return SOON_S  # no copier copies the mirrors that it holds
    if operation.state == "crossing":
        crossings = [topic.crossing for topic in topics.values() if topic.crossing is not None]
        if any(crossing.operation == operation.id and crossing.state == "proposed" for crossing in crossings):
            return AT_ONCE_S
    return None
