"""The closure of a move: everything that its scope takes along by usage, with the reason for every item.

- A user takes all topics and groups that it uses, except those with a finer binding: a topic of level `user#topic`, a
  group of level `user##group`, and those that only instances of level `user+instance` use.
- An instance takes those that it uses itself, with the same exceptions. `user#topic` and `user##group` take only their
  topic or group.
- A topic moves alone: groups and bindings stay.

A topic has one writer, so its other users move too, wanted or not. A group has one coordinator per identity, so its
other members would stay in a separate group of that name.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from ha_core.model import Identity, MoveRequest, MoveSet, Scope, Usage, Use, UserBindings, View
from ha_core.plan.routing.resolve import cluster_for_group

Kind = Literal["topic", "group"]


class OtherUser(NamedTuple):
    """A use of a moving topic or group outside the scope. `instance` is empty for a use declared for the user."""

    name: str
    user: str
    instance: str
    since: str

    @property
    def who(self) -> str:
        return f"{self.user}+{self.instance}" if self.instance else self.user


@dataclass(frozen=True, slots=True)
class Closure:
    moves: MoveSet
    other_users: tuple[OtherUser, ...] = ()
    """Other users of moving topics."""
    shared_groups: tuple[OtherUser, ...] = ()
    """Uses of moving groups by identities whose binding does not move."""
    unseen: tuple[str, ...] = ()
    """Users of the scope without known usage, seen or declared."""
    users: Mapping[str, Mapping[tuple[str, str], None]] = field(default_factory=dict)
    """`topic:NAME` or `group:NAME` → each (user, instance) of the scope that uses it."""

    def identities(self, key: str) -> tuple[tuple[str, str], ...]:
        return tuple(self.users.get(key, ()))


def closure(view: View, usage: Mapping[str, Usage], request: MoveRequest) -> Closure:
    """The closure of `request` over `usage` (user → uses).

    Usage is a lower bound: it has only uses that were declared or that gateways saw.
    """
    scope = request.scope
    reasons: dict[str, str] = {}
    users: dict[str, dict[tuple[str, str], None]] = {}

    def add(key: str, reason: str, user: str, instance: str = "") -> None:
        reasons.setdefault(key, reason)
        users.setdefault(key, {})[user, instance] = None

    for user in dict.fromkeys([*scope.users, *(user for user, _ in scope.instances)]):
        bindings = _bindings(view, user)
        for what, name, use in _uses(usage, user):
            if what == "topic" and name in view.copy_logs:
                continue  # copiers write there; a gateway of an earlier version may have recorded their use
            if not _fine_bound(bindings, what, name) and _identity_moves(bindings, scope, user, use.instance):
                who = f"user {user}" if user in scope.users else f"instance {user}+{use.instance}"
                add(f"{what}:{name}", f"{who} uses it ({_words(use)})", user, use.instance)
    for user, topic in scope.user_topics:
        add(f"topic:{topic}", f"{user}#{topic} is in the scope", user)
    for user, group in scope.user_groups:
        add(f"group:{group}", f"{user}##{group} is in the scope", user)
    for topic in scope.topics:
        reasons.setdefault(f"topic:{topic}", "named in the scope")
    reasons = dict(sorted(reasons.items()))
    topics = tuple(key[6:] for key in reasons if key.startswith("topic:"))
    groups = tuple(key[6:] for key in reasons if key.startswith("group:"))
    return Closure(
        moves=MoveSet(topics=topics, groups=groups, reasons=reasons),
        other_users=tuple(sorted(_other_users(view, usage, scope, "topic", set(topics)))),
        shared_groups=tuple(sorted(_other_users(view, usage, scope, "group", set(groups)))),
        unseen=tuple(user for user in scope.named_users if not any(_uses(usage, user))),
        users=users,
    )


def _other_users(
    view: View, usage: Mapping[str, Usage], scope: Scope, kind: Kind, moving: Collection[str]
) -> Iterator[OtherUser]:
    named = scope.user_topics if kind == "topic" else scope.user_groups
    for user in usage:
        bindings, since = _bindings(view, user), dict[tuple[str, str], str]()
        for what, name, use in _uses(usage, user):
            if what != kind or name not in moving or (user, name) in named:
                continue
            if _fine_bound(bindings, what, name) or not _identity_moves(bindings, scope, user, use.instance):
                key = (name, use.instance)
                since[key] = min(since.get(key, use.since), use.since)
        yield from (OtherUser(name, user, instance, first) for (name, instance), first in since.items())


def _identity_moves(bindings: UserBindings, scope: Scope, user: str, instance: str) -> bool:
    instance = bindings.instance(instance)  # the use may be older than the user's client-id forms
    if (user, instance) in scope.instances:
        return True
    return user in scope.users and instance not in bindings.instances


def _fine_bound(bindings: UserBindings, what: Kind, name: str) -> bool:
    return name in (bindings.topics if what == "topic" else bindings.groups)


def _uses(usage: Mapping[str, Usage], user: str) -> Iterator[tuple[Kind, str, Use]]:
    known = usage.get(user) or Usage(user=user)
    for name, uses in known.topics.items():
        yield from (("topic", name, use) for use in uses)
    for name, uses in known.groups.items():
        yield from (("group", name, use) for use in uses)


def _bindings(view: View, user: str) -> UserBindings:
    return view.bindings.get(user) or UserBindings(user=user)


def _words(use: Use) -> str:
    who = f", as {use.instance}" if use.instance else ""
    return f"{use.how} since {use.since}{who}"


def users_at(view: View, usage: Mapping[str, Usage], group: str, cluster: str) -> tuple[str, ...]:
    """Users of `group`, by `usage` (user → uses), whose requests for it go to the coordinator in `cluster`."""
    return tuple(
        user
        for user, used in sorted(usage.items())
        if any(
            cluster_for_group(view, Identity(user, use.instance), group) == cluster
            for use in used.groups.get(group, ())
        )
    )


def lock_keys(request: MoveRequest, moves: MoveSet) -> tuple[str, ...]:
    """Keys of everything that the move writes: `user:NAME`, `topic:NAME`, `group:NAME`, sorted."""
    return tuple(sorted({*(f"user:{user}" for user in request.scope.named_users), *moves.keys}))
