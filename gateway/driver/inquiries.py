"""Questions of sessions to clusters whose answers all sessions of the gateway share."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable

from gateway.composed.ask import Broker, ClusterUnavailableError
from gateway.composed.recall import recall
from gateway.links.links import Links
from gateway.session.commands import Inquire, LookUp
from gateway.session.recalled import Recalled
from gateway.session.terms import Terms
from ha_core.model import View
from ha_core.model.producer import TERM_STRIDE, client_id
from ha_core.plan.extents import extents_of, written
from ha_core.wire import ApiKey

_log = logging.getLogger(__name__)

INQUIRE_EVERY_S = 0.2
MOST_AT_ONCE = 16
"""Look-ups; what comes beyond is asked for again by its client."""


class Inquiries:
    """Carries them out, each no more often than is of use."""

    def __init__(self, links: Links, terms: Terms, recalled: Recalled, view: Callable[[], View]) -> None:
        self._links = links
        self._terms = terms
        self._recalled = recalled
        self._view = view
        self._asked: dict[Inquire, float] = {}
        self._tasks: dict[Inquire | LookUp, asyncio.Task[None]] = {}
        self._looking = 0
        """How many of them are look-ups: the others must not take their places, since a retry waits for seconds."""

    def ask(self, command: Inquire | LookUp) -> None:
        if isinstance(command, Inquire):
            now = time.monotonic()
            if now - self._asked.get(command, float("-inf")) < INQUIRE_EVERY_S:
                return
            if len(self._asked) > 10_000:
                self._asked.clear()
            self._asked[command] = now
        if command in self._tasks or (isinstance(command, LookUp) and self._looking >= MOST_AT_ONCE):
            return
        work = self._inquire(command) if isinstance(command, Inquire) else self._look_up(command)
        self._looking += isinstance(command, LookUp)
        self._tasks[command] = task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(lambda _: self._ended(command))

    def _ended(self, command: Inquire | LookUp) -> None:
        self._looking -= isinstance(command, LookUp)
        del self._tasks[command]

    async def _inquire(self, command: Inquire) -> None:
        cluster, topic, partition = command
        leader = self._links.topology.leader(cluster, topic, partition)
        if leader is None:
            return
        question = {"topics": [{"name": topic, "partition_indexes": [partition]}]}
        try:
            answer = await self._links.ask(cluster, Broker(leader), ApiKey.DESCRIBE_PRODUCERS, question)
        except ClusterUnavailableError as error:
            _log.info("producers of %s-%d: %s", topic, partition, error)
            return
        for found in (p for t in answer["topics"] for one in t["partitions"] for p in one["active_producers"]):
            upstream = found["producer_id"]
            self._terms.opened((topic.encode(), partition), upstream // TERM_STRIDE, client_id(upstream))

    async def _look_up(self, command: LookUp) -> None:
        wanted = command.wanted
        name = wanted.topic.decode("utf-8", "replace")
        topic = self._view().topics.get(name)
        if topic is None or not topic.mapped:
            return
        leader = self._links.topology.leader
        now = written(topic, wanted.partition).term
        stays = [extent for extent in extents_of(topic, wanted.partition) if extent.term < now]
        steps = recall(wanted, stays, lambda cluster: leader(cluster, name, wanted.partition))
        replies = None
        try:
            while True:
                replies = await self._links.ask_all(steps.send(replies))  # type: ignore[arg-type]  # None starts it
        except StopIteration as done:
            self._recalled.learn(wanted, done.value)
        except ClusterUnavailableError as error:
            _log.info("offset of a batch that came again to %s-%d: %s", name, wanted.partition, error)
