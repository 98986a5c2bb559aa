"""Guards: access rules that keep other writers out of a copy, if its cluster has an authorizer.

A rule that denies WRITE to all users wins over all that allow it, and does not apply to super users. So one rule for a
copy is enough if the copier's account is a super user; any other account would be denied as well. If it is not, each
other account that may write is denied by name (`sparing`).

Next to each rule is a marker, a rule for a user that does not exist, which identifies the rule as a guard even after
its creator has died or stalled. A guard that outlives its mirror locks out writers. So the switch that makes a copy the
writer removes both, and so does a sync that finds them without a mirror.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from ha_core.plan.facts.clusters import TopicAcl
from ha_core.plan.mirror.syncing import ALL, covers, writers

EVERYBODY = "User:*"
MARKER = "User:switchyard-copy"
WRITE = 4
_USER = "User:"


class Guard(NamedTuple):
    """Created in this order, and removed in the opposite one."""

    marker: TopicAcl
    rule: TopicAcl


def guard(topic: str, principal: str = EVERYBODY) -> Guard:
    """A guard against one principal, which its marker names."""
    marker = MARKER if principal == EVERYBODY else f"{MARKER}/{principal.removeprefix(_USER)}"
    return Guard(_deny(topic, marker), _deny(topic, principal))


def guards(topics: Iterable[str]) -> frozenset[TopicAcl]:
    """The guards against all users: rules and markers."""
    return frozenset(rule for topic in topics for rule in guard(topic))


def placed(rules: Collection[TopicAcl], topics: Collection[str] | None = None) -> list[Guard]:
    """All guards that have a marker, even without the rule.

    :param topics: None: of all topics.
    """
    found = [one for rule in rules if (one := _marked_by(rule)) is not None]
    return sorted(one for one in found if topics is None or one.rule.name in topics)


def marked(rules: Collection[TopicAcl]) -> frozenset[str]:
    """Topics that have a marker, even without the rule."""
    return frozenset(one.rule.name for one in placed(rules))


def unguarded(rules: Collection[TopicAcl], topics: Iterable[str]) -> list[str]:
    """Topics that lack the guard against all users, or a part of it."""
    there = frozenset(rules)
    return sorted(topic for topic in topics if not there.issuperset(guard(topic)))


def foreign(rules: Collection[TopicAcl], topics: Iterable[str]) -> list[str]:
    """Topics with a denial for all users that is not a guard."""
    there = frozenset(rules)
    elses = (topic for topic in topics if _deny(topic, EVERYBODY) in there and guard(topic).marker not in there)
    return sorted(elses)


def others(rules: Collection[TopicAcl]) -> frozenset[TopicAcl]:
    """All rules but guards."""
    return frozenset(rules) - {rule for one in placed(rules) for rule in one}


class Writers(NamedTuple):
    """Principals that may write to a copy, or will once the rights of its source have been carried over.

    :ivar named: users with rules of their own. If a topic has any rule, brokers deny all users without one that allows
        them; so besides `open_to` there are no others.
    :ivar denied: those of `named` that guards deny.
    :ivar in_target: those of `named` that may write by the target's rules alone.
    :ivar open_to: other principals, which cannot be denied by name.
    """

    named: frozenset[str]
    denied: frozenset[str]
    in_target: frozenset[str]
    open_to: frozenset[str]

    @property
    def left(self) -> frozenset[str]:
        """Users that no guard denies."""
        return self.named - self.denied

    @property
    def one_writer(self) -> bool:
        """Whether guards leave exactly one writer, which has its right in the target."""
        return not self.open_to and len(self.left) == 1 and self.left <= self.in_target


def writers_of(source: Collection[TopicAcl], target: Collection[TopicAcl], topic: str) -> Writers:
    """A user denied by a rule that is not a guard does not count as a writer: a guard would be the same rule, and its
    removal would remove that denial."""
    here, there = others(source), others(target)
    elsewise = {rule.principal for rule in (*here, *there) if _denies_writing(rule, topic)}
    in_target = writers(there, [topic]) - elsewise
    every = in_target | (writers(here, [topic]) - elsewise)
    named = frozenset(one for one in every if one.startswith(_USER) and one != EVERYBODY)
    rules = frozenset(target)
    denied = {one.rule.principal for one in placed(target, [topic]) if rules.issuperset(one)}
    return Writers(named, named & denied, in_target & named, every - named)


def sparing(topic: str, writers: Writers, copier: str) -> list[Guard]:
    """The missing guards of a copy that only the copier is to write to."""
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
