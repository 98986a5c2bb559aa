"""The scope of a move as operators write it.

`user:NAME`, `user:NAME+INSTANCE`, `user:NAME#TOPIC`, `user:NAME##GROUP`, `topic:NAME`, `topic:NAME:PARTITIONS`. Names
are percent-decoded, so that a user called `a+b` is written `user:a%2Bb`. Partitions are numbers and ranges: `0,4-7`.
"""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import unquote

from ha_core.model import Scope
from ha_core.operations.errors import RefusedError

FORMS = "user:NAME, user:NAME+INSTANCE, user:NAME#TOPIC, user:NAME##GROUP, topic:NAME or topic:NAME:0,4-7"
MAX_ENTRIES = 10_000
MAX_PARTITION = 99_999


def parse_scope(entries: Iterable[str]) -> Scope:
    """The scope that `entries` describe; duplicates count once, the order of the first mention is kept.

    :raises RefusedError: no entry at all, too many, or one that has none of the forms.
    """
    users: dict[str, None] = {}
    instances: dict[tuple[str, str], None] = {}
    user_topics: dict[tuple[str, str], None] = {}
    user_groups: dict[tuple[str, str], None] = {}
    topics: dict[str, tuple[int, ...] | None] = {}
    for count, entry in enumerate(entries, start=1):
        if count > MAX_ENTRIES:
            raise RefusedError(f"The scope has more than {MAX_ENTRIES} entries. Move it in several operations.")
        kind, _, name = entry.strip().partition(":")
        if kind == "topic" and name:
            topic, partitions = parse_topic(name)
            topics[topic] = _merged(topics[topic], partitions) if topic in topics else partitions
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
        partitions={name: found for name, found in topics.items() if found is not None},
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
        *(f"topic:{format_topic(topic, scope.partitions.get(topic))}" for topic in scope.topics),
    )


def parse_topic(entry: str) -> tuple[str, tuple[int, ...] | None]:
    """`NAME` or `NAME:0,4-7` → the topic, and its partitions in ascending order; None: all of them.

    :raises RefusedError: partitions of another form, or too many.
    """
    name, colon, text = entry.strip().partition(":")
    if not colon:
        return unquote(name), None
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or not name:
            raise RefusedError(f"{entry!r} is not understood. Write TOPIC, or TOPIC:0,4-7 for single partitions.")
        low, high = int(first), int(last or first)
        if not low <= high <= MAX_PARTITION:
            raise RefusedError(
                f"The partitions {part.strip()!r} of topic {unquote(name)} are no range from 0 to {MAX_PARTITION}: "
                "write the lower number first."
            )
        found.update(range(low, high + 1))
    return unquote(name), tuple(sorted(found))


def format_topic(name: str, partitions: tuple[int, ...] | None) -> str:
    """The entry that `parse_topic` reads."""
    if partitions is None:
        return _name(name)
    runs: list[list[int]] = []
    for partition in partitions:
        if runs and runs[-1][1] == partition - 1:
            runs[-1][1] = partition
        else:
            runs.append([partition, partition])
    return f"{_name(name)}:{','.join(str(low) if low == high else f'{low}-{high}' for low, high in runs)}"


def _merged(one: tuple[int, ...] | None, other: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Partitions that were named in two entries; a topic that is named as a whole once is moved whole."""
    return None if one is None or other is None else tuple(sorted({*one, *other}))


def _name(text: str) -> str:
    for mark in "%+#":
        text = text.replace(mark, f"%{ord(mark):02X}")
    return text
