"""What a move takes along: the closure of its scope over usage, with the reason of every item.

- A user takes all that it uses, but not what a finer binding holds: a topic of level `user#topic`, a group of level
  `user##group`, and what only instances of level `user+instance` use.
- An instance takes what it uses itself, with the same exceptions. `user#topic` and `user##group` take that one thing.
- A topic moves alone: groups and bindings stay.

A topic has one writer, so whoever else uses it comes along, wanted or not: these are the strangers. A group has one
coordinator per identity, so whoever else is in it would be left behind in another group of the same name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ha_core.model import Identity, MoveRequest, MoveSet, Scope, Usage, Use, UserBindings, View
from ha_core.plan.resolve import cluster_for_group


class Stranger(NamedTuple):
    """A use of a moving topic outside of the scope. `instance` is empty for a use that was declared for the user."""

    topic: str
    user: str
    instance: str
    since: str

    @property
    def who(self) -> str:
        return f"{self.user}+{self.instance}" if self.instance else self.user


class SharedGroup(NamedTuple):
    """A use of a moving group by an identity whose binding does not move."""

    group: str
    user: str
    instance: str


@dataclass(frozen=True, slots=True)
class Closure:
    moves: MoveSet
    strangers: tuple[Stranger, ...] = ()
    shared_groups: tuple[SharedGroup, ...] = ()
    unknown_users: tuple[str, ...] = ()
    """Users of the scope without a binding, a declared use or a seen one."""
    unseen: tuple[str, ...] = ()
    """Users of the scope that are bound, but of which no use is known."""
    users: Mapping[str, tuple[tuple[str, str], ...]] | None = None
    """`topic:NAME` or `group:NAME` → the (user, instance) of the scope that use it."""

    def identities(self, key: str) -> tuple[tuple[str, str], ...]:
        return (self.users or {}).get(key, ())


def closure(view: View, usage: Mapping[str, Usage], request: MoveRequest) -> Closure:
    """What `request` takes along, by what `usage` (user → uses) says.

    Usage is a lower bound: what nobody declared and no gateway saw is not in it.
    """
    scope = request.scope
    found = _Found()
    for user in scope.users:
        _take_user(found, view, usage, scope, user)
    for user, instance in scope.instances:
        _take_instance(found, view, usage, scope, user, instance)
    for user, topic in scope.user_topics:
        found.add(f"topic:{topic}", f"{user}#{topic} is in the scope", user, "")
    for user, group in scope.user_groups:
        found.add(f"group:{group}", f"{user}##{group} is in the scope", user, "")
    for topic in scope.topics:
        found.add(f"topic:{topic}", "named in the scope")
    topics = tuple(sorted(key[6:] for key in found.reasons if key.startswith("topic:")))
    groups = tuple(sorted(key[6:] for key in found.reasons if key.startswith("group:")))
    named = users_of(scope)
    return Closure(
        moves=MoveSet(topics=topics, groups=groups, reasons={key: found.reasons[key] for key in sorted(found.reasons)}),
        strangers=tuple(sorted(_strangers(view, usage, scope, topics))),
        shared_groups=tuple(sorted(_shared_groups(view, usage, scope, groups))),
        unknown_users=tuple(u for u in named if not _used(usage, u) and _bindings(view, u).empty),
        unseen=tuple(u for u in named if not _used(usage, u) and not _bindings(view, u).empty),
        users={key: tuple(users) for key, users in found.users.items()},
    )


class _Found:
    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}
        self.users: dict[str, dict[tuple[str, str], None]] = {}

    def add(self, key: str, reason: str, user: str | None = None, instance: str = "") -> None:
        self.reasons.setdefault(key, reason)
        if user is not None:
            self.users.setdefault(key, {})[user, instance] = None


def _take_user(found: _Found, view: View, usage: Mapping[str, Usage], scope: Scope, user: str) -> None:
    bindings = _bindings(view, user)
    for what, name, use in _uses(usage, user):
        if _fine_bound(bindings, what, name) or _stays_with_instance(bindings, scope, user, use.instance):
            continue
        found.add(f"{what}:{name}", f"user {user} uses it ({_words(use)})", user, use.instance)


def _take_instance(
    found: _Found, view: View, usage: Mapping[str, Usage], scope: Scope, user: str, instance: str
) -> None:
    bindings = _bindings(view, user)
    for what, name, use in _uses(usage, user):
        if use.instance == instance and not _fine_bound(bindings, what, name):
            found.add(f"{what}:{name}", f"instance {user}+{instance} uses it ({_words(use)})", user, instance)


def _strangers(view: View, usage: Mapping[str, Usage], scope: Scope, topics: tuple[str, ...]) -> Iterator[Stranger]:
    moving = set(topics)
    for user in usage:
        bindings = _bindings(view, user)
        seen: dict[tuple[str, str], str] = {}
        for what, name, use in _uses(usage, user):
            if what != "topic" or name not in moving or (user, name) in scope.user_topics:
                continue
            fine = name in bindings.topics
            if not fine and _identity_moves(bindings, scope, user, use.instance):
                continue
            key = (name, use.instance)
            seen[key] = min(seen.get(key, use.since), use.since)
        yield from (Stranger(topic, user, instance, since) for (topic, instance), since in seen.items())


def _shared_groups(
    view: View, usage: Mapping[str, Usage], scope: Scope, groups: tuple[str, ...]
) -> Iterator[SharedGroup]:
    moving = set(groups)
    for user in usage:
        bindings = _bindings(view, user)
        seen: set[tuple[str, str]] = set()
        for what, name, use in _uses(usage, user):
            if what != "group" or name not in moving or (user, name) in scope.user_groups:
                continue
            if name in bindings.groups or not _identity_moves(bindings, scope, user, use.instance):
                seen.add((name, use.instance))
        yield from (SharedGroup(group, user, instance) for group, instance in seen)


def _identity_moves(bindings: UserBindings, scope: Scope, user: str, instance: str) -> bool:
    if (user, instance) in scope.instances:
        return True
    return user in scope.users and instance not in bindings.instances


def _stays_with_instance(bindings: UserBindings, scope: Scope, user: str, instance: str) -> bool:
    return instance in bindings.instances and (user, instance) not in scope.instances


def _fine_bound(bindings: UserBindings, what: str, name: str) -> bool:
    return name in (bindings.topics if what == "topic" else bindings.groups)


def _uses(usage: Mapping[str, Usage], user: str) -> Iterator[tuple[str, str, Use]]:
    known = usage.get(user)
    if known is None:
        return
    for what, table in (("topic", known.topics), ("group", known.groups)):
        for name, uses in table.items():
            for use in uses:
                yield what, name, use


def _used(usage: Mapping[str, Usage], user: str) -> bool:
    known = usage.get(user)
    return known is not None and bool(known.topics or known.groups)


def _bindings(view: View, user: str) -> UserBindings:
    return view.bindings.get(user) or UserBindings(user=user)


def _words(use: Use) -> str:
    who = f", as {use.instance}" if use.instance else ""
    return f"{use.how} since {use.since}{who}"


def users_at(view: View, usage: Mapping[str, Usage], group: str, cluster: str) -> tuple[str, ...]:
    """Users of `group` whose requests for it go to the coordinator in `cluster`, by what `usage` (user → uses) says."""
    return tuple(
        user
        for user, used in sorted(usage.items())
        if any(
            cluster_for_group(view, Identity(user, use.instance), group) == cluster
            for use in used.groups.get(group, ())
        )
    )


def users_of(scope: Scope) -> tuple[str, ...]:
    """Every user that the scope names, once, in its order."""
    pairs = (*scope.instances, *scope.user_topics, *scope.user_groups)
    return tuple(dict.fromkeys([*scope.users, *(user for user, _ in pairs)]))


def lock_keys(request: MoveRequest, moves: MoveSet) -> tuple[str, ...]:
    """Everything that the move writes: `user:NAME`, `topic:NAME`, `group:NAME`, sorted."""
    return tuple(
        sorted(
            {
                *(f"user:{user}" for user in users_of(request.scope)),
                *(f"topic:{topic}" for topic in moves.topics),
                *(f"group:{group}" for group in moves.groups),
            }
        )
    )
