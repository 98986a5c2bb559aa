"""The gateway process: its parts, the snapshot that all connections follow, and the host that connections call."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from gateway.composed.handlers import Context, NodeAddress
from gateway.config import Config, read_rules, read_settings
from gateway.config.rules_file import RulesFile
from gateway.follow.copies import FollowingCopies
from gateway.follow.followed_file import FollowedFile
from gateway.follow.quota_shares import Sharing
from gateway.follow.quotas import FollowingQuotas, KnownUsers
from gateway.follow.targets import Targets, leaderless_targets
from gateway.model.copies import Copies
from gateway.model.counts import Counts, api_label
from gateway.model.nodes import NodeBook, gateway_key
from gateway.model.remote_topics import NO_REMOTE_TOPICS, RemoteTopicIndex
from gateway.model.rights import Denied
from gateway.model.topology import Topology
from gateway.process import lease as leases
from gateway.process.audit import AuditLog
from gateway.process.client_changes import Changing
from gateway.process.composing import Composer, Errands
from gateway.process.deleted_records import DeletedRecordsWriter
from gateway.process.deleting_moved import DeletingMoved
from gateway.process.drains import Drains
from gateway.process.known_accounts import authentication, known_accounts
from gateway.process.last_known_topics import recall
from gateway.process.login_verification import LoginVerification
from gateway.process.membership import Membership
from gateway.process.peers import addresses
from gateway.process.producer_ids import ProducerIds
from gateway.process.shared_state_queries import SharedStateQueries
from gateway.process.sockets.clients import Clients
from gateway.process.sockets.connection import ClientConnection
from gateway.process.sockets.handshakes import Arrived
from gateway.process.sockets.splicing import Pipe
from gateway.process.usage_reporter import UsageReporter
from gateway.quotas.charges import Meters
from gateway.quotas.sharing import QuotaShares
from gateway.runtime import clock, gc_policy
from gateway.runtime.loop_lag import LoopLag
from gateway.runtime.time_sliced_sweep import TimeSlicedSweep
from gateway.session import commands
from gateway.session.commands import (
    AwaitLease,
    BrokerLane,
    Cause,
    CheckTopicExists,
    Compose,
    Delays,
    FindLeaders,
    NotServed,
    OffloadWork,
    Refresh,
    Saw,
    VerifyLogin,
    Wish,
)
from gateway.session.discovery_rates import DiscoveryRates, DiscoverySettings
from gateway.session.open_transactions import Holders
from gateway.session.produce.duplicate_offsets import DuplicateOffsets
from gateway.session.produce.producer_order import ProducerOrders
from gateway.session.produce.writer_epochs import WriterEpochs, changed_topics
from gateway.session.refusal import Refusal
from gateway.session.session import Session
from gateway.session.shared import HeldBytes, Shared
from gateway.session.snapshot import Fences, Lease, Port, Snapshot, fences
from gateway.session.transaction_writes import Written
from gateway.upstream.clusters import MAX_WAITING, Clusters
from gateway.upstream.dial import BrokerSocket
from ha_core.model import GatewayRecord, View
from ha_core.model.access import address
from ha_core.plan.access.quotas import Quotas
from ha_core.plan.access.rights import Rights
from ha_core.plan.routing.bounded_cache import CacheBudget
from ha_core.store.store import Store
from ha_core.store.tree import State
from ha_core.store.watching import StateWatcher
from ha_core.wire import APIS, RemoteProtocolError, advertised

if TYPE_CHECKING:
    from gateway.follow.platform.following import FollowingPlatform

_log = logging.getLogger(__name__)

_FAILED_LOGINS = (Cause.AUTHENTICATION_FAILED, Cause.RATE_LIMITED)

FIRST_LOOK_S = 10.0
"""Seconds for which the start waits for clusters. One that drops every packet must not keep clients of others out."""


class _Derived(NamedTuple):
    """Made of a view in the follower's thread, since it takes a walk over all of it."""

    fences: Fences
    remote_topics: RemoteTopicIndex


class Gateway:
    """Runs on one event loop; the store is called in threads only."""

    def __init__(self, config: Config, store: Store, version: str, shared: Sequence[socket.socket] = ()) -> None:
        """:param shared: of a worker: the sockets bound for all workers, of `listen` and then of `listen_discovery`."""
        self.loop = asyncio.get_running_loop()
        self.config = config
        rules, file = config.authorisation.rules, config.rules_file
        self.store = store
        self.version = version
        self._shared = iter(shared)
        self.lease = Lease()
        self.rules: FollowedFile[RulesFile] | None = None
        if rules is not None and file is not None:
            self.rules = FollowedFile(
                "access rules", file, rules, read_rules, lambda rules: self.follow_rights(rules.rights)
            )
        self.platform: FollowingPlatform | None = None
        if config.platform is not None:
            from gateway.follow.platform.following import FollowingPlatform

            self.platform = FollowingPlatform(
                config.platform,
                config.id,
                store.tree,
                self.loop,
                self.follow_rights,
                self._end_users,
                self.follow_settings,
            )
        rights = None if self.platform is None else self.platform.rights
        rights = rights if rules is None else rules.rights
        self.snapshot = Snapshot(
            View(), Topology(), tuple(advertised([])), fresh=False, zone=config.zone, rights=rights
        )
        self.audit = AuditLog()
        self.counts = Counts()
        self.loop_lag = LoopLag()
        self.fenced_since: Mapping[str, float] = {}
        """Operation that holds a fence → when this gateway saw the fence first."""
        self.writer_epochs = WriterEpochs()
        self.duplicate_offsets = DuplicateOffsets()
        self.copies = Copies()
        self._zones = config.zones_of_clients
        shares = QuotaShares(config.id)
        self.meters = Meters(shares)
        self.discovery = DiscoveryRates(config.discovery.read)
        self.settings: FollowedFile[DiscoverySettings] | None = None
        if config.settings_file is not None:
            self.settings = FollowedFile(
                "discovery settings",
                config.settings_file,
                self.discovery.settings,
                read_settings,
                self.follow_settings,
            )
        self.following_copies = FollowingCopies(
            store.follow_mirror_copies().read, self.copies, lambda: self.snapshot.view, clock.now
        )
        self.clients = Clients(self.loop, config, self.counts, self._connect)
        self.self_node: NodeAddress
        self.cluster_id = ""
        self.upstream = Clusters(
            config.profiles,
            client_id=f"switchyard-{config.id}",
            on_topology=self._topology,
            limits=config.limits.wire(),
            max_waiting=lambda cluster: self.discovery.settings.max_queued(cluster, MAX_WAITING),
        )
        self.nodes = NodeBook(
            store,
            self._bind_node,
            first_port=config.nodes.first_port,
            count=config.nodes.count,
            host=config.listen.advertised_host,
        )
        transactions = Holders()
        self.shared_state_queries = SharedStateQueries(
            self.upstream, self.writer_epochs, self.duplicate_offsets, transactions, lambda: self.snapshot.view
        )
        on_platform = (lambda _user: False) if self.platform is None else self.platform.knows
        known_users = KnownUsers(config, lambda: self.snapshot, on_platform)
        self.quotas = FollowingQuotas(store, known_users, self.meters, self.audit, self.follow_quotas)
        deletions = DeletingMoved(store, config.id, lambda: self.snapshot.view, self.upstream.refresh)
        self.changing = Changing(self.platform, self.quotas, deletions, DeletedRecordsWriter(store))
        self.composer = Composer(self.upstream, self.nodes, self.changing.carry_out)
        self.errands = Errands(self.loop)
        self._without_lease = leases.AwaitingLease[ClientConnection](self.loop, ClientConnection.lease_is_back)
        self.following = TimeSlicedSweep[ClientConnection](self.loop, self._follows)
        self._catching_up = TimeSlicedSweep[bytes](self.loop, self.writer_epochs.catch_up)
        self._viewed_last: View | None = None
        self._remote_topics = NO_REMOTE_TOPICS
        """Remote topics of the last view; used in the follower's thread."""
        self.producer_ids = ProducerIds(store.allocate_producer_ids)
        self.sightings = UsageReporter(store.record_usage)
        self.members = Membership(config, store, self.sightings, self._record)
        self.sharing = Sharing(config.id, store, self.meters, shares, lambda: len(self.members.peers), self._limited)
        self.drains = Drains(self.loop, self.members.report)
        self.targets = Targets(self.upstream, self.members.report)
        users = None if self.platform is None else self.platform.accounts
        accounts, self.jwks = known_accounts(config.authentication, None if users is None else users.find)
        self.logins = LoginVerification(self.loop, accounts)
        self.shared = Shared(
            limits=config.limits.wire(),
            authentication=authentication(config.authentication, accounts),
            lease=self.lease,
            next_producer_id=self.producer_ids.next,
            counts=self.counts,
            writer_epochs=self.writer_epochs,
            producer_orders=ProducerOrders(),
            duplicate_offsets=self.duplicate_offsets,
            nodes=self.nodes,
            transactions=transactions,
            copies=self.copies,
            zones=self._zones,
            meters=self.meters,
            discovery=self.discovery,
            held=HeldBytes(config.limits.max_held_bytes),
            remembered=CacheBudget(),
            written=Written(),
            max_in_flight=config.limits.max_in_flight_per_connection,
        )
        # Methods of `ConnectionHost` that a part provides by itself:
        self.linger = self.clients.lingering.linger
        self.unauthenticated_reads = self.clients.unauthenticated_reads
        self.holds_brokers = self.clients.brokers.holds
        self.has_room_for_broker = self.clients.has_room_for_broker
        self.pipe = Pipe()
        self.progressed = self.drains.progressed
        self.failed = asyncio.Event()
        self._bound: set[int] = set()
        self._loaded = asyncio.Event()
        self._watcher: StateWatcher | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Registers, loads the state, opens the listeners. Returns when clients are served."""
        config = self.config
        self.clients.fit_limits()
        node_id = await asyncio.to_thread(self.store.allocate_node, gateway_key(config.gateway))
        self.cluster_id = await asyncio.to_thread(self.store.cluster_id)
        self.self_node = NodeAddress(node_id, config.listen.advertised_host, config.listen.port)
        # Register before serving: operations do not wait for a gateway that they do not see.
        await self.members.register()
        self.producer_ids.refill()
        if self.jwks is not None:
            self.jwks.begin()
        self._watcher = self.store.watch(self._viewed, self._zookeeper)
        self._spawn(
            leases.keep(
                self.lease, self.store.confirm, self._current, config.zookeeper.lease_ms, self._without_lease.resume
            ),
            self.sightings.keep(),
            self.members.watch(self._learn_gateways, self.lease_holds),
            self.following_copies.keep(),
            self.members.recorder.keep(),
            self.members.caretaker.keep(),
            self.clients.sweep(),
            self.drains.keep(),
            self.loop_lag.keep(),
        )
        if self.rules is not None:
            self._spawn(self.rules.keep())
        self.quotas.begin()
        self._spawn(self.quotas.keep())
        if self.settings is not None:
            self._spawn(self.settings.keep())
        await self._loaded.wait()
        if self.platform is not None:
            await asyncio.to_thread(self.platform.begin)
            await self.platform.ready()  # Before that no user is known and nothing is allowed: serve no client.
        self._spawn(gc_policy.keep())
        with suppress(TimeoutError):
            await asyncio.wait_for(self.upstream.refresh(), FIRST_LOOK_S)
        await recall(self.upstream, self.store)
        await self.quotas.known(FIRST_LOOK_S)
        await self.sharing.begin()
        self._spawn(self.sharing.keep())
        await self._learn_gateways()
        await self.nodes.ensure(
            (name, broker) for name, topology in self.upstream.topology.clusters.items() for broker in topology.brokers
        )
        self._listen(config.listen.host, config.listen.port, Port())
        _log.info("serving clients on %s:%d", config.listen.host, config.listen.port)
        if (discovery := config.listen_discovery) is not None:
            self._listen(discovery.host, discovery.port, Port(direct=True))
            _log.info("naming real brokers to clients on %s:%d", discovery.host, discovery.port)

    def _listen(self, host: str, number: int, port: Port) -> None:
        if self.config.worker_of:
            self.clients.listeners.join(next(self._shared), port)
        else:
            self.clients.listeners.listen(host, number, port)

    async def stop(self, told_to: bool = True) -> None:
        """Accepts nothing more from clients, answers requests in flight, then ends everything.

        :param told_to: ended by a signal. A gateway that ends because of its own fault stays expected.
        """
        if told_to and await self.members.announce_leaving():
            await self.clients.release()
        await self.clients.stop()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, self.errands.close(), return_exceptions=True)
        self.members.close()
        self.targets.close()
        self.logins.close()
        self.changing.close()
        if self.platform is not None:
            await asyncio.to_thread(self.platform.close)
        if self.jwks is not None:
            self.jwks.end()
        await self.sightings.flush()
        await asyncio.to_thread(self.quotas.close)
        await self.upstream.close()
        self.pipe.close()
        if told_to:
            await self.members.leave()
        for closing in (self._watcher, self.members.registration, self.store):
            if closing is not None:
                await asyncio.to_thread(closing.close)

    @property
    def unreadable(self) -> Mapping[str, str]:
        """Path → error, for documents in ZooKeeper that this version cannot read."""
        return self._watcher.unreadable if self._watcher is not None else {}

    @property
    def unready(self) -> list[str]:
        """Reasons not to send clients to this gateway; empty when it is ready."""
        needed = (
            (self.snapshot.fresh, "the state was not loaded yet"),
            (self.platform is None or not self.platform.why, self.platform.why if self.platform else ""),
            (self.lease_holds(), "ZooKeeper has not confirmed the lease"),
            (self.clients.listeners, "no listener is open yet"),
        )
        return [why for there, why in needed if not there]

    def _spawn(self, *works: asyncio._CoroutineLike[None]) -> None:
        for work in works:
            task = self.loop.create_task(work)
            task.add_done_callback(self._ended)
            self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            # Without its lease, its peers or its usage it would serve on stale state: a visible restart is better.
            _log.critical("a background task died; the gateway ends", exc_info=task.exception())
            self.failed.set()

    def _viewed(self, view: View, _: frozenset[str]) -> None:
        """Runs in the follower's thread: walks all topics here, and passes the result to the loop."""
        before, self._viewed_last = self._viewed_last, view
        changed = changed_topics(before, view)
        leaderless = leaderless_targets(view, self.snapshot.topology, changed)
        if before is None or view.remote_topics != before.remote_topics:
            self._remote_topics = RemoteTopicIndex(view.remote_topics.values())
        derived = _Derived(fences(view), self._remote_topics)
        self.loop.call_soon_threadsafe(self._follow, view, derived, changed, leaderless)

    def _zookeeper(self, state: State) -> None:
        _log.info("ZooKeeper: %s", state)
        if state == "lost":
            # The session is lost, so operations may have gone on without this gateway already.
            self.loop.call_soon_threadsafe(self.lease.revoke)

    def _follow(
        self, view: View, derived: _Derived, changed: Sequence[str], leaderless: Mapping[str, Sequence[str]]
    ) -> None:
        started, standing = clock.now(), derived.fences
        self.upstream.apply(view.clusters)
        self._catching_up.visit_all(self.writer_epochs.follow(view, started, changed))
        if gone := self.snapshot.fences.deleted - standing.deleted:
            self.sightings.forget(gone)
            self.upstream.refresh_soon()  # else creating a topic of such a name would fail: it exists already
        self.snapshot = replace(
            self.snapshot,
            view=view,
            topology=self.upstream.topology,
            unreadable=frozenset(self.unreadable),
            fresh=True,
            fences=standing,
            still_read_here={},
            remote_topics=derived.remote_topics,
        )
        self.counts.fences.follow(standing.operations, started)
        self.fenced_since = {name: self.fenced_since.get(name, started) for name in standing.operations}
        self.drains.follow(view.revision, standing.scopes, self.clients.open)
        self.following.visit_all(self.clients.open)
        self.targets.follow(view.revision, leaderless)
        self.members.report()
        self._loaded.set()
        _log.debug("revision %d in %.1f ms", view.revision, (clock.now() - started) * 1000)

    def _topology(self, topology: Topology) -> None:
        apis = tuple(advertised(topology.apis()))
        before, self.snapshot = self.snapshot, replace(self.snapshot, topology=topology, apis=apis)
        self.following.visit_all(self.clients.open)
        if before.topology.away != topology.away:
            self.members.report()

    def follow_rights(self, rights: Rights) -> None:
        """Applies rights from each connection's next request on, and to the readers that wait."""
        self.snapshot = replace(self.snapshot, rights=rights)
        self.following.visit_all(self.clients.open)

    def entered(self, connection: ClientConnection) -> None:
        """The connection has logged in, or has changed its user."""
        self.clients.entered(connection)
        self._end_if_user_gone(connection)

    def _end_users(self, users: frozenset[str]) -> None:
        """Ends connections of users that the platform has deleted, or whose password keys are gone."""
        for connection in tuple(self.clients.open):
            if connection.session.client.auth_state.user in users:
                self._end_if_user_gone(connection)

    def _end_if_user_gone(self, connection: ClientConnection) -> None:
        accounts, who = (
            None if self.platform is None else self.platform.accounts,
            connection.session.client.auth_state.logged_in,
        )
        if accounts is not None and who is not None and not accounts.may_stay(who.user, who.mechanism):
            connection.leave(Cause.USER_GONE, "its user was deleted, or can log in so no more")

    def follow_quotas(self, quotas: Quotas | None) -> None:
        """Applies quotas from each connection's next request on, and to those that wait."""
        self.snapshot = replace(self.snapshot, quotas=quotas)
        self.following.visit_all(self.clients.open)

    def _limited(self) -> bool:
        return self.snapshot.quotas is not None

    def follow_settings(self, settings: DiscoverySettings) -> None:
        """Applies settings from the next request on."""
        self.discovery.settings = settings

    def _follows(self, connection: ClientConnection) -> None:
        connection.follow()
        self.drains.progressed(connection)

    @property
    def _rules_file(self) -> str:
        """Where users change rules, for error texts; empty if the platform has them."""
        file = self.config.rules_file
        return "" if file is None else f"{file} of gateway {self.config.id}"

    def _current(self) -> int | None:
        return self.snapshot.view.revision if self.members.registered and self.snapshot.fresh else None

    def _record(self) -> GatewayRecord:
        config, own = self.config, self.self_node
        return GatewayRecord(
            id=config.id,
            worker_of=config.worker_of,
            workers=config.workers if config.worker_of else 0,
            host=own.host,
            port=own.port,
            http=f"http://{config.http.host}:{config.http.port}",
            node_id=own.node_id,
            version=self.version,
            zone=config.zone,
            revision=self.targets.served(self.snapshot.view.revision),
            drained=self.drains.drained,
            crossings=True,
            records_facts=self.members.recorder.able,
            takes_care=self.members.caretaker.able,
            out_of_date={
                name: datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
                for name, at in sorted(self.upstream.out_of_date.items())
            },
            fence_costs=self.counts.fences.report(clock.now()),
            leaving=self.members.leaving,
            lease_ms=config.zookeeper.lease_ms,
            first_node_port=config.nodes.first_port,
            nodes=tuple(sorted(self._bound)),
        )

    async def _learn_gateways(self) -> None:
        self.clients.logins.gateways = self.members.others
        await self.nodes.start(self.snapshot.view.clusters)

    def _bind_node(self, cluster: str, broker: int, node_id: int, port: int) -> None:
        self.clients.listeners.listen(self.config.listen.host, port, Port(cluster, broker))
        self._bound.add(node_id)
        self.members.report()

    def _connect(self, client: Arrived) -> ClientConnection:
        session = Session(client.port, self.shared, self.snapshot, address(client.host))
        if client.user is not None:
            session.client.recognise(client.user)
        return ClientConnection(self, client.sock, session, client.host)

    async def open(self, lane: BrokerLane) -> BrokerSocket:
        return await self.upstream.open(lane.cluster, lane.broker)

    def lease_generation(self) -> int | None:
        """None: the lease does not hold."""
        return self.lease.generation if self.lease_holds() else None

    def lease_holds(self) -> bool:
        return self.lease.holds(clock.now())

    def connection_closed(self, connection: ClientConnection, cause: Cause, detail: str) -> None:
        self._without_lease.discard(connection)
        self.errands.gone(connection)
        self.clients.connection_closed(connection, cause, detail)
        if cause in _FAILED_LOGINS:
            self.audit.failed_login(connection.session.context.address, cause.value, detail, clock.now())
        self.drains.progressed(connection)

    def keeps(self, connection: ClientConnection, count: int) -> None:
        self.clients.keeps(connection, count)

    def fulfil(self, connection: ClientConnection, wish: Wish) -> None:
        match wish:
            case Compose():
                self.errands.start(connection, self._compose(connection, wish), APIS[wish.api_key].changes)
            case OffloadWork():
                self.errands.start(connection, self._work(connection, wish), False)
            case VerifyLogin(question):
                self.logins.ask(connection, question, connection.session.context.address)
            case AwaitLease():
                self._without_lease.add(connection)
            case Delays():
                text = (
                    f"user={connection.named} address={connection.address} asks more than {wish.per_s} times a second"
                )
                self.clients.say(f"requests answered later, limit={wish.limit}", text)
            case NotServed(api_key):
                text = f"api={api_label(api_key)} user={connection.named} address={connection.address}"
                self.clients.say("not served at the listener for discovery", text)
            case Saw():
                self.sightings.saw(wish)
            case commands.AuditDenial():
                self._audit(connection, wish.api_key, wish.denied)
            case Refresh():
                self.upstream.refresh_soon()
            case FindLeaders(cluster, topics):
                self.upstream.find_leaders_soon(cluster, topics)
            case CheckTopicExists(cluster, topic):
                self.upstream.check_exists_soon(cluster, topic)
            case _:
                self.shared_state_queries.ask(wish)

    def _audit(self, connection: ClientConnection, api_key: int, denied: Sequence[Denied]) -> None:
        address = connection.session.context.address
        self.audit.denied(connection.named, address, api_label(api_key), denied, clock.now())

    def _deny_soon(self, connection: ClientConnection, api_key: int, denied: Sequence[Denied]) -> None:
        self.loop.call_soon_threadsafe(self._deny, connection, api_key, denied)

    def _deny(self, connection: ClientConnection, api_key: int, denied: Sequence[Denied]) -> None:
        """Counts and audits the refusals in a composed answer."""
        self.counts.refusals[Refusal.DENIED.label] += len(denied)
        self._audit(connection, api_key, denied)

    async def _compose(self, connection: ClientConnection, command: Compose) -> None:
        started = clock.now()
        try:
            zone = self._zones.zone_of(connection.address)
            whose = self.config.id, command.identity, connection.address
            placing = partial(addresses, self.members.peers, *whose, zone=zone)
            body = await self.composer.compose(self._context(connection, command), command, placing)
        except RemoteProtocolError as error:
            connection.unanswerable(command.token, Cause.MALFORMED, str(error))
        except Exception:
            _log.exception("API key %d version %d could not be answered", command.api_key, command.api_version)
            connection.unanswerable(command.token, Cause.UPSTREAM_LOST, "the request could not be answered")
        else:
            connection.answered(command.token, body)
        self.counts.composed.labels(api_label(command.api_key)).observe(clock.now() - started)

    async def _work(self, connection: ClientConnection, command: OffloadWork) -> None:
        try:
            done = await self.composer.offload(connection.named, command.work)
        except RemoteProtocolError as error:
            connection.unanswerable(command.token, command.cause, str(error))
        except Exception:
            _log.exception("a long request of %r could not be worked on", connection.session)
            connection.unanswerable(command.token, Cause.FAULT, "a long request could not be worked on")
        else:
            connection.worked(command.token, done)

    def _context(self, connection: ClientConnection, command: Compose) -> Context:
        port = connection.session.context.port
        return Context(
            view=self.snapshot.view,
            topology=self.snapshot.topology,
            identity=command.identity,
            port_cluster=port.cluster,
            port_broker=port.broker,
            gateways=self.members.listed(self._zones.listed_zone(connection.address)),
            self_node=self.self_node,
            cluster_id=self.cluster_id,
            nodes=self.nodes.ids,
            direct=port.direct,
            limits=self.shared.limits,
            zone=self.config.zone,
            copies=self.copies,
            now=clock.now(),
            coordinator_release=self.members.coordinator_release,
            rights=self.snapshot.rights,
            verdicts=connection.session.client.rules,
            remote_topics=self.snapshot.remote_topics,
            quotas=self.snapshot.quotas,
            users=self.quotas.users,
            user=connection.named,
            rules_file=self._rules_file,
            deny=lambda denied: self._deny_soon(connection, command.api_key, denied),
            latest=lambda: self.snapshot.view,
        )
