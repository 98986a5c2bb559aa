"""The access rules that keep ordinary writers out of a copy, where its cluster has an authoriser.

A rule that denies WRITE to everybody stands above all that allow it, and brokers ask none of a super user. So one rule
for a copy is enough where the account that copies is a super user; any other account would be denied as well. Where it
is none, whoever else may write is denied it by name (`sparing`).

Beside each rule stands a marker, a rule for a user that nobody is, by which the rule is known for one of these: it is
where the rule is, whoever has died or stood still. A rule that is left behind locks out writers, so whoever makes a
copy the writer takes both away, and so does whoever finds them where there is no mirror.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from ha_core.plan.facts.clusters import TopicAcl
from ha_core.plan.mirror.syncing import ALL, covers, writers

EVERYBODY = "User:*"
MARKER = "User:switchyard-copy"
WRITE = 4
_USER = "User:"


class Guard(NamedTuple):
    """Placed in this order, and taken away in the other one."""

    marker: TopicAcl
    rule: TopicAcl


def guard(topic: str, principal: str = EVERYBODY) -> Guard:
    """The marker says whom the rule denies to write."""
    marker = MARKER if principal == EVERYBODY else f"{MARKER}/{principal.removeprefix(_USER)}"
    return Guard(_deny(topic, marker), _deny(topic, principal))


def guards(topics: Iterable[str]) -> frozenset[TopicAcl]:
    """The rules against everybody, with their markers."""
    return frozenset(rule for topic in topics for rule in guard(topic))


def placed(rules: Collection[TopicAcl], topics: Collection[str] | None = None) -> list[Guard]:
    """All that have a marker, with the rule or without.

    :param topics: None: of all.
    """
    found = [one for rule in rules if (one := _marked_by(rule)) is not None]
    return sorted(one for one in found if topics is None or one.rule.name in topics)


def marked(rules: Collection[TopicAcl]) -> frozenset[str]:
    """Topics that have a marker, with the rule or without."""
    return frozenset(one.rule.name for one in placed(rules))


def unguarded(rules: Collection[TopicAcl], topics: Iterable[str]) -> list[str]:
    """Those that lack the rule against everybody, or its marker."""
    there = frozenset(rules)
    return sorted(topic for topic in topics if not there.issuperset(guard(topic)))


def foreign(rules: Collection[TopicAcl], topics: Iterable[str]) -> list[str]:
    """Topics to which somebody else lets nobody write."""
    there = frozenset(rules)
    elses = (topic for topic in topics if _deny(topic, EVERYBODY) in there and guard(topic).marker not in there)
    return sorted(elses)


def others(rules: Collection[TopicAcl]) -> frozenset[TopicAcl]:
    """All rules but these."""
    return frozenset(rules) - {rule for one in placed(rules) for rule in one}


class Writers(NamedTuple):
    """Who may write to a copy, or will when the rights of its source have come along.

    :ivar named: users, by rules for each of them. Where a topic has a rule at all, brokers let nobody write whom none
        allows; so these are all that there are, but for `open_to`.
    :ivar denied: those of them whom guards deny it.
    :ivar in_target: those of them who may write by the rules of the target alone.
    :ivar open_to: others, who cannot be denied it by name.
    """

    named: frozenset[str]
    denied: frozenset[str]
    in_target: frozenset[str]
    open_to: frozenset[str]

    @property
    def left(self) -> frozenset[str]:
        """Whom no guard denies it."""
        return self.named - self.denied

    @property
    def closed(self) -> bool:
        """Whether guards let one account write, which is in the target."""
        return not self.open_to and len(self.left) == 1 and self.left <= self.in_target


def writers_of(source: Collection[TopicAcl], target: Collection[TopicAcl], topic: str) -> Writers:
    """Who is denied it by a rule that is no guard counts as one who may not: with a guard of his own that rule would go
    when the guard goes."""
    here, there = others(source), others(target)
    elsewise = {rule.principal for rule in (*here, *there) if _denies_writing(rule, topic)}
    in_target = writers(there, [topic]) - elsewise
    every = in_target | (writers(here, [topic]) - elsewise)
    named = frozenset(one for one in every if one.startswith(_USER) and one != EVERYBODY)
    rules = frozenset(target)
    denied = {one.rule.principal for one in placed(target, [topic]) if rules.issuperset(one)}
    return Writers(named, named & denied, in_target & named, every - named)


def sparing(topic: str, writers: Writers, copier: str) -> list[Guard]:
    """The guards that a copy lacks to which nobody but the copier is to write."""
    return [guard(topic, one) for one in sorted(writers.left - {copier})]


def _denies_writing(rule: TopicAcl, topic: str) -> bool:
    return not rule.allows and rule.host == "*" and rule.operation in (WRITE, ALL) and covers(rule, topic)


def _marked_by(rule: TopicAcl) -> Guard | None:
    if rule.principal == MARKER:
        one = guard(rule.name)
    elif rule.principal.startswith(f"{MARKER}/"):
        one = guard(rule.name, _USER + rule.principal.removeprefix(f"{MARKER}/"))
    else:
        return None
    return one if rule == one.marker else None


def _deny(topic: str, principal: str) -> TopicAcl:
    return TopicAcl("literal", topic, principal, "*", WRITE, False)
