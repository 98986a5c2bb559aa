"""The access rules that keep ordinary writers out of a copy, where its cluster has an authoriser.

A rule that denies WRITE to everybody stands above all that allow it, and brokers ask none of a super user. So one rule
for a copy is enough where the account that copies is a super user; any other account would be denied as well. Beside it
stands a marker, a rule for a user that nobody is, by which the rule is known for one of these: it is where the rule is,
whoever has died or stood still. A rule that is left behind locks out all writers, so whoever makes a copy the writer
takes both away, and so does whoever finds them where there is no mirror.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ha_core.plan.facts import AccessRule

EVERYBODY = "User:*"
MARKER = "User:switchyard-copy"
WRITE = 4


def guard(topic: str) -> tuple[AccessRule, AccessRule]:
    """The marker, and the rule."""
    return _deny(topic, MARKER), _deny(topic, EVERYBODY)


def guards(topics: Iterable[str]) -> frozenset[AccessRule]:
    return frozenset(rule for topic in topics for rule in guard(topic))


def marked(rules: Collection[AccessRule]) -> frozenset[str]:
    """Topics that have a marker, with the rule or without."""
    return frozenset(rule.name for rule in rules if rule == _deny(rule.name, MARKER))


def unguarded(rules: Collection[AccessRule], topics: Iterable[str]) -> list[str]:
    """Those that lack the rule, or its marker."""
    there = frozenset(rules)
    return sorted(topic for topic in topics if not there.issuperset(guard(topic)))


def foreign(rules: Collection[AccessRule], topics: Iterable[str]) -> list[str]:
    """Topics to which somebody else lets nobody write."""
    there, ours = frozenset(rules), marked(rules)
    return sorted(topic for topic in topics if topic not in ours and _deny(topic, EVERYBODY) in there)


def others(rules: Collection[AccessRule]) -> frozenset[AccessRule]:
    """All rules but these."""
    return frozenset(rules) - guards(marked(rules))


def _deny(topic: str, principal: str) -> AccessRule:
    return AccessRule("literal", topic, principal, "*", WRITE, False)
