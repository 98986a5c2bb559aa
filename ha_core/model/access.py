"""Users and access rules, with the terms and the meaning of Kafka's ACLs.

A rule is for a principal: `User:NAME`, `Group:NAME` (a group of users, which Kafka does not have), or `User:*`,
all users. An operation needs a rule that allows it, and a rule that denies it wins over all that allow it.
"""

import re
from collections.abc import Mapping
from enum import IntEnum
from ipaddress import IPv6Address, ip_address
from typing import Any, NamedTuple, TypeVar

ANYBODY = "User:*"
ANY_HOST = "*"
ANY_NAME = "*"
"""A literal name that means every resource of the type."""
CLUSTER_NAME = "kafka-cluster"
"""The only resource of type CLUSTER."""

MAX_NAME = 255
"""Characters of a principal's name; Kafka sets no bound, its tools and this one's forms do."""
MAX_TOPIC_NAME = 249
MAX_ID = 32_767
"""Characters of a group or a transactional id that the protocol can carry."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]+")


MATCH = "match"
"""Kafka's pattern type MATCH, as files and forms write it in place of a pattern."""


class AccessRuleError(ValueError):
    """An invalid rule or user. The text names the field, the value and the way out."""


class ResourceType(IntEnum):
    """Numbers are Kafka's, here and in the enums below."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


class PatternType(IntEnum):
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    DENY = 2
    ALLOW = 3


class User(NamedTuple):
    name: str
    groups: frozenset[str] = frozenset()
    super_user: bool = False
    """May do everything; rules do not apply."""


class AccessRule(NamedTuple):
    principal: str
    resource_type: ResourceType
    name: str
    """Name of a resource, `*` for all, or a prefix."""
    pattern: PatternType
    operation: AclOperation
    effect: Permission
    host: str = ANY_HOST
    """The client's address."""


N = TypeVar("N", bound=IntEnum)


def access_rule(words: Mapping[str, object]) -> AccessRule:
    """Parse a rule as files and forms have it: the fields of `AccessRule`, with enums as lower-case names.

    :raises AccessRuleError: a field is unknown, missing or invalid.
    """
    fields = AccessRule._fields
    if unknown := [str(key) for key in words if key not in fields]:
        raise AccessRuleError(f"{', '.join(unknown)}: no such field; a rule has {', '.join(fields)}")
    if missing := [field for field in ("principal", "resource_type", "operation", "effect") if field not in words]:
        raise AccessRuleError(f"{', '.join(missing)}: missing; add it")
    resource = _number(ResourceType, "resource_type", words["resource_type"])
    name = words.get("name", CLUSTER_NAME if resource is ResourceType.CLUSTER else None)
    return AccessRule(
        principal(words["principal"]),
        resource,
        resource_name(resource, name),
        _number(PatternType, "pattern", words.get("pattern", "literal")),
        _number(AclOperation, "operation", words["operation"]),
        _number(Permission, "effect", words["effect"]),
        host_name(words.get("host", ANY_HOST)),
    )


def rule_in_words(rule: AccessRule) -> dict[str, str]:
    """The inverse of `access_rule`."""
    return {
        "principal": rule.principal,
        "resource_type": rule.resource_type.name.lower(),
        "name": rule.name,
        "pattern": rule.pattern.name.lower(),
        "operation": rule.operation.name.lower(),
        "effect": rule.effect.name.lower(),
        "host": rule.host,
    }


def principal(value: object) -> str:
    """:raises AccessRuleError: not `User:NAME` or `Group:NAME`."""
    kind, _, name = value.partition(":") if isinstance(value, str) else ("", "", "")
    if kind not in ("User", "Group") or not name or len(name) > MAX_NAME or _CONTROL.search(name):
        raise AccessRuleError(f"principal {_short(value)}: invalid; write User:NAME, Group:NAME, or User:* for all")
    if kind == "Group" and name == "*":
        raise AccessRuleError("principal 'Group:*': no group has all users; write User:*")
    return f"{kind}:{name}"


def resource_name(resource: ResourceType, value: object) -> str:
    """:raises AccessRuleError: no resource of this type can have the name or the prefix."""
    if not isinstance(value, str) or not value:
        raise AccessRuleError(f"name {_short(value)}: no name; give one, or * for all")
    if resource is ResourceType.TOPIC:
        if value != ANY_NAME and (len(value) > MAX_TOPIC_NAME or not _TOPIC.fullmatch(value)):
            raise AccessRuleError(
                f"name {_short(value)}: no topic has it; use 1 to {MAX_TOPIC_NAME} letters, digits, '.', '-', '_'"
            )
    elif len(value) > MAX_ID or _CONTROL.search(value):
        raise AccessRuleError(f"name {_short(value)}: longer than {MAX_ID} characters, or with control characters")
    return value


def host_name(value: object) -> str:
    """The address in the form that clients' addresses are compared with.

    :raises AccessRuleError: not an address.
    """
    if value == ANY_HOST:
        return ANY_HOST
    try:
        return address(str(value))
    except ValueError:
        raise AccessRuleError(f"host {_short(value)}: not an address; give one (no name, no range), or *") from None


def address(text: str) -> str:
    """The canonical form of an address: IPv4-mapped IPv6 becomes IPv4.

    :raises ValueError: not an address.
    """
    parsed = ip_address(text)
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(parsed)


def on_loopback(host: str) -> bool:
    """Whether a host (address or name) is loopback, so that other machines cannot reach it."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _number(kind: type[N], field: str, value: object) -> N:
    member = kind.__members__.get(value.upper()) if isinstance(value, str) else None
    if member is None:
        names = ", ".join(name.lower() for name in kind.__members__)
        raise AccessRuleError(f"{field} {_short(value)}: not known; one of {names}")
    return member


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


class RuleFilter(NamedTuple):
    """A field that is None matches every rule.

    :ivar matching: `name` is a resource's name: match all rules that apply to it, prefixes and `*` too.
    """

    resource_type: ResourceType | None = None
    name: str | None = None
    pattern: PatternType | None = None
    operation: AclOperation | None = None
    effect: Permission | None = None
    principal: str | None = None
    host: str | None = None
    matching: bool = False

    def describes(self, rule: AccessRule) -> bool:
        for wanted, value in (
            (self.resource_type, rule.resource_type),
            (self.operation, rule.operation),
            (self.effect, rule.effect),
            (self.pattern, rule.pattern),
            (self.principal, rule.principal),
            (self.host, rule.host),
        ):
            if wanted not in (None, value):
                return False
        if self.name is None or rule.name == self.name:
            return True
        if not self.matching:
            return False
        return self.name.startswith(rule.name) if rule.pattern is PatternType.PREFIXED else rule.name == ANY_NAME


def filter_in_words(rules: RuleFilter) -> dict[str, str | None]:
    """The inverse of `rule_filter`, for JSON."""
    numbers = {
        "resource_type": rules.resource_type,
        "pattern": rules.pattern,
        "operation": rules.operation,
        "effect": rules.effect,
    }
    words = {field: None if number is None else number.name.lower() for field, number in numbers.items()}
    if rules.matching:
        words["pattern"] = MATCH
    return {**words, "name": rules.name, "principal": rules.principal, "host": rules.host}


def rule_filter(words: Mapping[str, object]) -> RuleFilter:
    """:raises AccessRuleError: a field is unknown or invalid."""
    if unknown := [str(key) for key in words if key not in _FIELDS]:
        raise AccessRuleError(f"{', '.join(unknown)}: no such field; a filter has {', '.join(_FIELDS)}")
    fields: dict[str, Any] = {}
    for field, value in words.items():
        kind = _NUMBERS.get(field)
        if value is None:
            continue
        if field == "pattern" and value == MATCH:
            fields["matching"] = True
        elif not isinstance(value, str):
            raise AccessRuleError(f"{field}: not a text; give one, or null to match every value")
        elif kind is None:
            fields[field] = value
        elif value.upper() in kind.__members__:
            fields[field] = kind[value.upper()]
        else:
            raise AccessRuleError(f"{field} {value[:80]!r}: one of {', '.join(kind.__members__).lower()}")
    return RuleFilter()._replace(**fields)


_NUMBERS: Mapping[str, type[ResourceType] | type[PatternType] | type[AclOperation] | type[Permission]] = {
    "resource_type": ResourceType,
    "pattern": PatternType,
    "operation": AclOperation,
    "effect": Permission,
}
_FIELDS = (*_NUMBERS, "name", "principal", "host")
