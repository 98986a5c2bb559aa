"""Which transactions are open on a client's connection, as far as a fence has to know.

A transaction fence lets those go on that write to what is fenced already: they could not end otherwise. A transaction
is open on the connection that took a topic in last. It may end on another one of the same gateway, since clients look
for their coordinator anew (`Holders`). What began on a connection that broke counts as not begun: then it waits behind
the fence like a new one, and the move ends by its drain timeout, as if it stayed open.
"""

from __future__ import annotations

from collections.abc import Collection
from weakref import WeakValueDictionary

from ha_core.model import View

MOST_REMEMBERED = 1_000
"""Transactional ids come from the wire."""


class OpenTransactions:
    """Transactional id → the topics that its open transaction writes to, of one connection.

    :ivar user: whose connection it is: others may have the same transactional ids, in other clusters.
    """

    def __init__(self, holders: Holders) -> None:
        self.user: str | None = None
        self._holders = holders
        self._topics: dict[str, set[bytes]] = {}
        self._kept_out: set[str] = set()

    def begun(self, transactional_id: str, topics: Collection[bytes]) -> None:
        """The coordinator has taken the topics in."""
        self._kept_out.discard(transactional_id)
        taken = {*topics, *self.topics(transactional_id)}
        self._forget(transactional_id)
        if len(self._topics) < MOST_REMEMBERED:
            self._topics[transactional_id] = taken
            self._holders[self.user, transactional_id] = self

    def ended(self, transactional_id: str) -> None:
        self._forget(transactional_id)
        self._kept_out.discard(transactional_id)

    def _forget(self, transactional_id: str) -> None:
        holder = self._holders.pop((self.user, transactional_id), self)
        holder._topics.pop(transactional_id, None)

    def kept_out(self, transactional_id: str) -> None:
        """It was refused a topic."""
        if transactional_id not in self._topics and len(self._kept_out) < MOST_REMEMBERED:
            self._kept_out.add(transactional_id)

    def never_begun(self, transactional_id: str) -> bool:
        """Whether it has nothing in any log, because it was kept out."""
        return transactional_id in self._kept_out

    def topics(self, transactional_id: str) -> tuple[bytes, ...]:
        holder = self._holders.get((self.user, transactional_id), self)
        return tuple(holder._topics.get(transactional_id, ()))

    def write_to(self, topics: frozenset[bytes]) -> bool:
        """Whether any of them writes to one of `topics`."""
        return any(not topics.isdisjoint(held) for held in self._topics.values())

    def fence_on(self, transactional_id: str, topics: Collection[bytes], view: View) -> str | None:
        """The operation whose fence keeps the transaction from taking in `topics`; None if it may."""
        for name in topics:
            topic = view.topics.get(name.decode("utf-8", "replace"))
            if topic is None:
                continue
            if topic.fence is not None:
                return topic.fence.operation
            if topic.crossing is not None:
                # What passes the cut goes to the target, whose coordinator knows nothing of the transaction.
                return topic.crossing.operation
            fence = topic.transaction_fence
            if fence is not None and not self._goes_on(transactional_id, fence.operation, view):
                return fence.operation
        return None

    def _goes_on(self, transactional_id: str, operation: str, view: View) -> bool:
        """Whether it writes already to something that the operation has put a transaction fence on."""
        held = (view.topics.get(name.decode("utf-8", "replace")) for name in self.topics(transactional_id))
        fences = (topic.transaction_fence for topic in held if topic is not None)
        return any(fence is not None and fence.operation == operation for fence in fences)


Holders = WeakValueDictionary[tuple[str | None, str], OpenTransactions]
"""Of a gateway: which connection has the open transaction of a user."""
