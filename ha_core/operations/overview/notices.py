"""Information for an operator that raises no alarm: it may end by itself, or become a problem of `health` later."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from datetime import datetime
from itertools import islice
from shlex import quote

from ha_core.model import Identity, Operation, UserBindings, View
from ha_core.operations.engine.creating import interrupted, quiet_s
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError
from ha_core.operations.mirror.pattern_states import pattern_notices
from ha_core.operations.overview.operation_health import last_step_at
from ha_core.operations.proposal.usage import counts_days
from ha_core.plan.access.direct_groups import conflicts
from ha_core.plan.access.shared_ids import in_use, shared_ids
from ha_core.plan.access.usage_age import by_instance, churning, split
from ha_core.plan.engine.abandoned import NEXT_TASK_S
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.facts.problem import Problem
from ha_core.plan.facts.verdict import amount, duration, listed
from ha_core.plan.routing.resolve import cluster_for_user

COMMAND_S = 3.0
"""A command holds its operation all the time except between two steps."""
ASKED_S = 2.0
"""Timeout of a gateway's list of connections; without its answer there is no notice."""
MAX_ROWS, MAX_NOTICES = 10_000, 20


def notices(
    environment: Environment, view: View, running: Collection[Operation], alarming: Collection[Problem]
) -> Iterator[Problem]:
    """:param alarming: problems that are reported anyway; their subjects are left out."""
    yield from _without_executor(environment, running, alarming)
    yield from islice(_approvals(environment), MAX_NOTICES)
    yield from _super_users(view)
    yield from islice(pattern_notices(environment), MAX_NOTICES)
    yield from islice(_direct_groups(environment, view), MAX_NOTICES)
    instances = {user: bound for user, bound in view.bindings.items() if bound.instances}
    if instances:
        yield from islice(_shared_ids(environment, instances), MAX_NOTICES)
        yield from islice(_ids_made_anew(environment, instances), MAX_NOTICES)


def _shared_ids(environment: Environment, users: Mapping[str, UserBindings]) -> Iterator[Problem]:
    """Client ids in use in several places, of users with bound instances: a binding applies to several clients."""
    # This imports an HTTP client, which is needed only if instances are bound.
    from ha_core.operations.engine.gateway_queries import ask_gateways

    try:
        answers = ask_gateways(environment, "/connections", {"limit": str(MAX_ROWS)}, timeout_s=ASKED_S)
    except RefusedError:
        return
    rows = [row for reply in answers if reply.answer is not None for row in reply.answer["connections"]]
    for shared_id in shared_ids(row for row in rows if row["user"] in users and in_use(row)):
        see = f"switchyard connections --user {quote(shared_id.user)}"
        yield Problem(
            "client-id-shared",
            f"user {shared_id.user}",
            f"Its client id {shared_id.client_id} is used from {amount(len(shared_id.addresses), 'place')} at once "
            f"({listed(shared_id.addresses)}). A binding or a move of that instance applies to all of them.",
            f"Give each client an id of its own; `{see}` shows them.",
            see,
        )


def _ids_made_anew(environment: Environment, users: Mapping[str, UserBindings]) -> Iterator[Problem]:
    """Client ids that no binding of an instance can match, of users with bound instances."""
    usage = {user: used for user, used in environment.store.usage().items() if user in users}
    anew = grouped((churn.user, churn.family) for churn in churning(by_instance(usage, users), environment.now()))
    for user, families in sorted(anew.items()):
        yield Problem(
            "client-id-anew",
            f"user {user}",
            f"Its client ids {listed(sorted({*families}))} change at each start, so no binding of an instance matches "
            "them.",
            f"Give each client a stable id, or declare which part of it is stable: `switchyard bindings set "
            f"{quote(f'user:{user}')} --client-ids FORM`.",
            f"switchyard connections --user {quote(user)}",
        )


def _direct_groups(environment: Environment, view: View) -> Iterator[Problem]:
    """Direct groups that gateways know too: named in spite of that, or used through a gateway since."""
    usage = split(environment.store.usage(), environment.now(), counts_days()).counts if view.direct_groups else {}
    for conflict in conflicts(view, usage.values()):
        yield Problem(
            "direct-group-used",
            f"group {conflict.group}",
            f"It is a direct group ({conflict.pattern!r}), and {conflict.why}. Its offsets are translated in standbys, "
            "and gateways refuse it.",
            "Give the consumers on one of both ways another group, then `switchyard usage forget USER --group "
            f"{quote(conflict.group)}`; or `switchyard direct-groups remove {quote(conflict.pattern)}`.",
            f"switchyard group {quote(conflict.group)}",
        )


def _approvals(environment: Environment) -> Iterator[Problem]:
    """Airflow runs that have begun nothing and wait for an approval, until Airflow rejects them."""
    now = datetime.fromisoformat(environment.now())
    for approval in environment.store.waiting_approvals():
        left_s = (datetime.fromisoformat(approval.answer_by) - now).total_seconds()
        if left_s > 0:
            why = f": {approval.reason}" if approval.reason else ""
            yield Problem(
                "approval-waits",
                f"approval of {approval.run}",
                f"{approval.by or 'the schedule'} asked for it {duration(environment.age_s(approval.since))} ago{why}. "
                "Airflow "
                f"rejects it in {duration(left_s)}.",
                "Approve or reject it in Airflow, on the page of the run or under Required Actions."
                + (f" {approval.link}" if approval.link else ""),
                "switchyard status",
                since=approval.since,
            )


def _super_users(view: View) -> Iterator[Problem]:
    """Super users that gateways route away from their clusters: declared or bound before that was refused, or because
    the default cluster changed."""
    for user in sorted(view.super_users):
        homes, led = view.super_user_of(user), cluster_for_user(view, Identity(user, ""))
        if led is not None and led not in homes:
            home = min(homes)
            yield Problem(
                "super-user-elsewhere",
                f"user {user}",
                f"It is a super user of {home} and is led to {led}: it does not reach {home} through gateways.",
                f"`switchyard bindings set {quote(f'user:{user}')} {home}`",
                f"switchyard bindings set {quote(f'user:{user}')} {home}",
            )


def _without_executor(
    environment: Environment, running: Collection[Operation], alarming: Collection[Problem]
) -> Iterator[Problem]:
    """Operations that hold locks while no executor works on them."""
    alarmed = {problem.about for problem in alarming}
    locks = Counter(lock.operation for lock in environment.store.locks())
    for operation in running:
        about, by_run = f"operation {operation.id}", operation.driver == "run"
        if about in alarmed or not interrupted(environment, operation, NEXT_TASK_S if by_run else COMMAND_S):
            continue
        ago = duration(quiet_s(environment, operation))
        holds = f"it is {operation.state} and holds {amount(locks[operation.id], 'lock')}"
        resume, since = f"switchyard resume {operation.id}", last_step_at(environment, operation)
        ways = f"`{resume}`, or `switchyard undo {operation.id}`"
        if by_run:
            text = f"No task of its run in Airflow has worked on it for {ago}; {holds}."
            remedy = f"Look at the run ({operation.by}). If it has ended: {ways}"
            yield Problem("operation-without-executor", about, text, remedy, resume, since=since)
        else:
            text = f"No process has worked on it for {ago}; {holds}."
            remedy = f"If its command was killed: {ways}"
            yield Problem("operation-without-executor", about, text, remedy, resume, since=since)
