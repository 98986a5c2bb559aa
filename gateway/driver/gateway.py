"""The gateway process: listeners, connections, and the state that they all follow."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from gateway import clock, cycles, descriptors
from gateway.composed.ask import Context, NodeAddress
from gateway.config import Config
from gateway.counts import Counts
from gateway.driver import caretaker, companion, stopping
from gateway.driver import lease as leases
from gateway.driver.answering import Answering, Lately
from gateway.driver.caretaker import Caretaker
from gateway.driver.composing import Composer
from gateway.driver.connection import Connection
from gateway.driver.damped import Damped
from gateway.driver.drains import Drains
from gateway.driver.errands import Errands
from gateway.driver.farewell import Farewells
from gateway.driver.inquiries import Inquiries
from gateway.driver.listeners import Listeners
from gateway.driver.peers import Peer, addresses, peer
from gateway.driver.producer_ids import ProducerIds
from gateway.driver.recorder import Recorder, elected, order
from gateway.driver.reports import Reports
from gateway.driver.rounds import Rounds
from gateway.driver.shares import Shares, share
from gateway.driver.sightings import Sightings
from gateway.driver.strangers import Strangers
from gateway.nodes import NodeBook, NodePortError, gateway_key
from gateway.session.commands import BrokerLane, Cause, Compose, Question, Saw
from gateway.session.open_transactions import Holders
from gateway.session.produce.producer_order import ProducerOrder
from gateway.session.produce.recalled import Recalled
from gateway.session.produce.terms import Terms, changed_topics
from gateway.session.session import Session
from gateway.session.settings import Authentication, Settings
from gateway.session.snapshot import Fences, Lease, Port, Snapshot, fences
from gateway.topology import Topology
from gateway.upstream.clusters import Upstream
from gateway.upstream.dial import BrokerSocket
from ha_core.model import ANONYMOUS, GatewayRecord, View
from ha_core.store import Registration, State, Store, StoreError, Watcher
from ha_core.wire import APIS, RemoteProtocolError, advertised

_log = logging.getLogger(__name__)

FIRST_LOOK_S = 10.0
"""How long the start waits for clusters: one that swallows every packet must not keep those of all others out."""
PEERS_EVERY_S = 1.0
SWEEP_EVERY_S = 1.0


class Gateway:
    """Everything on one event loop; the store is called in threads only."""

    def __init__(self, config: Config, store: Store, version: str) -> None:
        self.loop = asyncio.get_running_loop()
        self.config = config
        self.store = store
        self.version = version
        self.lease = Lease()
        self.snapshot = Snapshot(View(), Topology(), tuple(advertised([])), fresh=False)
        self.counts = Counts()
        self.terms = Terms()
        self.recalled = Recalled()
        self.connections: set[Connection] = set()
        self.ended: Counter[str] = Counter()
        self.strangers = Strangers[Connection](config.limits.max_logins, config.limits.login_ms / 1000)
        self.shares = Shares[Connection]()
        self.most_connections = config.limits.max_connections
        self.damped = Damped()
        self.listeners = Listeners(self.loop, self._has_room, self._arrived, self.damped)
        self.accepted = 0
        self.turned_away = 0
        self.peers: tuple[Peer, ...] = ()
        """Of the registered gateways those that answer."""
        self.answering = Answering(config.id)
        self.listed: tuple[NodeAddress, ...] = ()
        """Gateways that clients may try when they know nobody else."""
        self.lately = Lately()
        self.self_node: NodeAddress | None = None
        self.cluster_id = ""
        self.upstream = Upstream(
            config.profiles,
            client_id=f"switchyard-{config.id}",
            on_topology=self._topology,
            limits=config.limits.wire(),
        )
        self.nodes = NodeBook(
            store,
            self._bind_node,
            first_port=config.nodes.first_port,
            count=config.nodes.count,
            host=config.listen.advertised_host,
        )
        transactions = Holders()
        self.inquiries = Inquiries(self.upstream, self.terms, self.recalled, transactions, lambda: self.snapshot.view)
        self.composer = Composer(self.upstream, self.nodes)
        self.errands = Errands[Connection](self.loop)
        self.drains = Drains(self.loop, self._report)
        self._without_lease = leases.Waiting[Connection](self.loop, Connection.lease_is_back)
        self.following = Rounds[Connection](self.loop, self._follows)
        self._idle = Rounds[Connection](self.loop, self._end_idle)
        self._settling = Rounds[bytes](self.loop, self.terms.settle)
        self._viewed_last: View | None = None
        self.farewells = Farewells(self.loop)
        self.producer_ids = ProducerIds(store.allocate_producer_ids)
        self.sightings = Sightings(store.record_usage)
        self.reports = Reports(self.sightings, self._update_registration)
        self.recorder = Recorder(order(config), config.record_facts_s, self._report)
        self.caretaker = Caretaker(companion.order(config), self._report)
        auth = config.authentication
        self.settings = Settings(
            limits=config.limits.wire(),
            authentication=Authentication(auth.users, auth.anonymous),
            lease=self.lease,
            next_producer_id=self.producer_ids.next,
            counts=self.counts,
            terms=self.terms,
            producer_order=ProducerOrder(),
            recalled=self.recalled,
            nodes=self.nodes,
            transactions=transactions,
            max_in_flight=config.limits.max_in_flight_per_connection,
        )
        self.failed = asyncio.Event()
        self._bound: set[int] = set()
        self._loaded = asyncio.Event()
        self._registration: Registration | None = None
        self._watcher: Watcher | None = None
        self._tasks: list[asyncio.Task[None]] = []

    # -- life ---------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Registers, loads the state, opens the listeners. Returns when clients are served."""
        config = self.config
        self._know_limits()
        node_id = await asyncio.to_thread(self.store.allocate_node, gateway_key(config.id))
        self.cluster_id = await asyncio.to_thread(self.store.cluster_id)
        self.self_node = NodeAddress(node_id, config.listen.advertised_host, config.listen.port)
        # Registered first: an operation that does not see this gateway waits for nobody, so it must not serve then.
        self._registration = await asyncio.to_thread(self.store.register_gateway, self._record())
        self.producer_ids.refill()
        self._watcher = self.store.watch(self._viewed, self._zookeeper)
        lease_ms, confirm, resume = config.zookeeper.lease_ms, self.store.confirm, self._without_lease.resume
        self._spawn(leases.keep(self.lease, confirm, self._current, lease_ms, resume))
        self._spawn(self.sightings.keep())
        self._spawn(self._watch_peers())
        self._spawn(self.recorder.keep())
        self._spawn(self.caretaker.keep())
        self._spawn(self._sweep())
        self._spawn(self.drains.keep())
        await self._loaded.wait()
        self._spawn(cycles.keep())
        with suppress(TimeoutError):
            await asyncio.wait_for(self.upstream.refresh(), FIRST_LOOK_S)
        await self.nodes.start(self.snapshot.view.clusters)
        await self.nodes.ensure(
            (name, broker) for name, known in self.upstream.topology.clusters.items() for broker in known.brokers
        )
        self._listen(config.listen.host, config.listen.port, Port())
        _log.info("serving clients on %s:%d", config.listen.host, config.listen.port)

    async def stop(self) -> None:
        """Takes nothing more from clients, answers what is in flight, then ends everything."""
        self.listeners.close()
        await stopping.part(self.connections, self.farewells)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, self.errands.close(), return_exceptions=True)
        self.reports.close()
        await self.sightings.flush()
        await self.upstream.close()
        for closing in (self._watcher, self._registration, self.store):
            if closing is not None:
                await asyncio.to_thread(closing.close)

    @property
    def unreadable(self) -> Mapping[str, str]:
        """Path → why, of documents in ZooKeeper that this version cannot read."""
        return self._watcher.unreadable if self._watcher is not None else {}

    @property
    def most_per_user(self) -> int:
        auth = self.config.authentication
        said = self.config.limits.max_connections_per_user
        return share(self.most_connections, len(auth.users) + auth.anonymous) if said is None else said

    @property
    def unready(self) -> list[str]:
        """Why clients should not be sent here; empty when ready."""
        reasons = []
        if not self.snapshot.fresh:
            reasons.append("the state was not loaded yet")
        if not self.lease.holds(clock.now()):
            reasons.append("ZooKeeper has not confirmed the lease")
        if not self.listeners:
            reasons.append("no listener is open yet")
        return reasons

    def _know_limits(self) -> None:
        limit, wanted = descriptors.raised(), self.most_connections
        self.most_connections = min(wanted, descriptors.connections(limit))
        if self.most_connections < wanted:
            _log.warning(
                "this process may open %d files, so %d clients are served at once and not limits.max_connections=%d; "
                "raise its limit (ulimit -n, LimitNOFILE) to %d",
                *(limit, self.most_connections, wanted, descriptors.needed(wanted)),
            )

    def _spawn(self, work: asyncio._CoroutineLike[None]) -> None:
        task = self.loop.create_task(work)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            # Without its lease, its peers or its usage it would serve on half-blind: better a restart that is seen.
            _log.critical("a background task died; the gateway ends", exc_info=task.exception())
            self.failed.set()

    # -- state --------------------------------------------------------------------------------------------------

    def _viewed(self, view: View, _: frozenset[str]) -> None:
        """In the follower's thread: what goes through all topics is done here, the loop is told what was found."""
        before, self._viewed_last = self._viewed_last, view
        found = partial(self._follow, view, fences(view), changed_topics(before, view))
        self.loop.call_soon_threadsafe(found)

    def _zookeeper(self, state: State) -> None:
        _log.info("ZooKeeper: %s", state)
        if state == "lost":
            # Another session is another gateway: others may have gone on already.
            self.loop.call_soon_threadsafe(self.lease.revoke)

    def _follow(self, view: View, standing: Fences, changed: Sequence[str]) -> None:
        started = clock.now()
        self.upstream.apply(view.clusters)
        self._settling.begin(self.terms.follow(view, started, changed))
        unreadable = frozenset(self.unreadable)
        self.snapshot = Snapshot(view, self.upstream.topology, self.snapshot.apis, unreadable, fences=standing)
        self.drains.follow(view.revision, standing.scopes, self.connections)
        self.following.begin(self.connections)
        self._report()
        self._loaded.set()
        _log.debug("revision %d in %.1f ms", view.revision, (clock.now() - started) * 1000)

    def _topology(self, topology: Topology) -> None:
        apis = tuple(advertised(topology.apis()))
        self.snapshot = replace(self.snapshot, topology=topology, apis=apis)
        self.following.begin(self.connections)

    def _follows(self, connection: Connection) -> None:
        connection.follow()
        self.drains.progressed(connection)

    def _current(self) -> int | None:
        registered = self._registration is not None and self._registration.stored is not None
        return self.snapshot.view.revision if registered and self.snapshot.fresh else None

    def _record(self) -> GatewayRecord:
        config = self.config
        assert self.self_node is not None
        return GatewayRecord(
            id=config.id,
            host=config.listen.advertised_host,
            port=config.listen.port,
            http=f"http://{config.http.host}:{config.http.port}",
            node_id=self.self_node.node_id,
            version=self.version,
            zone=config.zone,
            revision=self.snapshot.view.revision,
            drained=self.drains.drained,
            crossings=True,
            records_facts=self.recorder.able,
            takes_care=self.caretaker.able,
            lease_ms=config.zookeeper.lease_ms,
            first_node_port=config.nodes.first_port,
            nodes=tuple(sorted(self._bound)),
        )

    def _report(self) -> None:
        if self._registration is not None:
            self.reports.report(self._record())

    def _update_registration(self, record: GatewayRecord) -> None:
        if self._registration is not None:
            self._registration.update(record)

    async def _watch_peers(self) -> None:
        recording: str | None = None
        caring: tuple[str, ...] = ()
        while True:
            try:
                records = await asyncio.to_thread(self.store.gateways)
                registered = tuple(map(peer, records))
                caring = caretaker.elected(records)
                self.peers, recording = await self.answering.of(registered), elected(records)
                self.listed = self.lately.of(registered, self.loop.time())
                # What other gateways allocated: this one may be named for it in their answers.
                await self.nodes.start(self.snapshot.view.clusters)
            except (StoreError, NodePortError, OSError) as error:
                _log.warning("the last known gateways and virtual nodes stay: %s", error)
            self.recorder.want(recording == self.config.id and self.lease_holds())
            self.caretaker.want(self.config.id in caring)
            await asyncio.sleep(PEERS_EVERY_S)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_EVERY_S)
            now = clock.now()
            for connection in self.strangers.overdue(now):
                connection.end(Cause.NOT_AUTHENTICATED, f"no login within {self.config.limits.login_ms} ms")
            for kind, count in self.damped.left_out(now):
                _log.info("%s: %d more lines of this kind were left out", kind, count)
            self._idle.begin(self.connections)

    def _end_idle(self, connection: Connection) -> None:
        idle_s = clock.now() - connection.used_at
        if idle_s > self.config.limits.idle_ms / 1000 and connection.session.idle:
            connection.end(Cause.IDLE)

    # -- listeners ----------------------------------------------------------------------------------------------

    def _bind_node(self, cluster: str, broker: int, node_id: int, port: int) -> None:
        self._listen(self.config.listen.host, port, Port(cluster, broker))
        self._bound.add(node_id)
        self._report()

    def _listen(self, host: str, port: int, place: Port) -> None:
        self.listeners.listen(host, port, place)

    def _has_room(self) -> bool:
        room, overstayed = self.strangers.room(clock.now())
        if overstayed is not None:
            overstayed.end(Cause.NOT_AUTHENTICATED, "others wait for their turn to log in")
        return room

    def _arrived(self, sock: socket.socket, place: Port, host: str) -> None:
        if len(self.connections) >= self.most_connections:
            self.turned_away += 1
            sock.close()
            return
        self.accepted += 1
        connection = Connection(self, sock, Session(place, self.settings, self.snapshot), host)
        self.connections.add(connection)
        if connection.stranger:
            self.strangers.came(connection, clock.now())
        else:
            self.entered(connection)

    # -- what connections need ----------------------------------------------------------------------------------

    async def open(self, lane: BrokerLane) -> BrokerSocket:
        """A logged-in connection to a broker."""
        return await self.upstream.open(lane.cluster, lane.broker)

    def lease_generation(self) -> int | None:
        """None: it does not hold."""
        return self.lease.generation if self.lease_holds() else None

    def await_lease(self, connection: Connection) -> None:
        self._without_lease.add(connection)

    def lease_holds(self) -> bool:
        return self.lease.holds(clock.now())

    def saw(self, command: Saw) -> None:
        self.sightings.saw(command)

    def entered(self, connection: Connection) -> None:
        self.strangers.entered(connection)
        user, most = connection.session.user or ANONYMOUS, self.most_per_user
        if not self.shares.take(connection, user, most):
            connection.leave(Cause.TOO_MANY, f"the user has {most} connections here, and may have no more")

    def refresh(self) -> None:
        for cluster in self.snapshot.view.clusters:
            self.upstream.refresh_soon(cluster)

    def inquire(self, command: Question) -> None:
        self.inquiries.ask(command)

    def farewell(self, client: socket.socket) -> None:
        self.farewells.take(client)

    def progressed(self, connection: Connection) -> None:
        self.drains.progressed(connection)

    def closed(self, connection: Connection, cause: Cause, detail: str) -> None:
        self.connections.discard(connection)
        self._without_lease.discard(connection)
        self.strangers.entered(connection)
        self.shares.give_back(connection)
        self.errands.gone(connection)
        self.ended[cause.value] += 1
        self.drains.progressed(connection)
        ordinary = cause in (Cause.CLIENT_LEFT, Cause.IDLE, Cause.SHUTDOWN)
        if not ordinary and self.damped.lets(f"closed connections, cause={cause.value}", clock.now()):
            session = connection.session
            _log.info(
                "closed a connection: cause=%s user=%s port=%s %s", cause.value, session.user, session.port, detail
            )

    def compose(self, connection: Connection, command: Compose) -> None:
        self.errands.begin(connection, self._compose(connection, command), APIS[command.api_key].changes)

    async def _compose(self, connection: Connection, command: Compose) -> None:
        body = None
        started = clock.now()
        try:
            if self.self_node is not None and self.snapshot.fresh:
                placing = partial(addresses, self.peers, self.config.id, command.identity, connection.address)
                body = await self.composer.compose(self._context(connection, command), command, placing)
        except RemoteProtocolError as error:
            connection.end(Cause.MALFORMED, str(error))
        except Exception:
            _log.exception("API key %d version %d could not be answered", command.api_key, command.api_version)
        self.counts.composed_took(command.api_key, clock.now() - started)
        connection.answered(command.token, body, clock.now())

    def _context(self, connection: Connection, command: Compose) -> Context:
        assert self.self_node is not None
        port = connection.session.port
        return Context(
            view=self.snapshot.view,
            topology=self.snapshot.topology,
            identity=command.identity,
            port_cluster=port.cluster,
            port_broker=port.broker,
            gateways=self.listed,
            self_node=self.self_node,
            cluster_id=self.cluster_id,
            nodes=self.nodes.ids,
            limits=self.settings.limits,
        )
