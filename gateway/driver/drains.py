"""Which fences are drained: nothing of what they hold back is in flight to a broker any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gateway.driver.connection import Connection
from ha_core.model import View


class Drains:
    """Per operation, the connections that still have something of its topics or groups in flight."""

    def __init__(self, on_drained: Callable[[], None]) -> None:
        self._on_drained = on_drained
        self._fences: dict[str, tuple[frozenset[bytes], frozenset[bytes]]] = {}
        self._waiting: dict[str, set[Connection]] = {}

    @property
    def drained(self) -> tuple[str, ...]:
        """Operations whose fence stands and holds nothing back any more."""
        return tuple(sorted(operation for operation in self._fences if not self._waiting[operation]))

    def follow(self, view: View, connections: Iterable[Connection]) -> None:
        """The sessions follow `view` already: nothing fenced is forwarded from here on."""
        fences: dict[str, tuple[set[bytes], set[bytes]]] = {}
        for topic in view.topics.values():
            if topic.fence is not None:
                fences.setdefault(topic.fence.operation, (set(), set()))[0].add(topic.name.encode())
        for group in view.groups.values():
            if group.fence is not None:
                fences.setdefault(group.fence.operation, (set(), set()))[1].add(group.name.encode())
        found = {op: (frozenset(topics), frozenset(groups)) for op, (topics, groups) in fences.items()}
        fresh = {op: scope for op, scope in found.items() if self._fences.get(op) != scope}
        self._fences = found
        self._waiting = {op: waiting for op, waiting in self._waiting.items() if op in found}
        if fresh:
            everyone = tuple(connections)
            for op, scope in fresh.items():
                self._waiting[op] = {c for c in everyone if c.session.holds_back(*scope)}

    def progressed(self, connection: Connection) -> None:
        """Something of the connection was answered, or it ended."""
        for operation, waiting in self._waiting.items():
            if connection in waiting and (
                connection.ended or not connection.session.holds_back(*self._fences[operation])
            ):
                waiting.discard(connection)
                if not waiting:
                    self._on_drained()
