"""Which operations are drained: nothing of what they fence, or have proposed a cut for, is in flight from before."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

from gateway.driver.connection import Connection
from ha_core.model import Fence, View


class Scope(NamedTuple):
    topics: frozenset[bytes]
    groups: frozenset[bytes]
    quiet: frozenset[bytes]
    """Topics under a transaction fence: open transactions in them are waited for, and nothing else."""


class Drains:
    """Per operation, the connections that still have something of its topics or groups in flight.

    Behind a fence nothing new is forwarded. Where a cut is proposed produce goes on, by new rules; so only what was
    forwarded before this gateway followed the revision counts. A fence that takes the place of a transaction fence of
    the same operation is drained anew.
    """

    def __init__(self, on_drained: Callable[[], None]) -> None:
        self._on_drained = on_drained
        self._scopes: dict[str, Scope] = {}
        self._since: dict[str, int] = {}
        self._waiting: dict[str, set[Connection]] = {}

    @property
    def drained(self) -> tuple[str, ...]:
        """Operations of which nothing is held back any more."""
        return tuple(sorted(operation for operation in self._scopes if not self._waiting[operation]))

    def follow(self, view: View, connections: Iterable[Connection]) -> None:
        """The sessions follow `view` already: nothing is forwarded by the old rules from here on."""
        found = _scopes(view)
        fresh = [op for op, scope in found.items() if self._scopes.get(op) != scope]
        self._scopes = found
        self._since = {op: since for op, since in self._since.items() if op in found}
        self._waiting = {op: waiting for op, waiting in self._waiting.items() if op in found}
        if fresh:
            everyone = tuple(connections)
            for op in fresh:
                self._since[op] = view.revision
                self._waiting[op] = {c for c in everyone if self._holds_back(c, op)}

    def progressed(self, connection: Connection) -> None:
        """Something of the connection was answered, or it ended."""
        for operation, waiting in self._waiting.items():
            if connection in waiting and (connection.ended or not self._holds_back(connection, operation)):
                waiting.discard(connection)
                if not waiting:
                    self._on_drained()

    def _holds_back(self, connection: Connection, operation: str) -> bool:
        scope = self._scopes[operation]
        return connection.session.holds_back(scope.topics, scope.groups, self._since[operation], scope.quiet)


def _scopes(view: View) -> dict[str, Scope]:
    found: defaultdict[str, tuple[set[bytes], ...]] = defaultdict(lambda: (set(), set(), set()))
    for topic in view.topics.values():
        holder = topic.fence
        if topic.crossing is not None and topic.crossing.state == "proposed":
            holder = holder or Fence(operation=topic.crossing.operation)
        if holder is not None:
            found[holder.operation][0].add(topic.name.encode())
        if topic.transaction_fence is not None:
            found[topic.transaction_fence.operation][2].add(topic.name.encode())
    for group in view.groups.values():
        if group.fence is not None:
            found[group.fence.operation][1].add(group.name.encode())
    return {op: Scope(*(frozenset(names) for names in scope)) for op, scope in found.items()}
