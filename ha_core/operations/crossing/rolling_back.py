"""What taking a migration back would do, said before it is done."""

from __future__ import annotations

from ha_core.operations.context import Environment
from ha_core.operations.crossing.way_back import require_way_back
from ha_core.operations.errors import RefusedError
from ha_core.operations.sides import asked
from ha_core.plan.move import FINAL


def would_roll_back(environment: Environment, operation_id: str) -> str:
    """What a roll-back would do now, in words. Changes nothing.

    :raises RefusedError: no such operation, or there is no way back; the text names the move that does the same job.
    """
    operation = environment.operation(operation_id)
    if operation is None or operation.kind != "migrate":
        raise RefusedError(
            f"Nothing was changed. There is no migration {operation_id!r}. `switchyard migrations` lists them."
        )
    if operation.state in FINAL - {"succeeded"}:
        return f"{operation_id} has ended as {operation.state}: nothing is to be taken back"
    require_way_back(environment, operation, environment.store.load().topics)
    request, moves = asked(operation)
    return f"would take back {len(moves.topics)} topics of {operation_id} from {request.target} to {request.origin}"
