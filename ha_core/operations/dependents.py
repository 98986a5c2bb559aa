"""After the topics: the groups that read them are moved by an operation of their own, the switch of these groups.

Its id is derived from the one that it follows, so whoever runs that one to its end finds what a killed run has begun.
The topics have moved by then and stay where they are, whatever becomes of the groups: what failed is written into the
operation with the command that does it by hand.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, TypeVar

from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import Identity, MoveRequest, Operation, Scope, View
from ha_core.model.operation import DependentGroups, MoveEvidence
from ha_core.operations.environment import Environment
from ha_core.operations.errors import MoveError
from ha_core.operations.journal import Journal
from ha_core.operations.migration.dependent_groups import find_followers
from ha_core.operations.report import Report
from ha_core.operations.requests import format_scope
from ha_core.operations.sides import asked
from ha_core.operations.switch.proposal import Proposal, plan
from ha_core.plan.resolve import cluster_for_group
from ha_core.store.errors import TooLargeError

LOCK_PATIENCE_S, LOCK_PAUSE_S = 30.0, 0.2
"""Two batches may have groups of one user, and each locks the user for the second that it takes."""
MAX_LEFT_OUT = 50
"""Of those that stay, in the evidence."""
MAX_GROUPS = 200
"""In one operation: all of them wait behind its fence, and are written in one revision."""
MAX_OPERATIONS = 99
"""One that was interrupted behind its fence is undone when it is found: its groups are in the next."""
T = TypeVar("T")


class Runner(NamedTuple):
    """How an operation comes to be and to its end; `moves.run`, for whose own last step this file is."""

    start: Callable[[Environment, Proposal, str], Operation]
    """With the id that it is to have."""
    run_all: Callable[[Environment, str], Report]


def follow(journal: Journal, runner: Runner) -> str:
    """Move the groups after the topics of an operation that has cut over, where that was asked for.

    Returns what became of it, as an addition to the operation's result; it is in the evidence and in the history too.

    :raises StoreError: ZooKeeper is away, or another executor goes on. Run again, it goes on where it was.
    """
    environment, operation = journal.environment, journal.operation
    request, moves = asked(operation)
    if request.groups == "leave" or request.scope.user_groups:
        return ""
    if operation.move.groups is None:
        with journal.step("groups") as seen:
            found = _follow(environment, operation, request, moves.topics, runner)
            seen.update({name: value for name, value in found.items() if value})
            journal.note(groups=DependentGroups(**found))
        if found["error"]:
            environment.say(f"groups: {failure(journal.operation)}")
    return f"; {words(journal.operation)}"


def unfollowed(operation: Operation) -> str:
    """What to add to the failure of an operation that has cut over: it ends before its groups are looked for."""
    request, _ = asked(operation)
    if request.groups == "leave" or request.scope.user_groups:
        return ""
    return f" Groups have not followed its topics; when this is mended: {_by_hand(request, Scope())}"


def words(operation: Operation, view: View | None = None) -> str:
    """What became of the groups; empty as long as nothing has. `view` as for `failure`."""
    found = operation.move.groups
    if found is None:
        return ""
    if found.error:
        return failure(operation, view) or "the groups were moved afterwards"
    if not found.moved:
        return "no group has followed"
    return f"{found.moved} groups have followed in operation {', '.join(found.operations)}"


def failure(operation: Operation, view: View | None = None) -> str:
    """Why groups that were to follow did not, with the next step; empty where nothing has failed.

    :param view: the state as it is now; somebody may have moved them since.
    """
    found = operation.evidence.groups if isinstance(operation.evidence, MoveEvidence) else None
    if found is None or not found.error or (view is not None and _moved_since(operation, found, view)):
        return ""
    return f"the groups did not follow: {found.error} The topics stay moved. Next: {found.next}"


def _moved_since(operation: Operation, groups: DependentGroups, view: View) -> bool:
    origin = asked(operation)[0].origin
    return bool(groups.scope) and all(
        cluster_for_group(view, Identity(user, ""), group) != origin for user, group in groups.scope
    )


def start_when_free(environment: Environment, keys: Collection[str], start: Callable[[], T]) -> T:
    """`start()`, once nobody has one of the locks any more or the patience is over."""
    deadline = environment.monotonic() + LOCK_PATIENCE_S
    said = False
    while environment.monotonic() < deadline:
        held = [lock for lock in environment.store.locks() if lock.key in keys]
        if not held:
            break
        if not said:
            environment.say(f"{held[0].key} is locked by operation {held[0].operation}: waiting for it")
            said = True
        environment.sleep(LOCK_PAUSE_S)
    return start()


def _follow(
    environment: Environment, operation: Operation, request: MoveRequest, topics: Collection[str], runner: Runner
) -> dict[str, Any]:
    found: dict[str, Any] = {"operations": [], "moved": 0, "left_out": {}, "error": ""}
    scope, by_hand = Scope(), True
    try:
        for operation_id in _ids(operation.id):
            known, more = environment.operation(operation_id), True  # a killed run may have had more
            if known is None:
                followers = find_followers(environment, environment.store.load(), request, topics)
                found["left_out"] = dict(list(followers.left_out.items())[:MAX_LEFT_OUT])
                found["error"], by_hand = "", True
                more = len(followers.follow) > MAX_GROUPS
                scope = Scope(user_groups=followers.scope)
                if not followers.follow:
                    break
                some = Scope(user_groups=followers.first(MAX_GROUPS).scope)
                begun = _start(environment, request, some, operation_id, runner)
            else:
                environment.say(f"operation {operation_id} was begun by {known.by}: going on with it")
                begun, scope = known, asked(known)[0].scope
            report = runner.run_all(environment, operation_id)
            environment.say(f"operation {operation_id}: {report.result} {report.error}".rstrip())
            found["error"], by_hand = report.error, report.result == "undone"
            if not by_hand:
                found["operations"].append(operation_id)
            if report.result == "succeeded":
                found["moved"] += len(asked(begun)[1].groups)
            if not more or (report.result != "succeeded" and (known is None or not by_hand)):
                break
    except (MoveError, KafkaAdminError, TooLargeError) as error:
        found["error"] = str(error)
    if found["error"]:
        found["next"] = _by_hand(request, scope) if by_hand else f"`switchyard history {found['operations'][-1]}`"
        found["scope"] = scope.user_groups
    return found


def _ids(operation_id: str) -> tuple[str, ...]:
    first = f"{operation_id}-groups"
    return (first, *(f"{first}.{number}" for number in range(2, MAX_OPERATIONS + 1)))


def _start(
    environment: Environment, request: MoveRequest, scope: Scope, operation_id: str, runner: Runner
) -> Operation:
    switch = request.model_copy(update={"scope": scope, "cut": "barrier", "finish_after_s": None})
    keys = [f"user:{user}" for user, _ in scope.user_groups] + [f"group:{group}" for _, group in scope.user_groups]

    def start() -> Operation:
        proposal = plan(environment, switch)
        proposal.require_sound()
        return runner.start(environment, proposal, operation_id)

    return start_when_free(environment, keys, start)


def _by_hand(request: MoveRequest, scope: Scope) -> str:
    entries = format_scope(scope) or ("user:NAME##GROUP",)
    route = ("--from", request.origin, "--to", request.target, "--reason", request.reason)
    return f"`switchyard switch {shlex.join((*entries, *route))}`"
