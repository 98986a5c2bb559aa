"""Users and rules of the platform as rights: built once, and then updated by differences.

Unreadable rows, for example of a newer version of the platform, never allow anything. A rule to allow is left out; a
rule that may deny counts as denying everything, to its principal, or to everybody if the principal is unreadable. Users
who are unreadable or disabled are denied everything.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import nullcontext
from functools import cache, lru_cache, partial
from operator import itemgetter
from typing import Any, NamedTuple

from gateway.follow.platform.accounts import disabled
from ha_core.datacache.core.packed import BEGIN, Record, Rows, RowShape, plain, row_of
from ha_core.datacache.core.source import Row
from ha_core.datacache.core.uncommitted import Content
from ha_core.model.access import (
    ANY_HOST,
    ANY_NAME,
    ANYBODY,
    CLUSTER_NAME,
    AccessRule,
    AccessRuleError,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
    User,
    access_rule,
    host_name,
    principal,
    resource_name,
)
from ha_core.plan.access.rights import PackedRule, Rights, packed
from ha_core.store.watching import no_search

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP


class PlatformRights:
    """Not thread-safe, except `rights`.

    :ivar unreadable: unreadable rows: kind and key → the denials in their place.
    """

    def __init__(self) -> None:
        self.rights = Rights()
        self.unreadable: dict[tuple[str, str], tuple[AccessRule, ...]] = {}
        self._denied: dict[str, tuple[AccessRule, ...]] = {}
        """Users who are disabled or unreadable → rules that deny them everything."""
        self._users = self._rules = Content()

    def follow_users(self, users: Content) -> Rights:
        before, self._users = self._users, users
        with nullcontext() if before.rows else no_search():
            return self._follow_users(users, before)

    def _follow_users(self, users: Content, before: Content) -> Rights:
        changed: dict[str, User | None] = {}
        removed: list[AccessRule] = []
        added: list[AccessRule] = []
        for name, _, after in users.changes(before):
            removed += self._denied.pop(name, ())
            self.unreadable.pop(("users", name), None)
            user = None if after is None else _user(after)
            unreadable = after is not None and user is None
            if unreadable or disabled(after):
                denied = self._denied[name] = _everything(f"User:{name}")
                added += denied
                if unreadable:
                    self.unreadable["users", name] = denied
            changed[name] = user
        self.rights = self.rights.changed(changed, added, removed)
        return self.rights

    def follow_rules(self, rules: Content) -> Rights:
        before, self._rules = self._rules, rules
        if not before.rows:
            with no_search():
                self.rights = self.rights.changed(packed_rules=self._all(rules.rows))
            return self.rights
        added: list[AccessRule] = []
        removed: list[AccessRule] = []
        for key, former, is_ in rules.changes(before):
            denials = self.unreadable.pop(("rules", key), None)
            if former is not None:
                removed += _rules_of(former) if denials is None else denials
            if is_ is not None:
                added += self._read(is_)
        self.rights = self.rights.changed({}, added, removed)
        return self.rights

    def _all(self, rows: Rows) -> Iterator[PackedRule]:
        """Reads all rules in one pass, so that memory does not hold a million rules twice."""
        topics, others = cache(partial(resource_name, TOPIC)), cache(partial(resource_name, GROUP))
        shape: RowShape | None = None
        last: object = None
        words, at_principal, at_name, at_host = _NOWHERE
        for key, record in rows.records.entries():
            if record[1] is not shape:
                shape = record[1]
                words, at_principal, at_name, at_host = _positions(record[1])
            try:
                bits, topic = _bits(*words(record))
                name = topics(record[at_name]) if topic else others(record[at_name])
                host = record[at_host]
                if host != ANY_HOST:
                    host = host_name(host)
                whose = record[at_principal]
                if whose is not last:
                    principal(whose)
                    last = whose
            except _UNREADABLE:
                yield from map(packed, self._read(row_of(key, record)))
            else:
                yield whose, name, bits, host

    def _read(self, row: Row) -> tuple[AccessRule, ...]:
        try:
            return (_rule(row),)
        except _UNREADABLE:
            instead = self.unreadable["rules", row.key] = _instead(row.value or {})
            return instead


_UNREADABLE = (AccessRuleError, KeyError, TypeError, AttributeError)
_WORDS = ("resource_type", "pattern", "operation", "effect")


class _Positions(NamedTuple):
    """Where a record has the fields of a rule."""

    words: Callable[[Record], tuple[Any, ...]]
    principal: int
    name: int
    host: int


_NOWHERE = _Positions(lambda record: (None,) * len(_WORDS), 0, 0, 0)
"""For other shapes: the row is read by itself."""


def _positions(shape: RowShape) -> _Positions:
    """`_NOWHERE` unless the shape is that of a rule with all its fields, and no others."""
    at = {field: BEGIN + position for field, position in shape.fields.items() if isinstance(position, int)}
    if set(shape.fields) != set(AccessRule._fields) or len(at) < len(shape.fields):
        return _NOWHERE
    return _Positions(itemgetter(*(at[word] for word in _WORDS)), at["principal"], at["name"], at["host"])


class _Bits(NamedTuple):
    """:ivar topic: whether the rule is for topics."""

    bits: int
    topic: bool


@lru_cache(maxsize=1024)
def _bits(*words: str) -> _Bits:
    """:raises AccessRuleError: one of the words is not known."""
    rule = access_rule({"principal": ANYBODY, "name": CLUSTER_NAME, **dict(zip(_WORDS, words, strict=True))})
    return _Bits(packed(rule)[2], rule.resource_type is TOPIC)


def _user(row: Row) -> User | None:
    """None: it cannot be read."""
    fields = row.value or {}
    groups, super_user = fields.get("groups", ()), fields.get("super_user", False)
    if not isinstance(super_user, bool) or not isinstance(groups, list | tuple):
        return None
    if not all(isinstance(group, str) for group in groups):
        return None
    return User(row.key, _groups(*groups), super_user and not disabled(row))


@lru_cache(maxsize=1 << 14)
def _groups(*groups: str) -> frozenset[str]:
    """Cached, since many users have equal groups."""
    return frozenset(groups)


def _rules_of(row: Row) -> tuple[AccessRule, ...]:
    try:
        return (_rule(row),)
    except _UNREADABLE:
        return _instead(row.value or {})


def _rule(row: Row) -> AccessRule:
    return access_rule(plain(row.value) or {})


def _instead(fields: Mapping[str, Any]) -> tuple[AccessRule, ...]:
    if fields.get("effect") == "allow":
        return ()
    try:
        denied = principal(fields.get("principal"))
    except AccessRuleError:
        denied = ANYBODY
    return _everything(denied)


def _everything(whose: str) -> tuple[AccessRule, ...]:
    return tuple(
        AccessRule(
            whose,
            resource,
            CLUSTER_NAME if resource is ResourceType.CLUSTER else ANY_NAME,
            PatternType.LITERAL,
            AclOperation.ALL,
            Permission.DENY,
        )
        for resource in ResourceType
    )
