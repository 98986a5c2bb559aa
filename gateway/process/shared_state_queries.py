"""Queries of sessions to clusters, whose answers update state that all sessions of the gateway share."""

import asyncio
import logging
import math
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from gateway.composed.ask import ClusterUnavailableError, Coordinator, Message, OneBroker
from gateway.composed.duplicate_lookup import recall
from gateway.runtime import clock
from gateway.session.commands import (
    CheckTransactionBegan,
    CheckTransactionEnded,
    FindDuplicateOffset,
    FindProducers,
    SharedStateQuery,
)
from gateway.session.open_transactions import Holders, learn_began, learn_ended
from gateway.session.produce.duplicate_offsets import DuplicateOffsets
from gateway.session.produce.writer_epochs import WriterEpochs
from gateway.upstream.clusters import Clusters
from ha_core.model import View
from ha_core.model.producer import WRITER_EPOCH_STRIDE, client_id
from ha_core.wire import ApiKey

_log = logging.getLogger(__name__)

FIND_PRODUCERS_EVERY_S = 0.2
CHECK_BEGAN_EVERY_S = 0.5
"""Clients repeat their request meanwhile."""
CHECK_ENDED_EVERY_S = 2.0
MAX_AT_ONCE = 16
"""Limit for each kind but `FindProducers`; more are dropped, and asked again by the client's retry."""


@dataclass(frozen=True)
class _QueryKind:
    work: Callable[[Any], Coroutine[Any, Any, None]]
    every_s: float
    """Least time between two equal queries."""
    at_once: float
    """Most in flight. Each kind has its own limit: a dropped query waits seconds for its client's retry."""
    under_way: dict[SharedStateQuery, asyncio.Task[None]] = field(default_factory=dict)


class SharedStateQueries:
    """Carries out the queries, each no more often than is of use."""

    def __init__(
        self,
        upstream: Clusters,
        writer_epochs: WriterEpochs,
        duplicate_offsets: DuplicateOffsets,
        transactions: Holders,
        view: Callable[[], View],
    ) -> None:
        self._upstream = upstream
        self._writer_epochs = writer_epochs
        self._duplicate_offsets = duplicate_offsets
        self._transactions = transactions
        self._view = view
        self._kinds: dict[type[SharedStateQuery], _QueryKind] = {
            FindProducers: _QueryKind(self._find_producers, FIND_PRODUCERS_EVERY_S, math.inf),
            FindDuplicateOffset: _QueryKind(self._find_duplicate_offset, 0.0, MAX_AT_ONCE),
            CheckTransactionBegan: _QueryKind(self._check_began, CHECK_BEGAN_EVERY_S, MAX_AT_ONCE),
            CheckTransactionEnded: _QueryKind(self._check_ended, CHECK_ENDED_EVERY_S, MAX_AT_ONCE),
        }
        self._asked: dict[SharedStateQuery, float] = {}

    def ask(self, command: SharedStateQuery) -> None:
        kind = self._kinds[type(command)]
        if command in kind.under_way or len(kind.under_way) >= kind.at_once:
            return
        if kind.every_s:
            now = time.monotonic()
            if now - self._asked.get(command, -math.inf) < kind.every_s:
                return
            if len(self._asked) > 10_000:
                self._asked.clear()
            self._asked[command] = now
        kind.under_way[command] = asyncio.get_running_loop().create_task(self._work(kind, command))

    async def _work(self, kind: _QueryKind, command: SharedStateQuery) -> None:
        try:
            await kind.work(command)
        except ClusterUnavailableError as error:
            _log.info("no answer to %s: %s", command, error)
        finally:
            del kind.under_way[command]

    async def _find_producers(self, command: FindProducers) -> None:
        cluster, topic, partition = command
        leader = self._upstream.topology.leader(cluster, topic, partition)
        if leader is None:
            return
        question = {"topics": [{"name": topic, "partition_indexes": [partition]}]}
        answer = await self._upstream.ask(cluster, OneBroker(leader), ApiKey.DESCRIBE_PRODUCERS, question)
        for producer in (p for t in answer["topics"] for each in t["partitions"] for p in each["active_producers"]):
            upstream = producer["producer_id"]
            self._writer_epochs.opened(
                (topic.encode(), partition), upstream // WRITER_EPOCH_STRIDE, client_id(upstream)
            )

    async def _check_began(self, command: CheckTransactionBegan) -> None:
        learn_began(self._transactions, command, await self._described(command), clock.now())

    async def _check_ended(self, command: CheckTransactionEnded) -> None:
        learn_ended(self._transactions, command, await self._described(command))

    async def _described(self, command: CheckTransactionBegan | CheckTransactionEnded) -> Message:
        name = command.transactional_id
        question, target = {"transactional_ids": [name]}, Coordinator("transaction", name)
        return await self._upstream.ask(command.cluster, target, ApiKey.DESCRIBE_TRANSACTIONS, question)

    async def _find_duplicate_offset(self, command: FindDuplicateOffset) -> None:
        wanted = command.wanted
        name = wanted.topic.decode("utf-8", "replace")
        topic = self._view().topics.get(name)
        if topic is None or not topic.mapped or topic.damaged(wanted.partition):
            return
        leader = self._upstream.topology.leader
        now = topic.written(wanted.partition).writer_epoch
        earlier_extents = [
            extent for extent in topic.extents(wanted.partition) if extent.writer_epoch < now and not extent.copied
        ]
        steps = recall(wanted, earlier_extents, lambda cluster: leader(cluster, name, wanted.partition))
        replies = None
        try:
            while True:
                replies = await self._upstream.ask_all(steps.send(replies))
        except StopIteration as done:
            self._duplicate_offsets.learn(wanted, done.value)
