"""A whole cluster as the scope of a switch, split into parts that can move one after the other.

A part has to move together: users, their topics and groups, and the other users of these. No two parts share a topic, a
group or a user, so each can be moved, undone and inspected separately, in any order, and clients of one do not notice
another. The smallest come first: a problem of all parts shows where it costs least.

Moved parts are routed elsewhere, so a repeated command finds the remaining ones.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from ha_core.model import Identity, MoveRequest, Scope, Usage, View
from ha_core.model.portions import portions
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.move.closure import closure
from ha_core.plan.routing.resolve import cluster_for_user


def identities_at(view: View, usage: Mapping[str, Usage], cluster: str) -> Scope:
    """Every identity that is routed to `cluster`, by a binding or as its default, except super users."""
    users = sorted({*view.bindings, *usage} - view.super_users.keys())
    bound = [bindings for user in users if (bindings := view.bindings.get(user)) is not None]
    return Scope(
        users=tuple(user for user in users if cluster_for_user(view, Identity(user, "")) == cluster),
        instances=tuple((b.user, name) for b in bound for name in _there(b.instances, cluster)),
        user_topics=tuple((b.user, name) for b in bound for name in _there(b.topics, cluster)),
        user_groups=tuple((b.user, name) for b in bound for name in _there(b.groups, cluster)),
    )


def parts(
    view: View, usage: Mapping[str, Usage], request: MoveRequest, topics: Collection[str], max_per_move: int
) -> Iterator[Scope]:
    """The scopes of the moves in order: independent parts, several small ones in one move.

    :param request: its scope is ignored.
    :param topics: all topics whose writer is the cluster.
    :param max_per_move: topics and groups per move; a part that has more moves alone.
    """
    routed = identities_at(view, usage, request.origin)
    whole = routed.changed(topics=tuple(sorted(topics)))
    found = closure(view, usage, request.changed(scope=whole, include_other_users=True))
    together = _Together()
    for user in routed.named_users:
        together.join(f"user:{user}")
    for key in found.moves.reasons:
        together.join(key, *(f"user:{user}" for user, _ in found.identities(key)))
    # Other users of a topic move with it, and join its part.
    for other in found.other_users:
        together.join(f"topic:{other.name}", f"user:{other.user}")
    wanted = set(topics)
    sized = sorted((sum(not key.startswith("user:") for key in part), sorted(part)) for part in together.parts())
    for some in portions(sized, max_per_move, lambda part: max(1, part[0])):
        yield _scope(routed, {key for _, part in some for key in part}, wanted)


def _scope(routed: Scope, keys: Collection[str], topics: Collection[str]) -> Scope:
    def of(pairs: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
        return tuple((user, name) for user, name in pairs if f"user:{user}" in keys)

    return Scope(
        users=tuple(user for user in routed.users if f"user:{user}" in keys),
        instances=of(routed.instances),
        user_topics=of(routed.user_topics),
        user_groups=of(routed.user_groups),
        topics=tuple(sorted(name for name in topics if f"topic:{name}" in keys)),
    )


def _there(bound: Mapping[str, str], cluster: str) -> list[str]:
    return sorted(name for name, where in bound.items() if where == cluster)


class _Together:
    """Union-find of keys that have to move together."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}

    def join(self, first: str, *others: str) -> None:
        top = self._top(first)
        for other in others:
            self._above[self._top(other)] = top

    def parts(self) -> Iterable[list[str]]:
        return grouped((self._top(key), key) for key in list(self._above)).values()

    def _top(self, key: str) -> str:
        self._above.setdefault(key, key)
        while (above := self._above[key]) != key:
            self._above[key] = self._above[above]
            key = above
        return key
