"""This gateway among all: what it says of itself in the store, which others live, and what it does for all of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from gateway.composed.ask import NodeAddress
from gateway.config import Config
from gateway.driver import caretaker, companion, recorder
from gateway.driver.answering import Answering, Lately
from gateway.driver.caretaker import Caretaker
from gateway.driver.peers import Peer, peer
from gateway.driver.recorder import Recorder
from gateway.driver.reports import Reports
from gateway.driver.sightings import Sightings
from gateway.nodes import NodePortError
from ha_core.model import GatewayRecord
from ha_core.store import Registration, Store, StoreError

_log = logging.getLogger(__name__)

PEERS_EVERY_S = 1.0


class Membership:
    def __init__(self, config: Config, store: Store, sightings: Sightings, record: Callable[[], GatewayRecord]) -> None:
        """:param record: what is to be said of this gateway now."""
        self._id, self._store, self._record = config.id, store, record
        self.peers: tuple[Peer, ...] = ()
        """Of the registered gateways those that answer."""
        self.listed: tuple[NodeAddress, ...] = ()
        """Gateways that clients may try when they know nobody else."""
        self.registration: Registration | None = None
        self.recorder = Recorder(recorder.order(config), config.record_facts_s, self.report)
        self.caretaker = Caretaker(companion.order(config), self.report)
        self._answering = Answering(config.id)
        self._lately = Lately()
        self._reports = Reports(sightings, self._update)

    @property
    def registered(self) -> bool:
        return self.registration is not None and self.registration.stored is not None

    async def register(self) -> None:
        self.registration = await asyncio.to_thread(self._store.register_gateway, self._record())

    def report(self) -> None:
        """Something of what is said has changed."""
        if self.registration is not None:
            self._reports.report(self._record())

    async def watch(self, allocated: Callable[[], Awaitable[None]], lease_holds: Callable[[], bool]) -> None:
        """Follows who lives, for ever.

        :param allocated: learns the nodes that others have allocated: this gateway may be named for them.
        """
        recording: str | None = None
        caring: tuple[str, ...] = ()
        while True:
            try:
                records = await asyncio.to_thread(self._store.gateways)
                registered = tuple(map(peer, records))
                caring = caretaker.elected(records)
                self.peers, recording = await self._answering.of(registered), recorder.elected(records)
                self.listed = self._lately.of(registered, asyncio.get_running_loop().time())
                await allocated()
            except (StoreError, NodePortError, OSError) as error:
                _log.warning("the last known gateways and virtual nodes stay: %s", error)
            self.recorder.want(recording == self._id and lease_holds())
            self.caretaker.want(self._id in caring)
            await asyncio.sleep(PEERS_EVERY_S)

    def close(self) -> None:
        self._reports.close()

    def _update(self, record: GatewayRecord) -> None:
        if self.registration is not None:
            self.registration.update(record)
