"""Groups that read topics which migrate: found in the origin, and judged as a switch of them would be.

What a group has committed are client offsets, so it may go before its topics or long after them: only the topics have
to be there, because a coordinator takes no commits of a topic that its cluster does not have. A group that cannot come
along stays where it is, which harms nobody; it is said, with its way out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from pydantic import BaseModel, ConfigDict

from ha_core.kafka.admin import Admin
from ha_core.kafka.facts import LIVE, Partition
from ha_core.model import MoveRequest, MoveSet, Scope, Usage, View
from ha_core.operations.environment import Environment
from ha_core.operations.gather import gather
from ha_core.plan.closure import closure
from ha_core.plan.facts import Facts
from ha_core.plan.followers import assigned_topics, crossing_for, has_user, users_at
from ha_core.plan.preflight import Case, outside_topics
from ha_core.plan.preflight.groups import groups
from ha_core.plan.verdict import Verdict, error, listed

LOOK_S = 30.0


class Follower(BaseModel):
    """A group that comes along."""

    model_config = ConfigDict(frozen=True)

    group: str
    users: tuple[str, ...]
    """Whose binding of the group changes."""
    members: int
    """Live ones."""
    reads: tuple[str, ...]
    """Of the topics that migrate."""
    reads_too: tuple[str, ...] = ()
    """Others that it has committed offsets of. They stay where they are."""

    @property
    def reason(self) -> str:
        return f"it reads {listed(self.reads)}"


@dataclass(frozen=True, slots=True)
class Followers:
    """All that was found."""

    follow: tuple[Follower, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)
    """Group → why it stays."""

    @property
    def scope(self) -> tuple[tuple[str, str], ...]:
        """(user, group) of all that come along."""
        return tuple((user, one.group) for one in self.follow for user in one.users)

    def first(self, most: int) -> Followers:
        """With at most so many groups that come along."""
        return replace(self, follow=self.follow[:most])


def find_followers(environment: Environment, view: View, request: MoveRequest, topics: Collection[str]) -> Followers:
    """Groups with commits or members on `topics` in the request's origin, and what speaks against moving each.

    :raises KafkaAdminError: the origin, or the target, does not answer.
    """
    admin = environment.admin(view.clusters[request.origin])
    readers, committed = _readers(admin, frozenset(topics))
    usage = environment.store.usage()
    users = {name: users_at(view, usage, name, request.origin) for name in sorted(readers)}
    pairs = tuple((user, name) for name, some in users.items() for user in some)
    asked = request.model_copy(
        update={"scope": Scope(topics=tuple(sorted(topics)), user_groups=pairs), "include_followers": True}
    )
    found = closure(view, usage, asked)
    facts = _facts(environment, view, request, found.moves)
    case = Case(view, asked, found, facts)
    verdicts = [
        *_of_nobody(view, usage, request, readers),
        *_waiting(view, readers, committed, topics),
        *groups(case),
    ]
    left_out = {v.about.removeprefix("group "): v.text for v in verdicts if v.level == "error"}
    follow = tuple(
        Follower(
            group=name,
            users=users[name],
            members=len(known.members) if (known := facts.group(request.origin, name)) is not None else 0,
            reads=tuple(sorted(readers[name])),
            reads_too=tuple(sorted({topic for topic, _ in committed[name]} - set(topics))),
        )
        for name in case.moves.groups
        if name not in left_out
    )
    return Followers(follow, tuple(_softened(verdicts, request.origin)), left_out)


def _readers(
    admin: Admin, topics: frozenset[str]
) -> tuple[dict[str, frozenset[str]], Mapping[str, Collection[Partition]]]:
    """Group → which of `topics` it reads, for those that read any; and all that each has committed."""
    states = admin.list_groups(timeout_s=LOOK_S)
    committed = admin.group_offsets(sorted(states), stable=False, timeout_s=LOOK_S)
    found = {name: topics & {topic for topic, _ in offsets} for name, offsets in committed.items()}
    # Members that never committed; brokers before Kafka 2.6 do not say who has members.
    silent = [name for name, some in found.items() if not some and (states[name] in LIVE or not states[name])]
    for name, group in admin.describe_groups(silent, timeout_s=LOOK_S).items() if silent else ():
        found[name] = topics & frozenset[str]().union(*(assigned_topics(one.assignment) for one in group.members))
    return {name: some for name, some in found.items() if some}, {name: tuple(one) for name, one in committed.items()}


def _facts(environment: Environment, view: View, request: MoveRequest, moves: MoveSet) -> Facts:
    """Of the groups, and of the topics that they read besides those that migrate."""
    sides = (request.origin, request.target)
    facts = gather(environment, view, sides, MoveSet(groups=moves.groups))
    outside = outside_topics(moves, facts)
    if not outside:
        return facts
    more = gather(environment, view, sides, MoveSet(topics=outside))
    return replace(facts, topics={**facts.topics, **more.topics})


def _of_nobody(
    view: View, usage: Mapping[str, Usage], request: MoveRequest, readers: Mapping[str, Collection[str]]
) -> Iterator[Verdict]:
    """Without a user there is no binding to change. What a group has left behind when it moved is of nobody too."""
    for name in sorted(readers):
        document = view.groups.get(name)
        moved = document is not None and document.cluster not in {None, request.origin}
        if not moved and not has_user(usage, name):
            yield error(
                "unknown-group-user",
                f"group {name}",
                f"Group {name} reads {listed(sorted(readers[name]))}, but no user of it is known.",
                f"Declare who uses it: `switchyard usage declare USER --group {name}`.",
            )


def _waiting(
    view: View,
    readers: Mapping[str, Collection[str]],
    committed: Mapping[str, Collection[Partition]],
    topics: Collection[str],
) -> Iterator[Verdict]:
    """A crossing that is taken back deletes what it created, and with it the offsets that a group has there."""
    for name in sorted(readers):
        crossing = crossing_for(view, {topic for topic, _ in committed[name]} - set(topics))
        for topic, operation in list(crossing.items())[:1]:
            yield error(
                "topic-crosses",
                f"group {name}",
                f"Group {name} reads {topic} too, which crosses over for operation {operation}.",
                "It can be moved when that has ended; an operation that moves groups takes it along by itself.",
            )


def _softened(verdicts: Collection[Verdict], origin: str) -> Iterator[Verdict]:
    """What refuses the move of a group does not refuse that of its topics."""
    for one in verdicts:
        softer = replace(one, level="warning", text=f"{one.text} It stays in {origin}.")
        yield softer if one.level == "error" else one
