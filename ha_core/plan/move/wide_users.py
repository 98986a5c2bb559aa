"""Users whose switch would take along topics and groups of many others.

A switch moves a user with all topics and groups that it uses, and their other users. Narrow users, one for each
application, move alone; a wide one ties unrelated applications together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ha_core.model import Usage, View

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
    users_of: dict[str, set[str]] = {}
    for user, used in usage.items():
        for topic in used.topics:
            users_of.setdefault(topic, set()).add(user)
    found = []
    for user in sorted(usage.keys() | view.super_users.keys()):
        used = usage.get(user) or Usage(user=user)
        uses = [use for uses in (*used.topics.values(), *used.groups.values()) for use in uses]
        shared: set[str] = set().union(*(users_of[topic] for topic in used.topics)) - {user}
        counts = len(used.topics), len(used.groups), len({use.instance for use in uses if use.instance}), len(shared)
        found.append(Width(user, *counts, tuple(sorted(view.super_user_of(user)))))
    yield from sorted(found, key=lambda one: (not one.wide, -one.topics, -one.shared_with, one.user))
