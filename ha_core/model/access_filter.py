"""Which rules somebody asks for, as Kafka's `AclBindingFilter` says it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ha_core.model.access import (
    ANY_NAME,
    AccessRule,
    AccessRuleError,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)

MATCH = "match"
"""In words, in the place of a pattern."""


class RuleFilter(NamedTuple):
    """Where it is None, whatever a rule has there.

    :ivar matching: `name` is that of a resource: all rules that count for it, prefixes and `*` too.
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
        for asked, said in (
            (self.resource_type, rule.resource_type),
            (self.operation, rule.operation),
            (self.effect, rule.effect),
            (self.pattern, rule.pattern),
            (self.principal, rule.principal),
            (self.host, rule.host),
        ):
            if asked not in (None, said):
                return False
        if self.name is None or rule.name == self.name:
            return True
        if not self.matching:
            return False
        return self.name.startswith(rule.name) if rule.pattern is PatternType.PREFIXED else rule.name == ANY_NAME


def filter_in_words(asked: RuleFilter) -> dict[str, str | None]:
    """As JSON has it; `rule_filter` reads it."""
    numbers = {
        "resource_type": asked.resource_type,
        "pattern": asked.pattern,
        "operation": asked.operation,
        "effect": asked.effect,
    }
    words = {field: None if number is None else number.name.lower() for field, number in numbers.items()}
    if asked.matching:
        words["pattern"] = MATCH
    return {**words, "name": asked.name, "principal": asked.principal, "host": asked.host}


def rule_filter(said: Mapping[str, object]) -> RuleFilter:
    """:raises AccessRuleError: naming the field."""
    if unknown := [str(key) for key in said if key not in _FIELDS]:
        raise AccessRuleError(f"{', '.join(unknown)}: no such field; a filter has {', '.join(_FIELDS)}")
    found: dict[str, Any] = {}
    for field, value in said.items():
        kind = _NUMBERS.get(field)
        if value is None:
            continue
        if field == "pattern" and value == MATCH:
            found["matching"] = True
        elif not isinstance(value, str):
            raise AccessRuleError(f"{field}: a text, or null for whatever it is")
        elif kind is None:
            found[field] = value
        elif value.upper() in kind.__members__:
            found[field] = kind[value.upper()]
        else:
            raise AccessRuleError(f"{field} {value[:80]!r}: one of {', '.join(kind.__members__).lower()}")
    return RuleFilter()._replace(**found)


_NUMBERS: Mapping[str, type[ResourceType] | type[PatternType] | type[AclOperation] | type[Permission]] = {
    "resource_type": ResourceType,
    "pattern": PatternType,
    "operation": AclOperation,
    "effect": Permission,
}
_FIELDS = (*_NUMBERS, "name", "principal", "host")
