"""Knows this worker's shares of flows (`ha_core.flows.sharing`)."""

import logging
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Protocol, Self

from ha_core.flows.sharing import SHARES, shares_of
from ha_core.model import FlowWorker
from ha_core.store.errors import StoreError
from ha_core.store.remote_topics import FlowTopics
from ha_core.store.store import Store

log = logging.getLogger(__name__)
_LOOK_S = 1.0
_JOIN_S, _JOIN_PAUSE_S = 5.0, 0.05
_FOLLOW_S = 3.0
"""Seconds to wait for gateways. A gateway that is down or hangs must not keep a flow from copying."""


class FlowMembership(Protocol):
    """:ivar alone: whether this worker knows no others. Then only an unknown process can take over a partition."""

    alone: bool

    def join(self, flow: str) -> None:
        """Begin to share this flow.

        :param flow: the flow's name and the ids of both clusters, since another file may give its aliases to other
            clusters.
        """

    def leave(self, flow: str) -> None: ...

    def shares(self, flow: str) -> frozenset[int]:
        """This worker's shares, as of the last look at ZooKeeper."""

    def shares_now(self, flow: str) -> frozenset[int]:
        """Ask ZooKeeper for this worker's shares.

        :raises StoreError: ZooKeeper cannot be asked.
        """

    def report(self, states: Mapping[str, Mapping[str, object]]) -> None:
        """Publish the states of the flows, by flow name."""

    def claim(self, topics: FlowTopics) -> None:
        """Make gateways keep clients from writing to these topics.

        :raises StoreError: ZooKeeper cannot be asked.
        """


class OnlyWorker:
    """A worker without ZooKeeper: it owns all shares."""

    alone = True

    def join(self, flow: str) -> None:
        pass

    def leave(self, flow: str) -> None:
        pass

    def shares(self, flow: str) -> frozenset[int]:
        return frozenset(range(SHARES))

    def shares_now(self, flow: str) -> frozenset[int]:
        return self.shares(flow)

    def report(self, states: Mapping[str, Mapping[str, object]]) -> None:
        pass

    def claim(self, topics: FlowTopics) -> None:
        """Does nothing: without ZooKeeper there are no gateways."""


class SharingWorker:
    """One of several workers, which know each other by ZooKeeper. While ZooKeeper is unreachable, each worker keeps its
    shares."""

    alone = False

    def __init__(self, store: Store, worker: FlowWorker) -> None:
        """
        :raises AlreadyRegisteredError: another worker has this id.
        :raises StoreError: ZooKeeper does not answer.
        """
        self._store, self._worker = store, worker
        self._registration = store.register(worker)
        self._guard = threading.Lock()
        self._workers: list[FlowWorker] = []
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="flow-workers", daemon=True)

    def __enter__(self) -> Self:
        self._look()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join()
        self._registration.close()

    def join(self, flow: str) -> None:
        """Join a flow. Returns once ZooKeeper shows this worker as a member; if ZooKeeper is slow, after 5 s, with no
        share yet."""
        self._update(flows=tuple(sorted({*self._worker.flows, flow})))
        deadline = time.monotonic() + _JOIN_S
        while time.monotonic() < deadline:
            with suppress(StoreError):
                self._look()
            if self._worker.id in self._of(flow, self._workers):
                return
            time.sleep(_JOIN_PAUSE_S)

    def leave(self, flow: str) -> None:
        self._update(flows=tuple(one for one in self._worker.flows if one != flow))

    def shares(self, flow: str) -> frozenset[int]:
        return shares_of(flow, self._worker.id, self._of(flow, self._workers))

    def shares_now(self, flow: str) -> frozenset[int]:
        # `held` asks ZooKeeper's leader; later reads over the same session are no older.
        if not self._registration.held():
            return frozenset()
        return shares_of(flow, self._worker.id, self._of(flow, self._store.flow_workers()))

    def report(self, states: Mapping[str, Mapping[str, object]]) -> None:
        self._update(states={name: dict(state) for name, state in states.items()})

    def claim(self, topics: FlowTopics) -> None:
        revision = self._store.write_remote_topics(topics)
        deadline = time.monotonic() + _FOLLOW_S
        while behind := [one.id for one in self._store.gateways() if one.revision < revision]:
            if time.monotonic() > deadline:
                log.warning("%s: these gateways do not know its new topics yet: %s", topics.flow.name, behind)
                return
            time.sleep(_JOIN_PAUSE_S)

    def _of(self, flow: str, workers: list[FlowWorker]) -> list[str]:
        return [worker.id for worker in workers if flow in worker.flows]

    def _update(self, **changes: object) -> None:
        with self._guard:
            self._worker = self._worker.changed(**changes)
            self._registration.update(self._worker)

    def _run(self) -> None:
        trouble = ""
        while not self._ending.wait(_LOOK_S):
            try:
                self._look()
                trouble = ""
            except StoreError as error:
                if str(error) != trouble:
                    log.warning("flows keep their shares while ZooKeeper cannot be asked: %s", error)
                trouble = str(error)

    def _look(self) -> None:
        self._workers = self._store.flow_workers()
