"""Information for an operator that raises no alarm: it may end by itself, or become a problem of `health` later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from ha_core.model import Identity, Operation, View
from ha_core.operations.creating import interrupted, quiet_s
from ha_core.operations.environment import Environment
from ha_core.operations.problem import Problem
from ha_core.plan.abandoned import NEXT_TASK_S
from ha_core.plan.resolve import cluster_for_user
from ha_core.plan.verdict import amount, duration

COMMAND_S = 3.0
"""A command holds its operation all the time except between two steps."""


def notices(
    environment: Environment, view: View, running: Collection[Operation], alarming: Collection[Problem]
) -> Iterator[Problem]:
    """:param alarming: problems that are told anyway; their subjects are left out."""
    yield from _without_executor(environment, running, alarming)
    yield from _super_users(view)


def _super_users(view: View) -> Iterator[Problem]:
    """Super users that gateways lead away from their clusters: declared or bound before it was refused, or by another
    default cluster."""
    for user in sorted(view.super_users):
        homes, led = view.super_user_of(user), cluster_for_user(view, Identity(user, ""))
        if led is not None and led not in homes:
            home = min(homes)
            yield Problem(
                f"user {user}",
                f"It is a super user of {home} and is led to {led}: it does not reach {home} through gateways.",
                f"`switchyard bindings set user:{user} {home}`",
            )


def _without_executor(
    environment: Environment, running: Collection[Operation], alarming: Collection[Problem]
) -> Iterator[Problem]:
    """Operations that hold locks while no executor works on them."""
    told = {problem.about for problem in alarming}
    locks = Counter(lock.operation for lock in environment.store.locks())
    for operation in running:
        about, by_run = f"operation {operation.id}", operation.driver == "run"
        if about in told or not interrupted(environment, operation, NEXT_TASK_S if by_run else COMMAND_S):
            continue
        ago = duration(quiet_s(environment, operation))
        holds = f"it is {operation.state} and holds {amount(locks[operation.id], 'lock')}"
        ways = f"`switchyard resume {operation.id}`, or `switchyard undo {operation.id}`"
        if by_run:
            text = f"No task of its run in Airflow has worked on it for {ago}; {holds}."
            yield Problem(about, text, f"Look at the run ({operation.by}). If it has ended: {ways}")
        else:
            text = f"No process has worked on it for {ago}; {holds}."
            yield Problem(about, text, f"If its command was killed: {ways}")
