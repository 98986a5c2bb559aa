"""Users, and rules that say who may do what: the terms, and the meaning, are those of Kafka's ACLs.

A rule is for a principal: `User:NAME`, `Group:NAME` (users beside each other, which Kafka itself does not have), or
`User:*`, everybody. Nothing is allowed that no rule allows, and whatever one rule denies no other one allows.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import IntEnum
from ipaddress import IPv6Address, ip_address
from typing import NamedTuple, TypeVar

ANYBODY = "User:*"
ANY_HOST = "*"
ANY_NAME = "*"
"""As a literal name: every resource of the type."""
CLUSTER_NAME = "kafka-cluster"
"""The one resource of its type."""

MAX_NAME = 255
"""Characters of a principal's name; Kafka sets no bound, its tools and this one's forms do."""
MAX_TOPIC_NAME = 249
MAX_ID = 32_767
"""Of a group or a transactional id: what the protocol can carry."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_TOPIC = re.compile(r"[a-zA-Z0-9._-]+")


class AccessRuleError(ValueError):
    """A rule, or a user, that is not what it should be: what is wrong, the value, and the way out."""


class ResourceType(IntEnum):
    """Kafka's numbers, as in all that follow."""

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
    """May do everything, whatever rules say."""


class AccessRule(NamedTuple):
    principal: str
    resource_type: ResourceType
    name: str
    """Of a resource, `*` for all, or what names begin with."""
    pattern: PatternType
    operation: AclOperation
    effect: Permission
    host: str = ANY_HOST
    """The address that the client comes from."""


N = TypeVar("N", bound=IntEnum)


def access_rule(said: Mapping[str, object]) -> AccessRule:
    """A rule in words, as files and forms have it: the fields of `AccessRule`, its numbers as names in small letters.

    :raises AccessRuleError: naming the field.
    """
    fields = AccessRule._fields
    if unknown := [str(key) for key in said if key not in fields]:
        raise AccessRuleError(f"{', '.join(unknown)}: no such field; a rule has {', '.join(fields)}")
    if missing := [field for field in ("principal", "resource_type", "operation", "effect") if field not in said]:
        raise AccessRuleError(f"{', '.join(missing)}: missing; add it")
    resource = _number(ResourceType, "resource_type", said["resource_type"])
    name = said.get("name", CLUSTER_NAME if resource is ResourceType.CLUSTER else None)
    return AccessRule(
        principal(said["principal"]),
        resource,
        resource_name(resource, name),
        _number(PatternType, "pattern", said.get("pattern", "literal")),
        _number(AclOperation, "operation", said["operation"]),
        _number(Permission, "effect", said["effect"]),
        host_name(said.get("host", ANY_HOST)),
    )


def rule_in_words(rule: AccessRule) -> dict[str, str]:
    """What `access_rule` reads."""
    return {
        "principal": rule.principal,
        "resource_type": rule.resource_type.name.lower(),
        "name": rule.name,
        "pattern": rule.pattern.name.lower(),
        "operation": rule.operation.name.lower(),
        "effect": rule.effect.name.lower(),
        "host": rule.host,
    }


def principal(said: object) -> str:
    """:raises AccessRuleError: it is not `User:NAME` or `Group:NAME`."""
    kind, _, name = said.partition(":") if isinstance(said, str) else ("", "", "")
    if kind not in ("User", "Group") or not name or len(name) > MAX_NAME or _CONTROL.search(name):
        raise AccessRuleError(f"principal {_short(said)}: nobody; write User:NAME, Group:NAME, or User:* for everybody")
    if kind == "Group" and name == "*":
        raise AccessRuleError("principal 'Group:*': there is no group of all; User:* is everybody")
    return f"{kind}:{name}"


def resource_name(resource: ResourceType, said: object) -> str:
    """:raises AccessRuleError: nothing of this type can have the name, nor begin with it."""
    if not isinstance(said, str) or not said:
        raise AccessRuleError(f"name {_short(said)}: no name; give one, or * for all")
    if resource is ResourceType.TOPIC:
        if said != ANY_NAME and (len(said) > MAX_TOPIC_NAME or not _TOPIC.fullmatch(said)):
            raise AccessRuleError(
                f"name {_short(said)}: no topic has it; 1 to {MAX_TOPIC_NAME} of letters, digits, dot, dash, underscore"
            )
    elif len(said) > MAX_ID or _CONTROL.search(said):
        raise AccessRuleError(f"name {_short(said)}: longer than {MAX_ID} characters, or with control characters")
    return said


def host_name(said: object) -> str:
    """The address as clients' addresses are compared with it.

    :raises AccessRuleError: it is no address.
    """
    if said == ANY_HOST:
        return ANY_HOST
    try:
        return address(str(said))
    except ValueError:
        raise AccessRuleError(f"host {_short(said)}: not an address; give one (no name, no range), or *") from None


def address(said: str) -> str:
    """One way to write each address: an IPv4 address that an IPv6 socket shows is itself.

    :raises ValueError: it is none.
    """
    found = ip_address(said)
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(found)


def on_loopback(host: str) -> bool:
    """Whether a host (address or name) is loopback, so that other machines cannot reach it."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _number(kind: type[N], field: str, said: object) -> N:
    found = kind.__members__.get(said.upper()) if isinstance(said, str) else None
    if found is None:
        known = ", ".join(name.lower() for name in kind.__members__)
        raise AccessRuleError(f"{field} {_short(said)}: not known; one of {known}")
    return found


def _short(said: object) -> str:
    text = repr(said)
    return text if len(text) <= 80 else text[:77] + "..."
