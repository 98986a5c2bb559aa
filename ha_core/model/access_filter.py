"""Filters of access rules, as Kafka's `AclBindingFilter`."""

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
"""Kafka's pattern type MATCH, as files and forms write it in place of a pattern."""


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
