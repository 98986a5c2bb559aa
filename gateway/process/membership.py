"""This gateway's record, the other live gateways, and the helper processes that it may be elected to run.

Invariant: a report of a revision is stored only when every use that clients made before it is stored, too. So an
operation that has waited for the report knows what this gateway knew (see `ha_core/operations`).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime

from gateway.composed.coordinator_release import CoordinatorRelease
from gateway.composed.handlers import NodeAddress
from gateway.config import Config
from gateway.model.nodes import NodePortError
from gateway.process.helper_processes import OrphanRecoveryProcess, RecorderProcess
from gateway.process.peers import Answering, Lately
from gateway.process.usage_reporter import FLUSH_S, UsageReporter
from gateway.runtime import clock
from ha_core.model import ExpectedGateway, GatewayRecord
from ha_core.store.errors import StoreError
from ha_core.store.gateways import Registration
from ha_core.store.store import Store


class Reports:
    """Stores the newest record; one that waits for usage never replaces a newer one."""

    def __init__(self, sightings: UsageReporter, update: Callable[[GatewayRecord], None]) -> None:
        self._sightings = sightings
        self._update = update
        self._made = 0
        self._given = 0
        self._waiting: set[asyncio.Task[None]] = set()

    def report(self, record: GatewayRecord) -> None:
        self._made += 1
        if self._sightings.pending:
            task = asyncio.get_running_loop().create_task(self._later(record, self._made))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)
        else:
            self._give(record, self._made)

    def close(self) -> None:
        for task in self._waiting:
            task.cancel()

    async def _later(self, record: GatewayRecord, number: int) -> None:
        while not await self._sightings.flush():
            if number < self._made:
                return
            await asyncio.sleep(FLUSH_S)
        self._give(record, number)

    def _give(self, record: GatewayRecord, number: int) -> None:
        if number > self._given:
            self._given = number
            self._update(record)


_log = logging.getLogger(__name__)

PEERS_EVERY_S = 1.0
LEAVE_S = PEERS_EVERY_S + 0.5
"""Time for the other gateways to see that this one leaves: they look every `PEERS_EVERY_S`."""
RETRY_S = 0.2


class Membership:
    def __init__(
        self, config: Config, store: Store, sightings: UsageReporter, record: Callable[[], GatewayRecord]
    ) -> None:
        """:param record: makes this gateway's current record."""
        self._id, self._store, self._record = config.id, store, record
        self._session_s = config.zookeeper.session_timeout_ms / 1000
        self.others = 0
        """Number of other registered gateways."""
        self.peers: tuple[GatewayRecord, ...] = ()
        """The registered gateways that answer and do not leave: clients are sent to them."""
        self.leaving = False
        self.registration: Registration[GatewayRecord] | None = None
        self.recorder = RecorderProcess(config, self.report)
        self.caretaker = OrphanRecoveryProcess(config, self.report)
        self._answering = Answering(config.id, tls=config.tls.peers if config.tls is not None else None)
        self._lately = Lately()
        self.coordinator_release = CoordinatorRelease()
        self._reports = Reports(sightings, self._update)

    @property
    def registered(self) -> bool:
        return self.registration is not None and self.registration.stored is not None

    async def register(self) -> None:
        """:raises AlreadyRegisteredError: another process has this name."""
        record, started = self._record(), clock.now()
        patience_s = 1.5 * self._session_s  # until the session of a dead predecessor has expired
        while self._namesake(record, await asyncio.to_thread(self._store.gateways)) is not None:
            if clock.now() - started > patience_s:
                break
            await asyncio.sleep(RETRY_S)
        self.registration = await asyncio.to_thread(self._store.register_gateway, record)
        # Read again: of two gateways that start at once, at least the later one sees the other.
        other = self._namesake(record, await asyncio.to_thread(self._store.gateways))
        if other is not None:
            raise StoreError(
                f"gateway {record.gateway} is registered as {other.id} and not as {record.id}, still after "
                f"{clock.now() - started:.1f} s: another process runs under this name; give each its own"
            )
        since = datetime.fromtimestamp(clock.wall(), UTC).isoformat(timespec="seconds")
        expected = ExpectedGateway(gateway=record.gateway, host=record.host, port=record.port, since=since)
        await asyncio.to_thread(self._store.expect_gateway, expected)

    async def announce_leaving(self) -> bool:
        """Before clients' connections are closed: no gateway sends clients to this one any more.

        :return: whether other gateways serve them; False at once if all leave together.
        """
        others = tuple(peer for peer in self.peers if peer.id != self._id)
        if not self.registered or not others:
            return False
        self.leaving, self.peers = True, others
        self.report()
        until = clock.now() + LEAVE_S
        while clock.now() < until and self.peers:  # noqa: ASYNC110 - `watch` changes it
            await asyncio.sleep(RETRY_S)
        return bool(self.peers)

    async def leave(self) -> None:
        """Says goodbye, since it ends by request: it is not expected any more, unless it is declared by name.

        Its record is removed later, so `switchyard status --check` never misses a gateway that stops in order.
        """
        if self.registration is None:
            return
        try:
            now = datetime.fromtimestamp(clock.wall(), UTC).isoformat(timespec="seconds")
            await asyncio.to_thread(self._store.gateway_stopped, self._record().gateway, now)
        except StoreError as error:
            _log.warning("`switchyard status --check` will miss this gateway: %s", error)

    @staticmethod
    def _namesake(own: GatewayRecord, records: Iterable[GatewayRecord]) -> GatewayRecord | None:
        """A gateway of this name that has workers where this one has none, or the reverse."""
        return next(
            (record for record in records if record.gateway == own.gateway and record.worker_of != own.worker_of), None
        )

    def listed(self, zone: str) -> tuple[NodeAddress, ...]:
        """Bootstrap addresses of a zone's gateways; of all gateways if none of the zone lives."""
        return self._lately.listed(zone if any(peer.zone == zone for peer in self.peers) else "")

    def report(self) -> None:
        if self.registration is not None:
            self._reports.report(self._record())

    async def watch(self, looked: Callable[[], Awaitable[None]], lease_holds: Callable[[], bool]) -> None:
        """Follows which gateways live; never returns.

        :param looked: called after each round: takes over the nodes that other gateways have allocated, which this
            gateway may be named for, and the number of gateways.
        """
        records: list[GatewayRecord] = []
        while True:
            try:
                records = await asyncio.to_thread(self._store.gateways)
                self.others = sum(record.id != self._id for record in records)
                answering = await self._answering.of(records)
                before, self.peers = self.peers, tuple(peer for peer in answering if not peer.leaving)
                if {peer.id for peer in before} - {peer.id for peer in self.peers}:
                    self.coordinator_release.gone(clock.now())
                self._lately.see(records, asyncio.get_running_loop().time())
                await looked()
            except (StoreError, NodePortError, OSError) as error:
                _log.warning("the last known gateways and virtual nodes stay: %s", error)
            self.recorder.want(self._id in self.recorder.elected(records) and lease_holds())
            self.caretaker.want(self._id in self.caretaker.elected(records))
            await self._answering.pause(PEERS_EVERY_S)

    def close(self) -> None:
        self._answering.close()
        self._reports.close()

    def _update(self, record: GatewayRecord) -> None:
        if self.registration is not None:
            self.registration.update(record)
