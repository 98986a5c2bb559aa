"""Users as the unit of a switch: wide ones, and instances that can move alone.

A switch moves a user with all topics and groups that it uses, and their other users. Narrow users, one for each
application, move alone; a wide one ties unrelated applications together. An instance can move alone only if its client
id is the same after each start: otherwise its binding matches no client.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ha_core.model import Scope, Usage, UserBindings, View
from ha_core.plan.access.usage_age import by_instance, churning
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.facts.verdict import listed

WIDE = 20
"""Topics, or instances, of one user: more are reported as wide."""
SHARED = 5
"""Other users that use the same topics: more are reported as wide."""


class Width(NamedTuple):
    """The extent of one user's usage.

    :ivar shared_with: other users of the same topics.
    :ivar super_user_of: clusters whose super user it is.
    """

    user: str
    topics: int
    groups: int
    instances: int
    shared_with: int
    super_user_of: tuple[str, ...]

    @property
    def wide(self) -> bool:
        return bool(self.super_user_of) or self.topics > WIDE or self.instances > WIDE or self.shared_with > SHARED


def widths(view: View, usage: Mapping[str, Usage]) -> Iterator[Width]:
    """Every known user, the widest first."""
    users_of = grouped((topic, user) for user, used in usage.items() for topic in used.topics)
    found = []
    for user in sorted(usage.keys() | view.super_users.keys()):
        used = usage.get(user) or Usage(user=user)
        uses = [use for uses in (*used.topics.values(), *used.groups.values()) for use in uses]
        shared: set[str] = set().union(*(users_of[topic] for topic in used.topics)) - {user}
        counts = len(used.topics), len(used.groups), len({use.instance for use in uses if use.instance}), len(shared)
        found.append(Width(user, *counts, tuple(sorted(view.super_user_of(user)))))
    yield from sorted(found, key=lambda one: (not one.wide, -one.topics, -one.shared_with, one.user))


class Chosen(NamedTuple):
    scope: Scope
    reason: str


def choose(bindings: UserBindings, topic: str, usage: Mapping[str, Usage], now: str) -> Chosen:
    """The instances of a user that use `topic`, seen or declared, else the user.

    All of these instances move: the topic has one writer, so it moves with each client that uses it. A client that no
    binding of an instance can match would stay, so then the whole user moves.

    :param bindings: of the user; may be empty.
    :param usage: user → its uses that count.
    :param now: UTC, ISO 8601.
    """
    user = bindings.user
    used = by_instance({user: usage.get(user) or Usage(user=user)}, {user: bindings})
    uses = used[user].topics.get(topic, ())
    instances = tuple(sorted({use.instance for use in uses}))
    if not uses:
        why = f"no instance of {user} is known to use {topic}"
    elif not instances[0]:
        why = f"clients of {user} that use {topic} have no client id, or the use was declared without one"
    elif anew := sorted(churn.family for churn in churning(used, now) if churn.thing == f"topic {topic}"):
        why = f"{user} uses {topic} with client ids that change at each start ({listed(anew)})"
    else:
        names = listed(f"{user}+{instance}" for instance in instances)
        pairs = tuple((user, instance) for instance in instances)
        return Chosen(Scope(instances=pairs), f"{topic} is used by {names}, and by no other instance of {user}")
    return Chosen(Scope(users=(user,)), f"{why}, so the whole user moves")
