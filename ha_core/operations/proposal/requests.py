"""Requests from operators' input: scopes of moves, names and patterns of topics, cuts.

A scope is `user:NAME`, `user:NAME+INSTANCE`, `user:NAME#TOPIC`, `user:NAME##GROUP`, `topic:NAME` or
`topic:NAME:PARTITIONS`. Names are percent-decoded, so that a user called `a+b` is written `user:a%2Bb`. Partitions are
numbers and ranges: `0,4-7`. `user:NAME+#TOPIC` becomes the user's instances that use the topic, or the user
(`chosen_scope`).
"""

import re
from collections.abc import Collection, Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import unquote

from pydantic import ValidationError

from ha_core.kafka.errors import ClusterUnreachableError
from ha_core.model import KnownGroup, KnownTopic, MoveRequest, Scope, UserBindings, View, legal_name
from ha_core.operations.engine.cluster_admins import presence
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import RefusedError, unchanged
from ha_core.operations.proposal.usage import known_usage
from ha_core.plan.facts.clusters import Partition
from ha_core.plan.move.closure import users_at
from ha_core.plan.move.users import choose

FORMS = "user:NAME, user:NAME+INSTANCE, user:NAME#TOPIC, user:NAME##GROUP, topic:NAME or topic:NAME:0,4-7"
CHOICE = "+#"
"""Between a user and a topic: stands for the instances of the user that use the topic."""
_USER = re.compile(r"(?P<user>[^+#]+)((?P<mark>\+#|\+|##|#(?!#))(?P<rest>.+))?", re.DOTALL)
MAX_ENTRIES = 10_000
MAX_PARTITION = 99_999


def parse_scope(entries: Iterable[str]) -> Scope:
    """The scope that `entries` describe; duplicates count once, the order of the first mention is kept.

    :raises RefusedError: no entry at all, too many, or one that has none of the forms.
    """
    named: dict[str | None, dict[tuple[str, str], None]] = {None: {}, "+": {}, "#": {}, "##": {}}
    topics: dict[str, tuple[int, ...] | None] = {}
    for count, entry in enumerate(entries, start=1):
        if count > MAX_ENTRIES:
            raise RefusedError(f"The scope has more than {MAX_ENTRIES} entries. Move it in several operations.")
        kind, _, name = entry.strip().partition(":")
        user = _USER.fullmatch(name)
        if kind == "topic" and name:
            topic, partitions = parse_topic(name)
            topics[topic] = _merged(topics[topic], partitions) if topic in topics else partitions
        elif kind == "user" and user and user["mark"] == CHOICE:
            raise unchanged(
                f"{entry!r} stands for instances of a user, and only a switch looks them up. Name them "
                "(user:NAME+INSTANCE), or the topic (user:NAME#TOPIC)."
            )
        elif kind == "user" and user:
            named[user["mark"]][unquote(user["user"]), unquote(user["rest"] or "")] = None
        elif kind == "cluster" and name:
            raise unchanged(f"The scope {entry!r} stands alone: a whole cluster has a plan of its own.")
        else:
            raise RefusedError(f"Scope {entry!r} is not understood, or lacks a name. Write {FORMS}.")
    scope = Scope(
        users=tuple(user for user, _ in named[None]),
        instances=tuple(named["+"]),
        user_topics=tuple(named["#"]),
        user_groups=tuple(named["##"]),
        topics=tuple(topics),
        partitions={name: found for name, found in topics.items() if found is not None},
    )
    if scope == Scope():
        raise RefusedError(f"The scope is empty. Name something to move: {FORMS}.")
    return scope


def chosen_scope(environment: Environment, entries: Iterable[str]) -> list[str]:
    """`entries`, with each `user:NAME+#TOPIC` replaced by the instances, or the user, to switch for that topic, and
    client ids replaced by their instances; each replacement is reported."""
    found: list[str] = []
    for entry in entries:
        kind, _, name = entry.strip().partition(":")
        user = _USER.fullmatch(name)
        if kind != "user" or user is None or user["mark"] not in (CHOICE, "+"):
            found.append(entry)
            continue
        who, rest = unquote(user["user"]), unquote(user["rest"])
        stored = environment.store.read(UserBindings, who)
        bindings = stored[0] if stored is not None else UserBindings(user=who)
        if user["mark"] == CHOICE:
            scope, reason = choose(bindings, rest, known_usage(environment).counts, environment.now())
            environment.say(f"{entry.strip()}: {reason}")
            found += scope.entries
        else:
            instance = bindings.instance(rest)
            if instance != rest:
                environment.say(f"{entry.strip()}: this client id belongs to the instance {instance}")
            found += Scope(instances=((who, instance),)).entries
    return found


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


def _merged(one: tuple[int, ...] | None, other: tuple[int, ...] | None) -> tuple[int, ...] | None:
    """Partitions that two entries name; None, the whole topic, if either names the whole topic."""
    return None if one is None or other is None else tuple(sorted({*one, *other}))


def make_request(scope: Iterable[str], origin: str, target: str, **options: Any) -> MoveRequest:
    """A request from an operator's input; `options` are further fields of `MoveRequest`.

    :raises RefusedError: an illegal entry or option.
    """
    entries = parse_scope(scope)
    for name in (*entries.topics, *(topic for _, topic in entries.user_topics)):
        if not legal_name(name):
            raise unchanged(
                f"No topic can be called {name!r}: names are 1 to 249 letters, digits, '.', '_' "
                "or '-', and neither '.' nor '..'. Correct the name."
            )
    try:
        request = MoveRequest(scope=entries, origin=origin, target=target, **options)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]).replace("_", "-")
        where = where if where == "max-rate-records-s" else where.removesuffix("-s")
        raise RefusedError(f"--{where} {first['input']!r} is not usable: {first['msg']}.") from error
    if request.max_rate_records_s is not None and request.mode != "forced":
        raise unchanged("--max-rate-records-s is for forced moves: a planned one reads the log ends. Leave it out.")
    if request.mode == "forced" and request.unread is None:
        raise unchanged(
            f"What do readers do that have not read all records of {origin}? Give --unread wait "
            "(they get nothing until it is back) or --unread skip (they continue at the cut)."
        )
    return request


def is_pattern(entry: str) -> bool:
    """Whether it may match several topics."""
    return any(mark in entry for mark in "*?[")


def chosen_by(patterns: Collection[str], name: str) -> bool:
    """Whether one of `patterns` (names, or with `*`, `?`, `[…]`) matches `name`; an empty collection matches every
    name."""
    return not patterns or any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)


def require_named(patterns: Collection[str]) -> None:
    """:raises RefusedError: the operator has to name topics for a decision."""
    if not patterns:
        raise unchanged("Give the topics: names or patterns, '*' for all.")


def fault_request(
    environment: Environment,
    topics: Iterable[str],
    origin: str,
    target: str,
    *,
    groups: bool = True,
    **options: Any,
) -> MoveRequest:
    """The forced move of `topics` (names, partitions, or patterns with `*`, `?` and `[…]`) from the dead `origin`.

    :param groups: take along the groups that are known to have read them in the origin, for each of their users that is
        bound there. Groups stay if the origin answers and has only lost single partitions.
    :param options: further fields of the request.
    :raises RefusedError: a pattern that matches nothing, or an illegal entry.
    """
    view = environment.store.load()
    names = chosen_topics(environment, view, topics, origin)
    single = not options.get("force") and all(":" in name for name in names)
    stay = single and presence(environment, view, origin).state == "back"
    if groups and stay:
        environment.say(f"groups stay with their coordinators: {origin} answers")
    read = tuple(dict.fromkeys(parse_topic(name)[0] for name in names))
    readers = tuple(_groups(environment, view, read, origin)) if groups and not stay else ()
    scope = [*(f"topic:{name}" for name in names), *Scope(user_groups=readers).entries]
    # A topic has one writer, and this one is dead: clients either come along or stall.
    return make_request(scope, origin, target, mode="forced", include_other_users=True, **options)


def chosen_topics(environment: Environment, view: View, entries: Iterable[str], origin: str) -> tuple[str, ...]:
    """Names as given; patterns as the topics that are written in `origin`, or were last seen there."""
    named = [entry.strip() for entry in entries]
    candidates = sorted(written_in(environment, view, origin, asked=False)) if any(map(is_pattern, named)) else []
    found: dict[str, None] = {}
    for entry in named:
        matching = [name for name in candidates if fnmatchcase(name, entry)] if is_pattern(entry) else [entry]
        if not matching:
            raise RefusedError(
                f"Pattern {entry!r} matches no topic that is written in {origin} or was last seen there "
                f"({len(candidates)} are known). Name the topics, or look at `switchyard facts show {origin}`."
            )
        found.update(dict.fromkeys(matching))
    if not found:
        raise RefusedError("No topic is given. Name topics or patterns.")
    return tuple(found)


def written_in(environment: Environment, view: View, origin: str, asked: bool) -> set[str]:
    """The topics that are written in `origin`, without the copy logs of mirrors.

    :param asked: list the topics without a map by asking the cluster; else from the last seen facts.
    :raises RefusedError: it does not answer.
    """
    seen = _listed(environment, view, origin) if asked else set(environment.store.known(KnownTopic, origin))
    seen -= view.copy_logs
    mapped = {name: topic for name, topic in view.topics.items() if topic.mapped}
    topics = {name: topic for name, topic in mapped.items() if origin in topic.clusters}
    for name, topic in topics.items():
        if not topic.sound:
            environment.say(f"topic {name} is left out: its map is damaged")
    return (seen - mapped.keys()) | {name for name, topic in topics.items() if topic.sound and origin in topic.writers}


def _listed(environment: Environment, view: View, origin: str) -> set[str]:
    try:
        there = environment.admin(view.clusters[origin]).topics(offsets=False)
    except ClusterUnreachableError as error:
        raise unchanged(
            f"The topics of {origin} cannot be listed: {error} Repair it or the way to it; if it is lost, give "
            "--mode forced, which uses the topics that were last seen there."
        ) from error
    return {name for name, topic in there.items() if not topic.internal}


def _groups(environment: Environment, view: View, topics: tuple[str, ...], origin: str) -> Iterator[tuple[str, str]]:
    """(user, group) of the groups that had committed offsets of `topics`."""
    usage = environment.store.usage()
    for name, group in environment.store.known(KnownGroup, origin).items():
        if not group.offsets.keys() & set(topics):
            continue
        known = users_at(view, usage, name, origin)
        users = [user for user in known if user not in view.super_users]
        if not known:
            environment.say(f"group {name} stays: it has committed offsets, but no user of it is known")
        elif not users:
            environment.say(f"group {name} stays: only super users use it ({', '.join(known)})")
        yield from ((user, name) for user in users)


def migrating_topics(
    environment: Environment, view: View, patterns: tuple[str, ...], origin: str
) -> tuple[list[str], dict[str, str]]:
    """Entries of topics, with partitions if some are named; and topic → why a pattern that matches it leaves it out."""
    names = dict.fromkeys(pattern for pattern in patterns if not is_pattern(pattern))
    wild = [pattern for pattern in patterns if is_pattern(pattern)]
    left_out: dict[str, str] = {}
    if not wild or origin not in view.clusters:
        return list(names), left_out
    try:
        there = environment.admin(view.clusters[origin]).topics(offsets=False)
    except ClusterUnreachableError as error:
        raise unchanged(
            f"{', '.join(wild)} cannot be looked for: {error} Repair it or the way to it; if it "
            f"is lost: `switchyard migrate-from-fault '{wild[0]}' --from {origin}` uses the topics that were last seen "
            "there."
        ) from error
    for name in sorted(there):
        if there[name].internal or name in names or not any(fnmatchcase(name, pattern) for pattern in wild):
            continue
        topic = view.topics.get(name)
        if name in view.copy_logs:
            left_out[name] = "it holds the notes of mirrors' copiers"
        elif topic is not None and topic.crossing is not None:
            left_out[name] = f"it is migrating already, in operation {topic.crossing.operation}"
        elif topic is not None and not topic.sound:
            left_out[name] = "its map is damaged"
        elif topic is not None and topic.mapped and origin not in topic.writers:
            left_out[name] = f"it is written in {', '.join(sorted(topic.writers))}"
        else:
            names[name] = None
    return list(names), left_out


def parse_cuts(entries: Iterable[str]) -> dict[Partition, int]:
    """`TOPIC:PARTITION=OFFSET` → (topic, partition) → client offset.

    :raises RefusedError: an entry of another form, or two for the same partition.
    """
    found: dict[Partition, int] = {}
    for entry in entries:
        where, _, offset = entry.strip().partition("=")
        topic, _, partition = where.rpartition(":")
        if not topic or not partition.isdecimal() or not offset.strip().isdecimal():
            raise RefusedError(
                f"The cut {entry!r} is not understood. Write TOPIC:PARTITION=OFFSET, as orders:0=700000."
            )
        key = (topic, int(partition))
        if key in found:
            raise RefusedError(f"Two cuts name partition {partition} of topic {topic}. Give one offset.")
        found[key] = int(offset)
    return found
