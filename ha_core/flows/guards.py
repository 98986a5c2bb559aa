"""Guards of remote topics: access rules in the target that let only the flow's account write there.

MirrorMaker 2 has no guards: it does not carry over rules for WRITE, but rules of the target itself still let users
write. So guards are an option. A denial for all users does not apply to super users, so the flow's account must be a
super user.

Each guard has a marker, a rule for a user that does not exist. The marker tells guards from other denials, which are
never removed. The guards of mirrors have another marker, because they come and go with their mirror.
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple

from ha_core.plan.facts.clusters import TopicAcl

EVERYBODY = "User:*"
MARKER = "User:switchyard-remote-topic"
_WRITE = 4


class RemoteGuard(NamedTuple):
    """The marker is placed first and removed last: a rule without its marker would stay for ever."""

    marker: TopicAcl
    rule: TopicAcl


def remote_guard(topic: str) -> RemoteGuard:
    return RemoteGuard(_deny(topic, MARKER), _deny(topic, EVERYBODY))


def missing_guards(rules: Collection[TopicAcl], topics: Iterable[str]) -> list[RemoteGuard]:
    """The guards that these topics lack. A topic that already has such a denial from elsewhere needs no guard; the
    denial gets no marker, so that it stays when the flow ends.

    :param rules: all rules of the target.
    """
    there = frozenset(rules)
    return [guard for guard in map(remote_guard, sorted(topics)) if guard.rule not in there]


def placed_guards(rules: Iterable[TopicAcl], topics: Collection[str] | None = None) -> list[RemoteGuard]:
    """The guards whose marker exists, even if the rule is missing.

    :param topics: None: all topics.
    """
    guards = ((rule, remote_guard(rule.name)) for rule in sorted(rules) if topics is None or rule.name in topics)
    return [guard for rule, guard in guards if rule == guard.marker]


def _deny(topic: str, principal: str) -> TopicAcl:
    return TopicAcl("literal", topic, principal, "*", _WRITE, False)
