"""Dependent groups read topics that move: they are found in the origin, judged as for a switch, and moved.

Groups commit client offsets, so a group may move before its topics or long after them. Only the topics have to exist
in the target, because a coordinator refuses commits of a topic that its cluster lacks. A group that cannot come along
stays, which does no harm; it is reported, with its way out.

Groups that do not move in one revision with their topics are moved by a switch of their own. Its id is derived from the
operation that it follows, so the executor that ends that operation finds one that a killed run has begun. The topics
stay moved, whatever happens to the groups: a failure is stored in the operation, with the command to repeat by hand.
"""

import shlex
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from pydantic import BaseModel, ConfigDict

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.model import Identity, MoveOperation, MoveRequest, MoveSet, Scope, View
from ha_core.model.evidence import DependentGroups
from ha_core.operations.clusters.collect_facts import gather_all
from ha_core.operations.engine.creating import await_free, create_operation
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import MoveError
from ha_core.operations.engine.journal import Journal
from ha_core.operations.engine.report import Report
from ha_core.operations.proposal.proposal import plan
from ha_core.plan.facts.clusters import Partition, may_have_members
from ha_core.plan.facts.verdict import Verdict, amount, listed
from ha_core.plan.move.closure import closure, users_at
from ha_core.plan.preflight import DEPENDENT_RULES, judge
from ha_core.plan.preflight.groups import DependentsCase
from ha_core.plan.routing.resolve import cluster_for_group
from ha_core.store.errors import TooLargeError

MAX_LEFT_OUT = 50
"""Groups that stay and are named in the evidence, at most."""
MAX_GROUPS = 200
"""Groups per operation: all of them wait under its fence, and are written in one revision."""
MAX_OPERATIONS = 99
"""An operation that was interrupted under its fence is undone when found: its groups are in the next one."""
LOOK_S = 30.0


class DependentGroup(BaseModel):
    """A group that comes along."""

    model_config = ConfigDict(frozen=True)

    group: str
    users: tuple[str, ...]
    """Users whose binding of the group changes."""
    members: int
    """Number of live members."""
    reads: tuple[str, ...]
    """Migrating topics that it reads."""
    reads_too: tuple[str, ...] = ()
    """Other topics that it has committed offsets of. They stay where they are."""

    @property
    def reason(self) -> str:
        return f"it reads {listed(self.reads)}"


@dataclass(frozen=True, slots=True)
class Dependents:
    """All groups that were found."""

    groups: tuple[DependentGroup, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Group → why it stays."""

    @property
    def scope(self) -> tuple[tuple[str, str], ...]:
        """(user, group) of all that come along."""
        return tuple((user, group.group) for group in self.groups for user in group.users)


def find_dependents(environment: Environment, view: View, request: MoveRequest, topics: Collection[str]) -> Dependents:
    """Groups with commits or members on `topics` in the request's origin, and the verdicts against moving each.

    :raises KafkaAdminError: the origin, or the target, does not answer.
    """
    admin = environment.admin(view.clusters[request.origin])
    readers, committed = _readers(admin, frozenset(topics))
    usage = environment.store.usage()
    users = {name: users_at(view, usage, name, request.origin) for name in sorted(readers)}
    # A super user stays in its cluster, and keeps there a group that it shares with others (`shared-group`).
    pairs = tuple((user, name) for name, some in users.items() for user in some if not view.super_user_of(user))
    switch = request.model_copy(
        update={"scope": Scope(topics=tuple(sorted(topics)), user_groups=pairs), "include_other_users": True}
    )
    found = closure(view, usage, switch)
    facts = gather_all(environment, view, (request.origin, request.target), MoveSet(groups=found.moves.groups))
    case = DependentsCase(view, switch, found, facts, usage=usage, readers=readers, committed=committed)
    verdicts = judge(DEPENDENT_RULES, case)
    errors = {v.about: v.text for v in verdicts if v.level == "error"}
    left_out = {name: errors[f"group {name}"] for name in sorted(readers) if f"group {name}" in errors}
    groups = tuple(
        DependentGroup(
            group=name,
            users=users[name],
            members=len(group.members) if (group := facts.group(request.origin, name)) is not None else 0,
            reads=tuple(sorted(readers[name])),
            reads_too=tuple(case.others(name)),
        )
        for name in case.moves.groups
        if name not in left_out
    )
    return Dependents(groups, tuple(_softened(verdicts, request.origin)), left_out)


def _readers(
    admin: Admin, topics: frozenset[str]
) -> tuple[dict[str, frozenset[str]], Mapping[str, Collection[Partition]]]:
    """Group → the `topics` that it reads, for groups that read any; and all partitions that each has committed."""
    states = admin.list_groups(timeout_s=LOOK_S)
    committed = admin.group_offsets(sorted(states), stable=False, timeout_s=LOOK_S)
    found = {name: topics & {topic for topic, _ in offsets} for name, offsets in committed.items()}
    # Members that never committed; brokers before Kafka 2.6 do not list groups with their states.
    silent = [name for name, some in found.items() if not some and may_have_members(states[name])]
    for name, group in admin.describe_groups(silent, timeout_s=LOOK_S).items() if silent else ():
        found[name] = topics & group.assigned
    return {name: some for name, some in found.items() if some}, {name: tuple(one) for name, one in committed.items()}


def _softened(verdicts: Collection[Verdict], origin: str) -> Iterator[Verdict]:
    """An error against the move of a group is a warning for the move of its topics."""
    for verdict in verdicts:
        softer = replace(verdict, level="warning", text=f"{verdict.text} It stays in {origin}.")
        yield softer if verdict.level == "error" else verdict


def follow(journal: Journal[MoveOperation]) -> None:
    """Move the groups after the topics of an operation that has cut over, if the request asks for it.

    :raises StoreError: ZooKeeper is away, or another executor continues. A repetition continues where it stopped.
    """
    request = journal.request
    if request.groups == "leave" or request.scope.user_groups or journal.operation.evidence.groups is not None:
        return
    with journal.step("groups") as seen:
        groups = _follow(journal)
        seen.update(groups.model_dump(exclude_defaults=True))
        journal.note(groups=groups)
    if groups.error:
        journal.environment.say(f"groups: {failure(journal.operation)}")


def unfollowed(operation: MoveOperation) -> str:
    """A sentence for the failure of an operation that has cut over: it ends before its groups are looked for."""
    request = operation.request
    if request.groups == "leave" or request.scope.user_groups:
        return ""
    return f" Groups have not followed its topics; when this is repaired: {_by_hand(request, Scope())}"


def words(operation: MoveOperation, view: View | None = None) -> str:
    """The result of moving the groups; empty before that. `view` as for `failure`."""
    groups = operation.evidence.groups
    if groups is None:
        return ""
    if groups.error:
        return failure(operation, view) or "the groups were moved afterwards"
    if not groups.moved:
        return "no group has followed"
    return f"{amount(groups.moved, 'group', 'has', 'have')} followed in operation {', '.join(groups.operations)}"


def failure(operation: MoveOperation, view: View | None = None) -> str:
    """Why the groups did not follow, with the next step; empty if there was no failure.

    :param view: the current state; an operator may have moved them since.
    """
    groups = operation.evidence.groups
    if groups is None or not groups.error or (view is not None and _moved_since(operation, groups, view)):
        return ""
    return f"the groups did not follow: {groups.error} The topics stay moved. Next: {groups.next}"


def _moved_since(operation: MoveOperation, groups: DependentGroups, view: View) -> bool:
    origin = operation.request.origin
    return bool(groups.scope) and all(
        cluster_for_group(view, Identity(user, ""), group) != origin for user, group in groups.scope
    )


def _follow(journal: Journal[MoveOperation]) -> DependentGroups:
    environment, request = journal.environment, journal.request
    operations: list[str] = []
    moved, left_out, error = 0, dict[str, str](), ""
    scope, by_hand = Scope(), True
    try:
        first = f"{journal.operation.id}-groups"
        for operation_id in (first, *(f"{first}.{number}" for number in range(2, MAX_OPERATIONS + 1))):
            known, more = environment.operation_of(MoveOperation, operation_id), True  # a killed run may have had more
            if known is None:
                dependents = find_dependents(environment, environment.store.load(), request, journal.moves.topics)
                left_out = dict(list(dependents.left_out.items())[:MAX_LEFT_OUT])
                error, by_hand = "", True
                more = len(dependents.groups) > MAX_GROUPS
                scope = Scope(user_groups=dependents.scope)
                if not dependents.groups:
                    break
                batch = replace(dependents, groups=dependents.groups[:MAX_GROUPS])
                groups = len(_begin(environment, request, Scope(user_groups=batch.scope), operation_id).groups)
            else:
                environment.say(f"operation {operation_id} was begun by {known.by}: continuing it")
                groups, scope = len(known.moves.groups), known.request.scope
            report: Report = journal.complete(operation_id)
            environment.say(f"operation {operation_id}: {report.words}")
            error, by_hand = report.error, report.result == "undone"
            if not by_hand:
                operations.append(operation_id)
            if report.result == "succeeded":
                moved += groups
            if not more or (report.result != "succeeded" and (known is None or not by_hand)):
                break
    except (MoveError, KafkaAdminError, TooLargeError) as failed:
        error = str(failed)
    outcome = DependentGroups(operations=tuple(operations), moved=moved, left_out=left_out, error=error)
    if error:
        following = _by_hand(request, scope) if by_hand else f"`switchyard history {operations[-1]}`"
        return outcome.model_copy(update={"next": following, "scope": scope.user_groups})
    return outcome


def _begin(environment: Environment, request: MoveRequest, scope: Scope, operation_id: str) -> MoveSet:
    switch = request.model_copy(update={"scope": scope, "cut": "barrier", "finish_after_s": None})
    keys = [f"user:{user}" for user, _ in scope.user_groups] + [f"group:{group}" for _, group in scope.user_groups]

    await_free(environment, keys)
    proposal = plan(environment, switch)
    proposal.require_sound()
    create_operation(environment, proposal, operation_id)
    return proposal.moves


def _by_hand(request: MoveRequest, scope: Scope) -> str:
    entries = scope.entries or ("user:NAME##GROUP",)
    route = ("--from", request.origin, "--to", request.target, "--reason", request.reason)
    return f"`switchyard switch {shlex.join((*entries, *route))}`"
