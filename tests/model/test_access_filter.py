"""Filters of access rules in words; their semantics are compared with Kafka's in `tests/gateway/composed`."""

import pytest

from ha_core.model.access import (
    AccessRule,
    AccessRuleError,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
    RuleFilter,
    access_rule,
    filter_in_words,
    rule_filter,
    rule_in_words,
)

RULE = AccessRule(
    "User:alice", ResourceType.TOPIC, "ord", PatternType.PREFIXED, AclOperation.READ, Permission.ALLOW, "10.0.0.7"
)


def test_a_rule_is_the_same_after_it_was_written_in_words() -> None:
    assert access_rule(rule_in_words(RULE)) == RULE


@pytest.mark.parametrize(
    "rules",
    [
        RuleFilter(),
        RuleFilter(name="orders", matching=True),
        RuleFilter(
            ResourceType.TOPIC, "ord", PatternType.PREFIXED, AclOperation.READ, Permission.DENY, "User:alice", "*"
        ),
    ],
)
def test_a_filter_is_the_same_after_it_was_written_in_words(rules: RuleFilter) -> None:
    assert rule_filter(filter_in_words(rules)) == rules


@pytest.mark.parametrize(
    ("rules", "described"),
    [
        (RuleFilter(), True),
        (RuleFilter(name="ord"), True),
        (RuleFilter(name="orders"), False),
        (RuleFilter(name="orders", matching=True), True),
        (RuleFilter(ResourceType.GROUP), False),
        (RuleFilter(pattern=PatternType.LITERAL), False),
        (RuleFilter(principal="User:bob"), False),
        (RuleFilter(host="*"), False),
        (RuleFilter(host="10.0.0.7", principal="User:alice", effect=Permission.ALLOW), True),
    ],
)
def test_a_filter_matches_rules_that_agree_in_all_its_fields(rules: RuleFilter, described: bool) -> None:
    assert rules.describes(RULE) is described


@pytest.mark.parametrize(
    ("words", "field"),
    [
        ({"resource_type": "table"}, "resource_type 'table'"),
        ({"operation": 3}, "operation"),
        ({"topic": "orders"}, "topic"),
    ],
)
def test_an_unknown_field_of_a_filter_is_named(words: dict[str, object], field: str) -> None:
    with pytest.raises(AccessRuleError, match=field):
        rule_filter(words)
