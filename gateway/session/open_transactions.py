"""Open transactions of a client's connection, as far as a fence needs to know them.

A transaction fence lets transactions continue that already write to fenced topics: they could not end otherwise. A
transaction counts as open on the connection that last added a topic. It may end on another connection of the same
gateway, since clients look for their coordinator again (`Holders`). If one seems to be open for long, the gateway asks
its coordinator: it may have ended through another gateway, or by its timeout.

A transaction that began on a broken connection, or through a gateway that has died, is not known here. When a fence
keeps it from adding a topic, the gateway asks its coordinator, and the client retries meanwhile. Taken for a new
transaction, it would wait for the fence, and the operation for its end. The answer counts only for the attempt that
caused the question: the transaction may have ended since, and the next one has to wait.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import count, islice
from types import MappingProxyType
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from gateway.session.commands import CheckTransactionBegan, CheckTransactionEnded
from gateway.session.request import text
from ha_core.model import View
from ha_core.plan.routing.bounded_cache import MAX_NAME
from ha_core.wire.codes import ErrorCode

MAX_REMEMBERED = 1_000
"""Limit per connection: transactional ids come from the wire."""
LONG_S = 2.0
"""Most transactions end within this time."""
MAX_CHECKS_AT_ONCE = 16
"""Limit for one connection."""
_ONGOING = "Ongoing"
"""State of a transaction whose end has not begun."""
_NONE: Mapping[str, int] = MappingProxyType({})
"""Shared by nearly all connections: an empty table each would double the memory of this module."""
_ATTEMPTS = count()


class _OpenTransaction(NamedTuple):
    topics: frozenset[bytes]
    """A new object each time, which distinguishes answers to older questions."""
    since: float
    reported: bool = False
    """Reported by the coordinator, because it began elsewhere. It may also end elsewhere, so this becomes stale."""

    def stale(self, now: float) -> bool:
        return self.reported and now - self.since >= LONG_S


class OpenTransactions:
    """Transactional id → topics that its open transaction writes to, for one connection.

    :ivar user: the connection's user: other users may have the same transactional ids.
    """

    __slots__ = ("__weakref__", "_cluster", "_holders", "_kept_out", "_open", "user")

    def __init__(self, holders: Holders, cluster: str | None) -> None:
        """:param cluster: the cluster of the connection's port."""
        self.user: str | None = None
        self._cluster, self._holders = cluster, holders
        self._open: dict[str, _OpenTransaction] = {}
        self._kept_out = _NONE
        """Transactional ids that were refused a topic → the refused attempt."""

    def begun(self, transactional_id: str, topics: Collection[bytes], now: float) -> None:
        """The coordinator has added the topics."""
        before = self._known(transactional_id)
        self._begin(transactional_id, topics, now if before is None or not before.reported else before.since, before)

    def ended(self, transactional_id: str) -> None:
        self._holders.pop(self._key(transactional_id), self)._forget(transactional_id)

    def ended_in(self, cluster: str, transactional_id: str) -> None:
        """The transaction was another cluster's."""
        holder = self._holders.pop((cluster, self.user, transactional_id), None)
        if holder is not None:
            holder._forget(transactional_id)

    def refused(self, transactional_id: str, fenced: bool, now: float) -> tuple[CheckTransactionBegan, ...]:
        """A topic was refused. If a fence refused it, returns the question to its coordinator, unless it is known
        here."""
        transaction = self._known(transactional_id)
        if transaction is not None and not (fenced and transaction.stale(now)):
            return ()
        if self._cluster is None or len(transactional_id) > MAX_NAME:
            return ()
        key = self._key(transactional_id)
        if transactional_id not in self._kept_out:
            if len(self._kept_out) >= MAX_REMEMBERED:
                return ()
            self.ended(transactional_id)  # found long ago, or refused on another connection
            self._kept_out = {**self._kept_out, transactional_id: next(_ATTEMPTS)}
            self._holders[key] = self  # this connection is to know it if it has begun
        attempt = self._kept_out[transactional_id]
        return (CheckTransactionBegan(self._cluster, self.user, transactional_id, attempt),) if fenced else ()

    def kept_out(self, transactional_id: str) -> bool:
        """True if a topic was refused and the gateway does not know that the transaction has begun."""
        return transactional_id in self._holder(transactional_id)._kept_out

    def topics(self, transactional_id: str) -> tuple[bytes, ...]:
        transaction = self._known(transactional_id)
        return () if transaction is None else tuple(transaction.topics)

    def reported_open(self, transactional_id: str, attempt: int, topics: Collection[bytes], now: float) -> None:
        """The coordinator reports that the transaction has begun."""
        if self._kept_out.get(transactional_id) == attempt:
            self._begin(transactional_id, topics, now, _OpenTransaction(frozenset(), now, reported=True))

    def write_to(self, topics: frozenset[bytes]) -> bool:
        return any(not topics.isdisjoint(each.topics) for each in self._open.values())

    def checks_for_ended(self, cluster: str, topics: frozenset[bytes], now: float) -> tuple[CheckTransactionEnded, ...]:
        """Checks of transactions that seem to have written to one of `topics` for long."""
        seen = (
            CheckTransactionEnded(cluster, self.user, name, each.topics)
            for name, each in self._open.items()
            if now - each.since >= LONG_S and not topics.isdisjoint(each.topics)
        )
        return tuple(islice(seen, MAX_CHECKS_AT_ONCE))

    def fence_on(self, transactional_id: str, topics: Collection[bytes], view: View, now: float) -> str | None:
        """The operation whose fence keeps the transaction from adding `topics`; None if it may add them."""
        transaction = self._known(transactional_id)
        names = () if transaction is None or transaction.stale(now) else transaction.topics
        written = (view.topics.get(text(name)) for name in names)
        # Operations whose transaction fence covers a topic that the transaction writes to already.
        goes_on = {topic.transaction_fence.operation for topic in written if topic and topic.transaction_fence}
        for name in topics:
            topic = view.topics.get(text(name))
            if topic is None:
                continue
            # Batches above a cut go to the target, whose coordinator does not know the transaction.
            barrier = topic.fence or topic.crossing
            if barrier is not None:
                return barrier.operation
            fence = topic.transaction_fence
            if fence is not None and fence.operation not in goes_on:
                return fence.operation
        return None

    def _begin(
        self, transactional_id: str, topics: Collection[bytes], since: float, before: _OpenTransaction | None
    ) -> None:
        taken = frozenset((*topics, *(() if before is None else before.topics)))
        self.ended(transactional_id)
        if len(self._open) < MAX_REMEMBERED:
            self._open[transactional_id] = _OpenTransaction(taken, since, before is not None and before.reported)
            self._holders[self._key(transactional_id)] = self

    def _known(self, transactional_id: str) -> _OpenTransaction | None:
        return self._holder(transactional_id)._open.get(transactional_id)

    def _key(self, transactional_id: str) -> _Key:
        return self._cluster, self.user, transactional_id

    def _holder(self, transactional_id: str) -> OpenTransactions:
        return self._holders.get(self._key(transactional_id), self)

    def _forget(self, transactional_id: str) -> None:
        self._open.pop(transactional_id, None)
        if transactional_id in self._kept_out:
            self._kept_out = {name: n for name, n in self._kept_out.items() if name != transactional_id} or _NONE


_Key = tuple[str | None, str | None, str]
"""(cluster, user, transactional id): each cluster has its own transactions."""
Holders = WeakValueDictionary[_Key, OpenTransactions]
"""Connections of a gateway by the open transaction that they hold."""


def learn_began(holders: Holders, question: CheckTransactionBegan, answer: dict[str, Any], now: float) -> None:
    """Handles the coordinator's state of a transaction that was refused a topic and is not known here."""
    name = question.transactional_id
    holder = holders.get((question.cluster, question.user, name))
    for state in answer["transaction_states"]:
        if holder is not None and not state["error_code"] and state["transaction_state"] == _ONGOING:
            holder.reported_open(name, question.attempt, [topic["topic"].encode() for topic in state["topics"]], now)


def learn_ended(holders: Holders, question: CheckTransactionEnded, answer: dict[str, Any]) -> None:
    """Handles the coordinator's state of a transaction; topics are listed until the last end marker is written."""
    holder = holders.get((question.cluster, question.user, question.transactional_id))
    transaction = holder._open.get(question.transactional_id) if holder is not None else None
    if holder is None or transaction is None or transaction.topics is not question.topics:
        return  # it has continued meanwhile, or a new one has begun
    for state in answer["transaction_states"]:
        code, listed = state["error_code"], (topic["topic"].encode() for topic in state["topics"])
        if code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND or (not code and transaction.topics.isdisjoint(listed)):
            holder.ended(question.transactional_id)
