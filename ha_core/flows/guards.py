"""Guards of remote topics: access rules of the target that keep everybody but the flow's account from writing there.

MirrorMaker 2 has none: it only does not carry WRITE over, and a rule of the target's own still lets its users write. So
guards are an option. A denial for all users does not concern super users, of which the flow's account has to be one.

Next to each rule stands a marker, a rule for a user that does not exist: by it guards are told from other denials,
which stay. Mirrors have another marker, for their guards come and go with the mirror.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from ha_core.plan.facts.clusters import TopicAcl

EVERYBODY = "User:*"
MARKER = "User:switchyard-remote-topic"
_WRITE = 4


class RemoteGuard(NamedTuple):
    """Placed in this order, and removed in the opposite one: a rule without its marker would stay for good."""

    marker: TopicAcl
    rule: TopicAcl


def remote_guard(topic: str) -> RemoteGuard:
    return RemoteGuard(_deny(topic, MARKER), _deny(topic, EVERYBODY))


def missing_guards(rules: Collection[TopicAcl], topics: Iterable[str]) -> list[RemoteGuard]:
    """The guards that these topics lack. Another's denial closes a topic as well: it gets no marker, so that it stays
    when the flow ends.

    :param rules: all rules of the target.
    """
    there = frozenset(rules)
    return [guard for guard in map(remote_guard, sorted(topics)) if guard.rule not in there]


def placed_guards(rules: Iterable[TopicAcl], topics: Collection[str] | None = None) -> list[RemoteGuard]:
    """The guards that have a marker, even without the rule.

    :param topics: None: of all topics.
    """
    guards = ((rule, remote_guard(rule.name)) for rule in sorted(rules) if topics is None or rule.name in topics)
    return [guard for rule, guard in guards if rule == guard.marker]


def _deny(topic: str, principal: str) -> TopicAcl:
    return TopicAcl("literal", topic, principal, "*", _WRITE, False)
