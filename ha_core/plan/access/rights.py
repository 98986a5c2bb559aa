"""Authorization by access rules, with the semantics of Kafka's StandardAuthorizer.

- A rule applies if it names one of the client's principals, and the client's address or all addresses.
- It matches a literal name, names with its prefix, or every name (literal `*`).
- A denial wins over all that allow; an operation that no rule allows is denied. Rules do not apply to super users.
- READ, WRITE, DELETE and ALTER imply DESCRIBE; ALTER_CONFIGS implies DESCRIBE_CONFIGS. Denials imply nothing: a user
  without READ may still have DESCRIBE.

Rules are packed by principal, two words each, with names interned: a million is usual. The first request of a principal
compiles its rules; decisions by name are cached per user and address.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from sys import intern

from ha_core.model.access import (
    ANY_HOST,
    ANY_NAME,
    ANYBODY,
    CLUSTER_NAME,
    AccessRule,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
    User,
)
from ha_core.model.layered import Layered
from ha_core.plan.routing.bounded_cache import BoundedCache, CacheBudget

EVERYTHING = sum(1 << operation for operation in AclOperation)
"""All operations, as a bit field: bit n is the operation with Kafka's number n."""
_OF_ALL = 1 << AclOperation.ALL
_DESCRIBE, _DESCRIBE_CONFIGS = 1 << AclOperation.DESCRIBE, 1 << AclOperation.DESCRIBE_CONFIGS
_IMPLY_DESCRIBE = sum(
    1 << operation for operation in (AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER)
)
_IMPLIES_CONFIGS = 1 << AclOperation.ALTER_CONFIGS
_PROBE = "hardcode"
"""The name with which Kafka tests whether a user may do something to any resource of a type."""

MAX_ASKING = 20_000
"""Cached pairs of user and address."""

_Masks = tuple[int, int]
"""(allowed, denied)"""
PackedRule = tuple[str, str, int, str]
"""Principal, name, `bits` of the rest, host. Equal names, and equal numbers, share one object."""
_Packed = tuple[int | str, ...]
"""Code and name of each rule of one principal, in turn. The code: host · 2^12, and `bits`."""
_NOTHING: _Masks = (0, 0)


def bit_of(operation: int) -> int:
    """The operation in a bit field."""
    return 1 << operation


@cache
def bits(resource: int, pattern: int, operation: int, effect: int) -> int:
    return effect << 10 | pattern << 7 | resource << 4 | operation


def packed(rule: AccessRule) -> PackedRule:
    principal, resource, name, pattern, operation, effect, host = rule
    return principal, intern(name), bits(resource, pattern, operation, effect), host


class Verdicts:
    """Rights of one user from one address.

    :ivar everything: a super user.
    """

    __slots__ = ("_anything", "_asked", "_indexes", "_room", "everything")

    def __init__(self, indexes: Iterable[_Index], room: CacheBudget, everything: bool = False) -> None:
        self._indexes = tuple(indexes)
        self._asked: BoundedCache[tuple[int, str], int] = BoundedCache()
        self._room = room
        self._anything: dict[tuple[int, int], bool] = {}
        self.everything = everything

    def allows(self, operation: int, resource: int, name: str = CLUSTER_NAME) -> bool:
        """Numbers are those of `AclOperation` and `ResourceType`."""
        return bool(self.operations(resource, name) >> operation & 1)

    def operations(self, resource: int, name: str = CLUSTER_NAME) -> int:
        """All allowed operations, as a bit field."""
        if self.everything:
            return EVERYTHING
        key = (resource, name)
        found = self._asked.get(key)
        if found is None:
            found = granted(*self.masks(resource, name))
            self._room.keep(self._asked, name, key, found)
        return found

    def masks(self, resource: int, name: str) -> _Masks:
        """Operations that rules for this name allow, and those that they deny."""
        allowed = denied = 0
        for index in self._indexes:
            more, less = index.masks(resource, name)
            allowed |= more
            denied |= less
        return allowed, denied

    def objection(self, operation: int, resource: int, name: str, anyway: bool = False) -> str:
        """Why gateways refuse an operation that the rules allow, as a sentence for people; "": they do not refuse it,
        or the rules do not allow it.

        :param anyway: another right, to the cluster, allows it.
        """
        return ""

    def may_object(self, operation: int, resource: int) -> bool:
        """False if `objection` is "" for every name, which spares callers with many names that question."""
        return False

    def allows_any(self, operation: int, resource: int) -> bool:
        """Whether the operation is allowed for some possible resource of the type (`authorizeByResourceType`)."""
        key = (operation, resource)
        found = self._anything.get(key)
        if found is None:
            found = self._anything[key] = self.allows(operation, resource, _PROBE) or self._any(operation, resource)
        return found

    def _any(self, operation: int, resource: int) -> bool:
        """No implied operations here: Kafka looks only for rules of this operation, or of ALL."""
        wanted = 1 << operation | _OF_ALL
        kinds = [index.kinds[resource] for index in self._indexes if resource in index.kinds]
        if any(kind.all[1] & wanted for kind in kinds):
            return False
        if any(kind.all[0] & wanted for kind in kinds):
            return True
        denied_names = {name for kind in kinds for name, (_, less) in kind.names.items() if less & wanted}
        denied_prefixes = {prefix for kind in kinds for prefix, (_, less) in kind.prefixes.items() if less & wanted}

        def dominated(text: str) -> bool:
            return any(text[:length] in denied_prefixes for length in range(1, len(text) + 1))

        return any(
            more & wanted and not (literal and text in denied_names) and not (denied_prefixes and dominated(text))
            for kind in kinds
            for literal, rules in ((True, kind.names), (False, kind.prefixes))
            for text, (more, _) in rules.items()
        )


def granted(allowed: int, denied: int) -> int:
    """The operations that a client may perform, with those that others imply.

    :param allowed: operations that rules allow. :param denied: those that rules deny.
    """
    if allowed & _OF_ALL:
        allowed = EVERYTHING
    if allowed & _IMPLY_DESCRIBE:
        allowed |= _DESCRIBE
    if allowed & _IMPLIES_CONFIGS:
        allowed |= _DESCRIBE_CONFIGS
    return 0 if denied & _OF_ALL else allowed & ~denied


class _TypeRules:
    """The rules of one principal and address for one type of resource."""

    __slots__ = ("all", "lengths", "names", "prefixes")

    def __init__(self) -> None:
        self.all: _Masks = _NOTHING
        self.names: dict[str, _Masks] = {}
        self.prefixes: dict[str, _Masks] = {}
        self.lengths: tuple[int, ...] = ()
        """Lengths of the prefixes, ascending."""

    def add(self, code: int, name: str) -> None:
        allows = code >> 10 & 3 == Permission.ALLOW
        bit = 1 << (code & 15)
        more: _Masks = (bit, 0) if allows else (0, bit)
        if code >> 7 & 7 == PatternType.PREFIXED:
            self.prefixes[name] = _both(self.prefixes.get(name, _NOTHING), more)
        elif name == ANY_NAME:
            self.all = _both(self.all, more)
        else:
            self.names[name] = _both(self.names.get(name, _NOTHING), more)

    def masks(self, name: str) -> _Masks:
        allowed, denied = _both(self.all, self.names.get(name, _NOTHING))
        size = len(name)
        for length in self.lengths:
            if length > size:
                break
            found = self.prefixes.get(name[:length])
            if found is not None:
                allowed |= found[0]
                denied |= found[1]
        return allowed, denied


class _Index:
    """The rules of one principal for one address, or for all."""

    __slots__ = ("kinds",)

    def __init__(self, rules: _Packed, host: int) -> None:
        self.kinds: dict[int, _TypeRules] = {}
        for code, name in _pairs(rules):
            if code >> 12 == host:
                self.kinds.setdefault(code >> 4 & 7, _TypeRules()).add(code, name)
        for kind in self.kinds.values():
            kind.lengths = tuple(sorted({len(prefix) for prefix in kind.prefixes}))

    def masks(self, resource: int, name: str) -> _Masks:
        kind = self.kinds.get(resource)
        return _NOTHING if kind is None else kind.masks(name)


class Rights:
    """All users and rules at one time; immutable, `changed` makes a new one."""

    __slots__ = ("_codes", "_hosts", "_indexes", "_room", "_rules", "_users", "_verdicts")

    def __init__(self, users: Iterable[User] = (), rules: Iterable[AccessRule] = ()) -> None:
        self._users = Layered({user.name: user for user in users if _matters(user)})
        """Only users with groups, and super users."""
        self._hosts: dict[str, int] = {ANY_HOST: 0}
        self._codes: dict[int, int] = {}
        self._indexes: dict[tuple[str, str], _Index] = {}
        self._verdicts: dict[tuple[str, str], Verdicts] = {}
        self._room = CacheBudget()
        self._rules = Layered(self._by_principal(map(packed, rules)))

    def __len__(self) -> int:
        """Number of rules."""
        return sum(map(len, self._rules.values())) // 2

    def of(self, user: str, host: str) -> Verdicts:
        """:param host: the client's address, as `model.access.address` writes it."""
        key = (user, host)
        verdicts = self._verdicts.get(key)
        if verdicts is None:
            if len(self._verdicts) >= MAX_ASKING:
                self._verdicts.clear()
            verdicts = self._verdicts[key] = self._compile(user, host)
        return verdicts

    def super_user(self, user: str) -> bool:
        known = self._users.get(user)
        return known is not None and known.super_user

    def names(self, user: str) -> bool:
        """Whether the user is registered or has a rule."""
        return user in self._users or f"User:{user}" in self._rules

    def rules(self, principal: str | None = None) -> Iterator[AccessRule]:
        """Rules of one principal, or all; duplicates once."""
        hosts = {number: host for host, number in self._hosts.items()}
        for name in self._rules if principal is None else [principal] if principal in self._rules else ():
            for code, resource in dict.fromkeys(_pairs(self._rules[name])):
                yield AccessRule(
                    name,
                    ResourceType(code >> 4 & 7),
                    resource,
                    PatternType(code >> 7 & 7),
                    AclOperation(code & 15),
                    Permission(code >> 10 & 3),
                    hosts[code >> 12],
                )

    def about(self, user: str, host: str, resource: ResourceType, name: str) -> Iterator[AccessRule]:
        """The rules that apply to this user from this address and match the name, to explain a decision."""
        for principal in self._principals(user):
            for rule in self.rules(principal):
                prefixed = rule.pattern is PatternType.PREFIXED
                matches = name.startswith(rule.name) if prefixed else rule.name in (name, ANY_NAME)
                if rule.resource_type is resource and rule.host in (ANY_HOST, host) and matches:
                    yield rule

    def changed(
        self,
        users: Mapping[str, User | None] = {},
        added: Iterable[AccessRule] = (),
        removed: Iterable[AccessRule] = (),
        packed_rules: Iterable[PackedRule] = (),
    ) -> Rights:
        """A copy with these changes, which shares everything else.

        :param users: by name; None: removed.
        :param removed: applied first; a duplicate rule that is removed once stays.
        :param packed_rules: also added.
        """
        new = Rights()
        new._users = self._users
        if users:
            new._users = new._users.changed(
                {name: user if user and _matters(user) else None for name, user in users.items()}
            )
        new._hosts, new._codes = dict(self._hosts), dict(self._codes)
        fewer = new._by_principal(map(packed, removed))
        more = new._by_principal(chain(map(packed, added), packed_rules))
        before = self._rules
        changed: dict[str, _Packed | None] = {
            principal: (*_without(before.get(principal, ()), fewer.get(principal, ())), *more.get(principal, ()))
            or None
            for principal in more.keys() | fewer.keys()
        }
        new._rules = before.changed(changed)
        new._indexes = {key: index for key, index in self._indexes.items() if key[0] not in changed}
        return new

    def _by_principal(self, rules: Iterable[PackedRule]) -> dict[str, _Packed]:
        hosts, codes = self._hosts, self._codes
        gathered: defaultdict[str, list[int | str]] = defaultdict(list)
        last: str | None = None
        words: list[int | str] = []
        for principal, name, rest, host in rules:
            if principal is not last:
                last, words = principal, gathered[principal]
            if host == ANY_HOST:
                words += (rest, name)
            else:
                code = hosts.setdefault(host, len(hosts)) << 12 | rest
                words += (codes.setdefault(code, code), name)
        return {principal: tuple(words) for principal, words in gathered.items()}

    def _compile(self, user: str, host: str) -> Verdicts:
        if self.super_user(user):
            return Verdicts((), self._room, everything=True)
        hosts = [ANY_HOST, host] if host in self._hosts else [ANY_HOST]
        indexes = (
            self._index(principal, address)
            for principal in self._principals(user)
            if principal in self._rules
            for address in hosts
        )
        return Verdicts(indexes, self._room)

    def _principals(self, user: str) -> Iterable[str]:
        """The user's principals in rules, each once."""
        known = self._users.get(user)
        groups = () if known is None else sorted(known.groups)
        return dict.fromkeys((f"User:{user}", ANYBODY, *(f"Group:{group}" for group in groups)))

    def _index(self, principal: str, host: str) -> _Index:
        key = (principal, host)
        index = self._indexes.get(key)
        if index is None:
            if len(self._indexes) >= MAX_ASKING:
                self._indexes.clear()
            index = self._indexes[key] = _Index(self._rules[principal], self._hosts[host])
        return index


def _matters(user: User) -> bool:
    return bool(user.groups) or user.super_user


def _without(rules: _Packed, fewer: _Packed) -> _Packed:
    """`rules` without one equal rule for each of `fewer`, if there is one."""
    if not fewer:
        return rules
    gone = Counter(_pairs(fewer))
    left: list[int | str] = []
    for pair in _pairs(rules):
        if gone[pair] > 0:
            gone[pair] -= 1
        else:
            left += pair
    return tuple(left)


def _both(one: _Masks, other: _Masks) -> _Masks:
    return one[0] | other[0], one[1] | other[1]


def _pairs(rules: _Packed) -> Iterator[tuple[int, str]]:
    words = iter(rules)
    return zip(words, words, strict=True)  # type: ignore[arg-type]
