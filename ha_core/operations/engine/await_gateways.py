"""Waiting for gateways: an operation waits until a live gateway confirms or its node vanishes, for nothing else."""

from collections.abc import Callable

from ha_core.model import GatewayRecord, MoveOperation
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import MoveError, NotDrainedError
from ha_core.operations.engine.journal import Journal

SERVED_S = 30.0
"""Longer than the session of a gateway that has stopped; no client waits meanwhile."""
FIRST_POLL_S, LONGEST_POLL_S = 0.002, 0.05
Reached = Callable[[GatewayRecord], bool]


def serves(revision: int) -> Reached:
    """Every session of the gateway follows `revision`."""
    return lambda gateway: gateway.revision >= revision


def drained(revision: int, operation_id: str) -> Reached:
    """The gateway follows the fence, and nothing that it fences is still in flight."""
    return lambda gateway: gateway.revision >= revision and operation_id in gateway.drained


def wait_for_all(environment: Environment, reached: Reached, timeout_s: float) -> tuple[GatewayRecord, ...]:
    """Poll until every live gateway has `reached`. Returns those that have not after `timeout_s`, else ()."""
    deadline = environment.monotonic() + timeout_s
    pause = FIRST_POLL_S
    while True:
        late = tuple(gateway for gateway in environment.store.gateways() if not reached(gateway))
        if not late or environment.monotonic() >= deadline:
            return late
        environment.sleep(pause)
        pause = min(pause * 1.5, LONGEST_POLL_S)


def require_served(environment: Environment, revision: int, refused: type[MoveError], way: str) -> None:
    """Wait until every live gateway serves `revision`; raise `refused` with those that do not, and the `way` out."""
    late = wait_for_all(environment, serves(revision), SERVED_S)
    if late:
        raise refused(f"These gateways do not serve revision {revision} after {SERVED_S:g} s: {name_them(late)}. {way}")


def require_drained(journal: Journal[MoveOperation], revision: int) -> None:
    """Wait until every live gateway follows `revision`, with nothing in flight from before it.

    :raises NotDrainedError: some do not in time; the text names them.
    """
    moves, timeout_s = journal.moves, journal.request.drain_timeout_s
    # A move of bindings alone fences nothing, and no gateway reports a fence that it does not see.
    fencing = bool(moves.topics or moves.groups)
    reached = drained(revision, journal.operation.id) if fencing else serves(revision)
    late = wait_for_all(journal.environment, reached, timeout_s)
    if late:
        raise NotDrainedError(
            f"These gateways did not report revision {revision} drained within {timeout_s:g} s: {name_them(late)}. "
            "Look at their logs and requests in flight, or stop them, then try again; --drain-timeout waits longer."
        )


def name_them(gateways: tuple[GatewayRecord, ...]) -> str:
    """The gateways with their revision, for an error text."""
    return ", ".join(f"{g.id} ({g.host}:{g.port}, revision {g.revision})" for g in gateways)
