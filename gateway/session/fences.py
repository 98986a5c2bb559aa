"""What of a view stands in somebody's way: found once for all sessions, since it concerns few of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import NamedTuple

from ha_core.model import Fence, View


class Scope(NamedTuple):
    """What an operation waits for."""

    topics: frozenset[bytes]
    groups: frozenset[bytes]
    quiet: frozenset[bytes]
    """Topics under a transaction fence: open transactions in them are waited for, and nothing else."""


class Fences(NamedTuple):
    operations: frozenset[str] = frozenset()
    """Whose fence stands somewhere."""
    topics: frozenset[bytes] = frozenset()
    """Under a fence, or with a cut ahead."""
    scopes: Mapping[str, Scope] = {}
    """By operation: what it has fenced, or proposed a cut for."""


def fences(view: View) -> Fences:
    """Goes through all topics and groups: not for the event loop, where there are many."""
    operations: set[str] = set()
    topics: set[bytes] = set()
    scopes: defaultdict[str, tuple[set[bytes], ...]] = defaultdict(lambda: (set(), set(), set()))
    for topic in view.topics.values():
        fence, transactions, crossing = topic.fence, topic.transaction_fence, topic.crossing
        if fence is None and transactions is None and crossing is None:
            continue
        name = topic.name.encode()
        standing = fence or transactions
        if standing is not None:
            operations.add(standing.operation)
        if fence is not None or crossing is not None:
            topics.add(name)
        holder = fence
        if crossing is not None and crossing.state == "proposed":
            holder = holder or Fence(operation=crossing.operation)
        if holder is not None:
            scopes[holder.operation][0].add(name)
        if transactions is not None:
            scopes[transactions.operation][2].add(name)
    for group in view.groups.values():
        if group.fence is not None:
            operations.add(group.fence.operation)
            scopes[group.fence.operation][1].add(group.name.encode())
    found = {op: Scope(*(frozenset(names) for names in scope)) for op, scope in scopes.items()}
    return Fences(frozenset(operations), frozenset(topics), found)
