"""Questions of sessions to clusters whose answers all sessions of the gateway share."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable

from gateway.composed.ask import Broker, ClusterUnavailableError, Coordinator
from gateway.composed.recall import recall
from gateway.session.commands import Inquire, LookAfter, LookUp, Question
from gateway.session.open_transactions import Holders, told
from gateway.session.produce.recalled import Recalled
from gateway.session.produce.terms import Terms
from gateway.upstream.clusters import Upstream
from ha_core.model import View
from ha_core.model.producer import TERM_STRIDE, client_id
from ha_core.wire import ApiKey

_log = logging.getLogger(__name__)

INQUIRE_EVERY_S = 0.2
LOOK_AFTER_EVERY_S = 2.0
MAX_AT_ONCE = 16
"""Of each kind but inquiries; what comes beyond is asked for again."""


class Inquiries:
    """Carries them out, each no more often than is of use."""

    def __init__(
        self, upstream: Upstream, terms: Terms, recalled: Recalled, transactions: Holders, view: Callable[[], View]
    ) -> None:
        self._upstream = upstream
        self._terms = terms
        self._recalled = recalled
        self._transactions = transactions
        self._view = view
        self._asked: dict[Question, float] = {}
        self._tasks: dict[Question, asyncio.Task[None]] = {}
        self._under_way = Counter[type[Question]]()
        """Of each kind: others must not take the places of look-ups, since a retry waits for seconds."""

    def ask(self, command: Question) -> None:
        kind = type(command)
        if command in self._tasks or (kind is not Inquire and self._under_way[kind] >= MAX_AT_ONCE):
            return
        if not isinstance(command, LookUp):
            now, every_s = time.monotonic(), INQUIRE_EVERY_S if kind is Inquire else LOOK_AFTER_EVERY_S
            if now - self._asked.get(command, float("-inf")) < every_s:
                return
            if len(self._asked) > 10_000:
                self._asked.clear()
            self._asked[command] = now
        self._under_way[kind] += 1
        self._tasks[command] = task = asyncio.get_running_loop().create_task(self._work(command))
        task.add_done_callback(lambda _: self._ended(command))

    async def _work(self, command: Question) -> None:
        if isinstance(command, Inquire):
            await self._inquire(command)
        elif isinstance(command, LookUp):
            await self._look_up(command)
        else:
            await self._look_after(command)

    def _ended(self, command: Question) -> None:
        self._under_way[type(command)] -= 1
        del self._tasks[command]

    async def _inquire(self, command: Inquire) -> None:
        cluster, topic, partition = command
        leader = self._upstream.topology.leader(cluster, topic, partition)
        if leader is None:
            return
        question = {"topics": [{"name": topic, "partition_indexes": [partition]}]}
        try:
            answer = await self._upstream.ask(cluster, Broker(leader), ApiKey.DESCRIBE_PRODUCERS, question)
        except ClusterUnavailableError as error:
            _log.info("producers of %s-%d: %s", topic, partition, error)
            return
        for found in (p for t in answer["topics"] for one in t["partitions"] for p in one["active_producers"]):
            upstream = found["producer_id"]
            self._terms.opened((topic.encode(), partition), upstream // TERM_STRIDE, client_id(upstream))

    async def _look_after(self, command: LookAfter) -> None:
        name = command.transactional_id
        question = {"transactional_ids": [name]}
        target = Coordinator("transaction", name)
        try:
            answer = await self._upstream.ask(command.cluster, target, ApiKey.DESCRIBE_TRANSACTIONS, question)
        except ClusterUnavailableError as error:
            _log.info("whether transaction %s is still open: %s", name, error)
            return
        told(self._transactions, command, answer)

    async def _look_up(self, command: LookUp) -> None:
        wanted = command.wanted
        name = wanted.topic.decode("utf-8", "replace")
        topic = self._view().topics.get(name)
        if topic is None or not topic.mapped:
            return
        leader = self._upstream.topology.leader
        now = topic.written(wanted.partition).term
        stays = [extent for extent in topic.extents(wanted.partition) if extent.term < now]
        steps = recall(wanted, stays, lambda cluster: leader(cluster, name, wanted.partition))
        replies = None
        try:
            while True:
                replies = await self._upstream.ask_all(steps.send(replies))
        except StopIteration as done:
            self._recalled.learn(wanted, done.value)
        except ClusterUnavailableError as error:
            _log.info("offset of a batch that came again to %s-%d: %s", name, wanted.partition, error)
