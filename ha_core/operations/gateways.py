"""Waiting for gateways: an operation waits for a live gateway's word or for its node to vanish, nothing else."""

from __future__ import annotations

from collections.abc import Callable

from ha_core.model import GatewayRecord
from ha_core.operations.environment import Environment
from ha_core.operations.errors import NotDrainedError

FIRST_POLL_S, LONGEST_POLL_S = 0.002, 0.05


def wait_for_all(
    environment: Environment, reached: Callable[[GatewayRecord], bool], timeout_s: float
) -> tuple[GatewayRecord, ...]:
    """Poll until every live gateway has `reached`. Returns those that have not when `timeout_s` is over, else ()."""
    deadline = environment.monotonic() + timeout_s
    pause = FIRST_POLL_S
    while True:
        late = tuple(gateway for gateway in environment.store.gateways() if not reached(gateway))
        if not late or environment.monotonic() >= deadline:
            return late
        environment.sleep(pause)
        pause = min(pause * 1.5, LONGEST_POLL_S)


def await_drained(environment: Environment, revision: int, operation_id: str, timeout_s: float) -> None:
    """Wait until every live gateway follows what `revision` says of the operation, with nothing in flight from before.

    :raises NotDrainedError: some do not in time; the text names them.
    """
    late = wait_for_all(environment, drained(revision, operation_id), timeout_s)
    if late:
        raise NotDrainedError(not_in_time(revision, late, timeout_s))


def not_in_time(revision: int, late: tuple[GatewayRecord, ...], timeout_s: float) -> str:
    """What to say of gateways that are `late`, and the way out."""
    return (
        f"These gateways did not report revision {revision} drained within {timeout_s:g} s: {name_them(late)}. Look "
        "at their logs and requests in flight, or stop them, then try again; --drain-timeout waits longer."
    )


def serves(revision: int) -> Callable[[GatewayRecord], bool]:
    """Every session of the gateway follows `revision`."""
    return lambda gateway: gateway.revision >= revision


def drained(revision: int, operation_id: str) -> Callable[[GatewayRecord], bool]:
    """The gateway follows the fence, and nothing that it fences is still in flight."""
    return lambda gateway: gateway.revision >= revision and operation_id in gateway.drained


def name_them(gateways: tuple[GatewayRecord, ...]) -> str:
    """The gateways with their revision, for an error text."""
    return ", ".join(f"{g.id} ({g.host}:{g.port}, revision {g.revision})" for g in gateways)
