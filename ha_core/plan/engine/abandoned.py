"""Operations that nobody works on any more: how long that may last before whoever lives goes on with them.

An executor holds its operation while it works (`holder`, ephemeral), so the end of its session tells that it has died.
What clients wait for must not wait for anybody: a fence, a cut that was proposed and not opened, the way back of both.
Nor must mirrors that it has taken from the job, for they grow old.
An operation that is about to begin or between two tasks stands in nobody's way, however long; whether it is continued
is for those who began it, or for an operator to say.
"""

from __future__ import annotations

from collections.abc import Mapping

from ha_core.model import Operation, SingleOperation, SwitchOperation, Topic
from ha_core.plan.engine.revision import FINAL

AT_ONCE_S = 0.5
"""Longer than between taking an operation over and holding it."""
SOON_S = 5.0
"""Nobody waits but the next operation, for locks."""
NEXT_TASK_S = 60.0
"""Until the next task of a run begins, after which nobody waits but for locks."""


def patience_s(operation: Operation, topics: Mapping[str, Topic]) -> float | None:
    """How long the operation may be without an executor before it is resumed; None: as long as it likes.

    :param topics: its topics, where it is `crossing`; others are not looked at.
    """
    if isinstance(operation, SingleOperation) or operation.state in FINAL:
        return SOON_S
    if operation.state in {"fenced", "undoing"}:
        return AT_ONCE_S
    if operation.state == "cut":
        return NEXT_TASK_S if operation.driver == "run" else AT_ONCE_S
    if operation.state == "running" and isinstance(operation, SwitchOperation) and operation.evidence.mirrored:
        return SOON_S  # nobody copies what it holds
    if operation.state == "crossing":
        crossings = [topic.crossing for topic in topics.values() if topic.crossing is not None]
        if any(one.operation == operation.id and one.state == "proposed" for one in crossings):
            return AT_ONCE_S
    return None
