"""Many changes at once, one per line, from an operator's form: parsed, compared with the current entries, and made in
one transaction, or not at all.

    users to create     alice owner=shop contact=shop@example.org groups=tills,counters super
    users to disable    alice
    rights              User:alice read,describe topic orders
                        Group:tills write topic till- prefixed host 10.0.0.7 deny
                        User:ops describe cluster
    quotas              user=alice topic=orders producer_byte_rate=1000000 consumer_byte_rate=none
                        instance=app none

A name with blanks is quoted. Lines that are in force already change nothing, so a batch may be repeated.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from ha_core.platform.changing import MAX_EDITS, Edit, put
from ha_core.platform.entry import key_of
from ha_core.platform.errors import InvalidError, StaleVersionError
from ha_core.platform.kinds.quotas import LIMITS, QuotaEntry
from ha_core.platform.kinds.rules import RuleEntry
from ha_core.platform.kinds.users import UserEntry
from ha_core.platform.platform import Platform
from ha_core.platform.scram import ScramKeys
from ha_core.platform.words import short
from ha_core.wire.errors import LocalProtocolError
from ha_core.wire.sasl_scram import HASHES, parse_key

MAX_LINES = 2000
MAX_LINE = 2000
"""Characters."""
MAX_TOLD = 20
"""Invalid lines that an error lists."""
TRIES = 5
Keys = Mapping[str, Mapping[str, ScramKeys]]
"""User → mechanism → keys of his password."""


@dataclass(frozen=True, slots=True)
class ChangeBatch:
    """Lines by section."""

    create: Sequence[str] = ()
    disable: Sequence[str] = ()
    enable: Sequence[str] = ()
    grant: Sequence[str] = ()
    revoke: Sequence[str] = ()
    quotas: Sequence[str] = ()
    keys: Keys | None = None


class Step(NamedTuple):
    """
    :ivar what: made, changed or deleted; `stands`: nothing, it is in force already.
    :ivar edit: None: there is nothing to do.
    """

    section: str
    line: str
    what: str
    edit: Edit | None


class _Wish(NamedTuple):
    """
    :ivar says: another line for the same key must have the same value.
    :ivar edit: from the current entry; None: there is nothing to do.
    """

    kind: str
    key: str
    says: object
    edit: Callable[[Platform], Edit | None]


def planned(registry: Platform, batch: ChangeBatch) -> tuple[Step, ...]:
    """The effect of each line.

    :raises InvalidError: lists the invalid lines, up to a limit, with the reasons.
    """
    lines = [(section, *numbered) for section in _SECTIONS for numbered in _numbered(batch, section)]
    if not 1 <= len(lines) <= MAX_LINES:
        raise InvalidError(f"{len(lines)} lines: give 1 to {MAX_LINES} at once")
    problems: list[str] = _keys_without_user(batch)
    steps: list[Step] = []
    wished: dict[tuple[str, str], object] = {}
    for section, number, line in lines:
        try:
            for wish in _SECTIONS[section].read(line, batch):
                place = wish.kind, wish.key
                if wished.get(place, wish.says) != wish.says:
                    raise InvalidError("another line contradicts this one")  # noqa: TRY301
                if place not in wished:
                    wished[place] = wish.says
                    edit = wish.edit(registry)
                    steps.append(Step(section, line, _what(edit), edit))
        except InvalidError as error:
            problems.append(f"{section}, line {number}, {short(line)}: {error}")
    if problems:
        more = f" … and {len(problems) - MAX_TOLD} more" if len(problems) > MAX_TOLD else ""
        raise InvalidError(f"{len(problems)} lines are invalid. {'; '.join(problems[:MAX_TOLD])}{more}")
    return tuple(steps)


def made(registry: Platform, batch: ChangeBatch, by: str, reason: str, dry_run: bool = False) -> tuple[Step, ...]:
    """Make all changes, or check them in a dry run. Returns the steps.

    :raises InvalidError: nothing was changed.
    :raises StaleVersionError: others keep changing the same entries; nothing was changed.
    """
    for _ in range(TRIES):
        steps = planned(registry, batch)
        edits = [step.edit for step in steps if step.edit is not None]
        if len(edits) > MAX_EDITS:
            raise InvalidError(f"{len(edits)} changes at once, {MAX_EDITS} at most: give fewer lines")
        try:
            if edits:
                registry.apply(edits, by, reason, dry_run)
        except StaleVersionError as error:
            stale = error
            continue
        return steps
    raise stale


def keys_of(document: object) -> Keys:
    """Parse the output of `switchyard users entry`.

    :raises InvalidError: it is not that. The text never contains a key.
    """
    if not isinstance(document, Mapping):
        raise InvalidError("the keys are not a mapping of users; write them with `switchyard users entry`")
    kept: dict[str, dict[str, ScramKeys]] = {}
    for user, entry in document.items():
        if not isinstance(user, str) or not isinstance(entry, Mapping) or not entry.keys() <= set(HASHES):
            raise InvalidError(
                f"the keys of {short(user)}: give {', '.join(HASHES)}, as `switchyard users entry` writes them"
            )
        for mechanism, text in entry.items():
            try:
                key = parse_key(mechanism, str(text))
            except LocalProtocolError as error:
                raise InvalidError(f"the keys of {short(user)}: {error}") from None
            kept.setdefault(user, {})[mechanism] = ScramKeys.of(key)
    return kept


def _keys_without_user(batch: ChangeBatch) -> list[str]:
    created = {words[0] for line in batch.create if (words := line.split())}
    strange = sorted((batch.keys or {}).keys() - created)
    return [f"keys for {short(user)}, whom no line creates" for user in strange]


def _what(edit: Edit | None) -> str:
    if edit is None:
        return "stands"
    if edit.entry is None:
        return "deleted"
    return "made" if edit.version is None else "changed"


def _words(line: str) -> list[str]:
    if len(line) > MAX_LINE:
        raise InvalidError(f"{len(line)} characters, {MAX_LINE} at most")
    try:
        words = shlex.split(line)
    except ValueError:
        raise InvalidError("a quotation mark is not closed") from None
    if not words:
        raise InvalidError("the line is empty")
    return words


def _fields(words: Sequence[str], known: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or name not in known:
            raise InvalidError(f"{short(word)}: write {', '.join(f'{one}=…' for one in known)}")
        if name in found:
            raise InvalidError(f"{name} is given twice")
        found[name] = value
    return found


# -- users ------------------------------------------------------------------------------------------------------------


def _created(line: str, batch: ChangeBatch) -> Iterator[_Wish]:
    name, *more = _words(line)
    fields: dict[str, Any] = {}
    for field, value in _fields([word for word in more if word != "super"], ("owner", "contact", "groups")).items():
        fields[field] = [one for one in value.split(",") if one] if field == "groups" else value
    user = UserEntry.read(
        {"name": name, "super_user": "super" in more, **fields, "scram": dict((batch.keys or {}).get(name, {}))}
    )

    def edit(registry: Platform) -> Edit | None:
        found = registry.read.find("users", user.key)
        if found is None:
            return put(user)
        # The password may have been set or changed since.
        if isinstance(found.entry, UserEntry) and found.entry.model_copy(update={"scram": user.scram}) == user:
            return None
        raise InvalidError(f"there is a user of this name, at version {found.version}, with other values")

    yield _Wish("users", user.key, line, edit)


def _switched(disabled: bool) -> _Read:
    def read(line: str, _batch: ChangeBatch) -> Iterator[_Wish]:
        name, *more = _words(line)
        if more:
            raise InvalidError("name one user per line, in quotes if it has blanks")

        def edit(registry: Platform) -> Edit | None:
            found = registry.read.find("users", name)
            if found is None or not isinstance(found.entry, UserEntry):
                raise InvalidError("there is no such user")
            if found.entry.disabled is disabled:
                return None
            return put(found.entry.model_copy(update={"disabled": disabled}), found.version)

        yield _Wish("users", name, disabled, edit)

    return read


# -- rights -----------------------------------------------------------------------------------------------------------


def _ruled(granted: bool) -> _Read:
    def read(line: str, _batch: ChangeBatch) -> Iterator[_Wish]:
        for rule in _rules(_words(line)):
            yield _Wish("rules", rule.key, granted, _rule_edit(rule, granted))

    return read


def _rule_edit(rule: RuleEntry, granted: bool) -> Callable[[Platform], Edit | None]:
    def edit(registry: Platform) -> Edit | None:
        found = registry.read.find("rules", rule.key)
        if granted:
            return None if found is not None else put(rule)
        return None if found is None else Edit("rules", rule.key, None, found.version)

    return edit


def _rules(words: Sequence[str]) -> Iterator[RuleEntry]:
    if len(words) < 3:
        raise InvalidError("write WHO OPERATION[,OPERATION…] TYPE NAME, as `User:alice read topic orders`")
    principal, operations, kind, *rest = words
    rule_json: dict[str, Any] = {"principal": principal, "resource_type": kind}
    if kind != "cluster":
        if not rest:
            raise InvalidError(f"which {kind}? Name it, or write * for all")
        rule_json["name"], *rest = rest
    while rest:
        word, *rest = rest
        if word == "prefixed":
            rule_json["pattern"] = "prefixed"
        elif word == "deny":
            rule_json["effect"] = "deny"
        elif word == "host" and rest:
            rule_json["host"], *rest = rest
        else:
            raise InvalidError(f"{short(word)}: after the name write prefixed, deny, host ADDRESS")
    for operation in operations.split(","):
        yield RuleEntry.read({**rule_json, "operation": operation})


# -- quotas -----------------------------------------------------------------------------------------------------------


def _limited(line: str, _batch: ChangeBatch) -> Iterator[_Wish]:
    words = _words(line)
    none = "none" in words
    fields = _fields([word for word in words if word != "none"], ("user", "topic", "instance", *LIMITS))
    of = {name: fields.get(name) for name in ("user", "topic", "instance")}
    limits = {name: _number(name, fields[name]) for name in LIMITS if name in fields}
    if none is bool(limits):
        raise InvalidError(f"write {', '.join(f'{one}=…' for one in LIMITS)}, or none")

    def edit(registry: Platform) -> Edit | None:
        found = registry.read.find("quotas", key)
        entry = None if found is None else found.entry
        changed = {name: None if none else limits.get(name, getattr(entry, name, None)) for name in LIMITS}
        version = None if found is None else found.version
        if all(value is None for value in changed.values()):
            return None if found is None else Edit("quotas", key, None, version)
        quota = QuotaEntry.read({**of, **changed})
        return None if quota == entry else put(quota, version)

    key = key_of(of["user"], of["topic"], of["instance"])
    yield _Wish("quotas", key, line, edit)


def _number(name: str, value_text: str) -> float | None:
    """:raises InvalidError: it is neither a number nor none."""
    if value_text == "none":
        return None
    try:
        value = float(value_text)
    except ValueError:
        raise InvalidError(f"{name} {short(value_text)}: a number, or none") from None
    return int(value) if value == value // 1 and abs(value) < 1 << 62 else value


_Read = Callable[[str, ChangeBatch], Iterator[_Wish]]


class _BatchSection(NamedTuple):
    lines: Callable[[ChangeBatch], Sequence[str]]
    read: _Read


def _numbered(batch: ChangeBatch, section: str) -> Iterator[tuple[int, str]]:
    return enumerate(_SECTIONS[section].lines(batch), 1)


_SECTIONS: Mapping[str, _BatchSection] = {
    "create": _BatchSection(lambda batch: batch.create, _created),
    "enable": _BatchSection(lambda batch: batch.enable, _switched(disabled=False)),
    "disable": _BatchSection(lambda batch: batch.disable, _switched(disabled=True)),
    "revoke": _BatchSection(lambda batch: batch.revoke, _ruled(granted=False)),
    "grant": _BatchSection(lambda batch: batch.grant, _ruled(granted=True)),
    "quotas": _BatchSection(lambda batch: batch.quotas, _limited),
}
