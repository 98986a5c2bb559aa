"""The scope of a move as operators write it.

`user:NAME`, `user:NAME+INSTANCE`, `user:NAME#TOPIC`, `user:NAME##GROUP`, `topic:NAME`. Names are percent-decoded, so
that a user called `a+b` is written `user:a%2Bb`.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

from ha_core.model import Scope
from ha_core.moves.errors import RefusedError

FORMS = "user:NAME, user:NAME+INSTANCE, user:NAME#TOPIC, user:NAME##GROUP or topic:NAME"
MAX_ENTRIES = 10_000


def parse_scope(entries: Iterable[str]) -> Scope:
    """The scope that `entries` describe; duplicates count once, the order of the first mention is kept.

    :raises RefusedError: no entry at all, too many, or one that has none of the forms.
    """
    users: dict[str, None] = {}
    instances: dict[tuple[str, str], None] = {}
    user_topics: dict[tuple[str, str], None] = {}
    user_groups: dict[tuple[str, str], None] = {}
    topics: dict[str, None] = {}
    for count, entry in enumerate(entries, start=1):
        if count > MAX_ENTRIES:
            raise RefusedError(f"The scope has more than {MAX_ENTRIES} entries. Move it in several operations.")
        kind, _, name = entry.strip().partition(":")
        if kind == "topic" and name:
            topics[unquote(name)] = None
            continue
        if kind != "user" or not name:
            raise RefusedError(f"Scope {entry!r} is not understood. Write {FORMS}.")
        at = min((name.index(mark) for mark in "+#" if mark in name), default=len(name))
        user, rest = unquote(name[:at]), name[at:]
        if not user or rest in {"+", "#", "##"}:
            raise RefusedError(f"Scope {entry!r} lacks a name. Write {FORMS}.")
        if not rest:
            users[user] = None
        elif rest.startswith("##"):
            user_groups[user, unquote(rest[2:])] = None
        elif rest.startswith("#"):
            user_topics[user, unquote(rest[1:])] = None
        else:
            instances[user, unquote(rest[1:])] = None
    scope = Scope(
        users=tuple(users),
        instances=tuple(instances),
        user_topics=tuple(user_topics),
        user_groups=tuple(user_groups),
        topics=tuple(topics),
    )
    if scope == Scope():
        raise RefusedError(f"The scope is empty. Name what is to move: {FORMS}.")
    return scope


def format_scope(scope: Scope) -> tuple[str, ...]:
    """The entries of `scope`, as `parse_scope` reads them."""
    return (
        *(f"user:{_name(user)}" for user in scope.users),
        *(f"user:{_name(user)}+{_name(instance)}" for user, instance in scope.instances),
        *(f"user:{_name(user)}#{_name(topic)}" for user, topic in scope.user_topics),
        *(f"user:{_name(user)}##{_name(group)}" for user, group in scope.user_groups),
        *(f"topic:{_name(topic)}" for topic in scope.topics),
    )


def _name(text: str) -> str:
    for mark in "%+#":
        text = text.replace(mark, f"%{ord(mark):02X}")
    return text
