"""What the scope's identities began to use after the move was planned. A cut would leave it behind: a group without its
committed offsets, a topic with two writers.

Gateways report a revision only when what they saw before it is in the store (`gateway/driver/reports.py`), so behind
a drained fence nothing is missing here but what began behind it.
"""

from __future__ import annotations

from ha_core.model import Usage, View
from ha_core.operations.errors import StepFailedError
from ha_core.operations.journal import Journal
from ha_core.operations.sides import asked
from ha_core.plan.closure import closure
from ha_core.plan.scope import users_of

NAMED = 5


def latecomers(journal: Journal, view: View) -> tuple[str, ...]:
    """`topic:NAME` and `group:NAME` that were not judged when the move was planned.

    :param view: has the bindings of the users in the scope.
    """
    environment = journal.environment
    request, moves = asked(journal.operation)
    found = environment.pool.map(lambda user: environment.store.read(Usage, user), users_of(request.scope))
    usage = {one[0].user: one[0] for one in found if one is not None}
    judged = moves.reasons.keys() | set(moves.left_out)
    return tuple(sorted(closure(view, usage, request).moves.reasons.keys() - judged))


def refuse_latecomers(journal: Journal, view: View) -> None:
    """:raises StepFailedError: names them. A forced move goes on: nothing waits for what is dead."""
    found = latecomers(journal, view)
    if not found:
        return
    request, _ = asked(journal.operation)
    named = ", ".join(found[:NAMED]) + (f" and {len(found) - NAMED} more" if len(found) > NAMED else "")
    if request.mode == "forced":
        journal.environment.say(f"used for the first time since the move was planned, and left behind: {named}")
        return
    raise StepFailedError(
        f"Clients of the scope began to use {named} after the move was planned: it would be left behind. "
        "Start the move again, and it is taken along."
    )
