"""Migration from a cluster that is dead already: the request for it, from topics, patterns and what is known of groups.

From there on it is a forced move: topics are made in the target as they were last seen, the cut is fixed once above all
that the dead cluster can have given out, and producers write to the target at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase

from ha_core.model import Identity, KnownGroup, KnownTopic, MoveRequest, Scope, View
from ha_core.operations.context import Environment
from ha_core.operations.errors import RefusedError
from ha_core.operations.scope import format_scope
from ha_core.operations.switch.prepare import make_request
from ha_core.plan.extents import writers
from ha_core.plan.resolve import cluster_for_group

WILD = "*?["


def fault_request(
    environment: Environment,
    entries: Iterable[str],
    origin: str,
    target: str,
    *,
    unread: str,
    reason: str,
    force: bool = False,
    with_groups: bool = True,
    drain_timeout_s: float = 10.0,
) -> MoveRequest:
    """The forced move of `entries` (topics, or patterns with `*`, `?` and `[…]`) from the dead `origin`.

    :param with_groups: take along the groups that are known to have read them in the origin, for every user of theirs
        that is bound there.
    :raises RefusedError: a pattern that matches nothing, or something that is not understood.
    """
    view = environment.store.load()
    topics = chosen_topics(environment, view, entries, origin)
    groups = tuple(_groups(environment, view, topics, origin)) if with_groups else ()
    return make_request(
        format_scope(Scope(topics=topics, user_groups=groups)),
        origin,
        target,
        mode="forced",
        unread=unread,
        reason=reason,
        force=force,
        drain_timeout_s=drain_timeout_s,
        # A topic has one writer, and this one is dead: whoever uses it comes along or stands still.
        include_followers=True,
    )


def chosen_topics(environment: Environment, view: View, entries: Iterable[str], origin: str) -> tuple[str, ...]:
    """Names as they are given; patterns as the topics that are written in `origin`, or were last seen there."""
    found: dict[str, None] = {}
    candidates: list[str] | None = None
    for entry in (one.strip() for one in entries):
        if not any(mark in entry for mark in WILD):
            found[entry] = None
            continue
        if candidates is None:
            candidates = sorted(_written_in(environment, view, origin))
        matching = [name for name in candidates if fnmatchcase(name, entry)]
        if not matching:
            raise RefusedError(
                f"Pattern {entry!r} matches no topic that is written in {origin} or was last seen there "
                f"({len(candidates)} are known). Name the topics, or look at `switchyard facts show {origin}`."
            )
        found.update(dict.fromkeys(matching))
    if not found:
        raise RefusedError("No topic is named. Name topics or patterns.")
    return tuple(found)


def _written_in(environment: Environment, view: View, origin: str) -> set[str]:
    seen = set(environment.store.known(KnownTopic, origin))
    mapped = {name: writers(topic) for name, topic in view.topics.items() if topic.mapped}
    return (seen - mapped.keys()) | {name for name, clusters in mapped.items() if origin in clusters}


def _groups(environment: Environment, view: View, topics: tuple[str, ...], origin: str) -> Iterator[tuple[str, str]]:
    """(user, group) of the groups that had committed offsets of `topics`."""
    usage = environment.store.usage()
    for name, group in environment.store.known(KnownGroup, origin).items():
        if not group.offsets.keys() & set(topics):
            continue
        users = [
            user
            for user, used in sorted(usage.items())
            if any(
                cluster_for_group(view, Identity(user, use.instance), name) == origin
                for use in used.groups.get(name, ())
            )
        ]
        if not users:
            environment.say(f"group {name} stays: it has committed offsets, but no user of it is known")
        yield from ((user, name) for user in users)
