"""Chooses what `user:NAME+#TOPIC` switches: instances of the user, or the whole user.

An instance can move alone only if its client id is the same after each start: otherwise its binding matches no client.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ha_core.model import Scope, Usage, UserBindings
from ha_core.plan.access.usage_age import by_instance, churning
from ha_core.plan.facts.verdict import listed


class Chosen(NamedTuple):
    scope: Scope
    reason: str


def choose(bindings: UserBindings, topic: str, usage: Mapping[str, Usage], now: str) -> Chosen:
    """The instances of a user that use `topic`, seen or declared, else the user.

    All of these instances move: the topic has one writer, so it moves with each client that uses it. A client that no
    binding of an instance can match would stay, so then the whole user moves.

    :param bindings: of the user; may be empty.
    :param usage: user → its uses that count.
    :param now: UTC, ISO 8601.
    """
    user = bindings.user
    used = by_instance({user: usage.get(user) or Usage(user=user)}, {user: bindings})
    uses = used[user].topics.get(topic, ())
    instances = tuple(sorted({use.instance for use in uses}))
    if not uses:
        why = f"no instance of {user} is known to use {topic}"
    elif not instances[0]:
        why = f"clients of {user} that use {topic} have no client id, or the use was declared without one"
    elif anew := sorted(one.family for one in churning(used, now) if one.thing == f"topic {topic}"):
        why = f"{user} uses {topic} with client ids that change at each start ({listed(anew)})"
    else:
        names = listed(f"{user}+{instance}" for instance in instances)
        pairs = tuple((user, instance) for instance in instances)
        return Chosen(Scope(instances=pairs), f"{topic} is used by {names}, and by no other instance of {user}")
    return Chosen(Scope(users=(user,)), f"{why}, so the whole user moves")
