"""Users and rules of the platform as rights: made once, and then changed by what is different.

What cannot be read, as what a newer version of the platform has written, never allows anything: a rule that would allow
is left out, and of one that may deny all that it could mean is denied: everything, to its principal, or to everybody
where not even he can be read. A user who cannot be read is denied everything, and so is one that is disabled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from operator import itemgetter
from typing import Any

from gateway.platform.accounts import disabled
from ha_core.datacache.core.held import Content
from ha_core.datacache.core.packed import Packed, plain
from ha_core.datacache.core.source import Row
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
    principal,
    resource_name,
)
from ha_core.plan.rights import Rights


class PlatformRights:
    """Not thread-safe, but for `rights`.

    :ivar unreadable: what of it cannot be read: kind and key → what is denied instead.
    """

    def __init__(self) -> None:
        self.rights = Rights()
        self.unreadable: dict[tuple[str, str], tuple[AccessRule, ...]] = {}
        self._disabled: dict[str, tuple[AccessRule, ...]] = {}
        """Users → that everything is denied to them."""
        self._users = self._rules = Content()

    def follow_users(self, users: Content) -> Rights:
        before, self._users = self._users, users
        changed: dict[str, User | None] = {}
        removed: list[AccessRule] = []
        for name, _, after in users.changes(before):
            removed += self.unreadable.pop(("users", name), ())
            removed += self._disabled.pop(name, ())
            user = None if after is None else _user(after)
            if disabled(after):
                self._disabled[name] = _everything(f"User:{name}")
            if after is not None and user is None:
                self.unreadable["users", name] = _everything(f"User:{name}")
            changed[name] = user
        self.rights = self.rights.changed(changed, self._denied_instead(), removed)
        return self.rights

    def follow_rules(self, rules: Content) -> Rights:
        before, self._rules = self._rules, rules
        if not before.rows:
            # In one go, without keeping a million of them beside what is made of them.
            added = (rule for row in rules.rows.values() for rule in self._read(row))
            users = (user for row in self._users.rows.values() if (user := _user(row)) is not None)
            self.rights = Rights(users, chain(added, self._denied_for_users()))
            return self.rights
        more: list[AccessRule] = []
        fewer: list[AccessRule] = []
        for key, was, is_ in rules.changes(before):
            gone = self.unreadable.pop(("rules", key), None)
            if was is not None:
                fewer += _rules_of(was) if gone is None else gone
            if is_ is not None:
                more += self._read(is_)
        self.rights = self.rights.changed({}, chain(more, self._denied_instead()), fewer)
        return self.rights

    def _read(self, row: Row) -> tuple[AccessRule, ...]:
        try:
            return (_rule(row),)
        except _UNREADABLE:
            instead = self.unreadable["rules", row.key] = _instead(row.value or {})
            return instead

    def _denied_instead(self) -> Iterable[AccessRule]:
        """All of it, at each change: what goes with one that could be read again may be denied for another one, too."""
        return chain.from_iterable(chain(self.unreadable.values(), self._disabled.values()))

    def _denied_for_users(self) -> Iterator[AccessRule]:
        yield from chain.from_iterable(list(self._disabled.values()))
        for (kind, _), denied in list(self.unreadable.items()):
            if kind == "users":
                yield from denied


_UNREADABLE = (AccessRuleError, KeyError, TypeError, AttributeError)


def _user(row: Row) -> User | None:
    """None: it cannot be read."""
    said = row.value or {}
    groups, super_user = said.get("groups", ()), said.get("super_user", False)
    if not isinstance(super_user, bool) or not isinstance(groups, list | tuple):
        return None
    if not all(isinstance(group, str) for group in groups):
        return None
    return User(row.key, frozenset(groups), super_user and not disabled(row))


def _rules_of(row: Row) -> tuple[AccessRule, ...]:
    try:
        return (_rule(row),)
    except _UNREADABLE:
        return _instead(row.value or {})


def _rule(row: Row) -> AccessRule:
    """As `access_rule`, for a million of them."""
    said = row.value or {}
    pick = _picks.get(said.fields) if isinstance(said, Packed) else None
    if pick is None or not isinstance(said, Packed):
        return _slowly(row)
    whose, kind, name, way, what, allow, host = pick(said.values_in_order)
    if host != ANY_HOST:
        return access_rule(said)
    resource, pattern, operation, effect = _numbers(kind, way, what, allow)
    return AccessRule(_principal(whose), resource, _name(resource, name), pattern, operation, effect)


def _slowly(row: Row) -> AccessRule:
    """The first of its shape; if it can be read, others go the quick way."""
    said = row.value or {}
    rule = access_rule(plain(said) or {})
    if isinstance(said, Packed) and set(said.fields) == set(AccessRule._fields):
        _picks[said.fields] = itemgetter(*map(said.fields.index, AccessRule._fields))
    return rule


_picks: dict[tuple[str, ...], Callable[[tuple[Any, ...]], tuple[Any, ...]]] = {}
"""By the order of fields: their values in the order of `AccessRule`'s. All rules of a platform have the same one."""

_principal, _name = lru_cache(maxsize=1 << 16)(principal), lru_cache(maxsize=1 << 16)(resource_name)
"""Rules of one principal lie beside each other, and many are for the same names."""


@lru_cache(maxsize=1024)
def _numbers(
    resource: str, pattern: str, operation: str, effect: str
) -> tuple[ResourceType, PatternType, AclOperation, Permission]:
    """:raises AccessRuleError: one of the words is not known."""
    words = {"resource_type": resource, "pattern": pattern, "operation": operation, "effect": effect}
    rule = access_rule({"principal": ANYBODY, "name": CLUSTER_NAME, **words})
    return rule.resource_type, rule.pattern, rule.operation, rule.effect


def _instead(said: Mapping[str, Any]) -> tuple[AccessRule, ...]:
    if said.get("effect") == "allow":
        return ()
    try:
        whose = principal(said.get("principal"))
    except AccessRuleError:
        whose = ANYBODY
    return _everything(whose)


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
