"""All connections to one cluster, and its topology.

Invariant: while the cluster is known to be down or masked, no question dials; only the one background probe does, with
growing pauses. So a dead cluster costs its callers nothing, and a masked one gets no connections.
"""

import asyncio
import contextlib
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime

from gateway.composed.ask import AnyBroker, ClusterUnavailableError, Controller, Coordinator, Message, OneBroker, Target
from gateway.model.topology import Address, ClusterTopology
from gateway.runtime import clock
from gateway.runtime.log_rate_limiter import LogRateLimiter
from gateway.runtime.offload import heavy, offload
from gateway.upstream.broker import QUICK, BrokerConnection, BrokerLostError, HangUp, Lanes
from gateway.upstream.decoding import ALL_TOPICS, LEADER_MOVED, MOVED, has_error, learn
from gateway.upstream.dial import DIAL_MS, MAX_PAUSE_S, MIN_PAUSE_S, BrokerSocket, DialError, Dialling
from ha_core.model.cluster import parse_bootstrap
from ha_core.wire.client import UnsupportedApiError
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.limits import DEFAULT_LIMITS, WireLimits
from ha_core.wire.sasl import SecurityProfile

_log = logging.getLogger(__name__)

_ANSWER_MS = 5000
"""Time for METADATA from a connected broker."""
_SURVEY_MS = 3 * (DIAL_MS + _ANSWER_MS)
"""Covers many brokers, each with its own time."""
_CONNECT_MS = 3000
"""How long a survey waits for new connections. Dialling continues, and another survey follows."""
_STAGGER_S = 0.5
_SOON_S, _FRESH_S = 10.0, 30.0
"""Between two surveys. A broker that dies leaves the metadata after 9 s, and an alarm on it must not wait for long."""
_SURVEY_SHARE = 20
"""Up to `_FRESH_S`, a pause is so many times as long as the survey: of a large cluster it costs both sides."""
SEEK_PAUSE_S = 0.1
"""Pause between two questions for the leaders of single topics: an election takes longer than one answer."""
MAX_SOUGHT = 1000
"""Topics in one such question."""
MAX_UNKNOWN = 100
"""Topics that clients use and the gateway does not know, in one such question. Clients may make them up: more are
dropped, and the next survey shows those that exist."""
_NEVER = float("-inf")
_MAX_COORDINATORS = 10_000


class UpstreamCluster:
    """Asks a cluster on behalf of the gateway. Used on one event loop only; `close` ends its background task."""

    def __init__(
        self,
        name: str,
        bootstrap: str,
        profile: SecurityProfile,
        *,
        client_id: str,
        on_topology: Callable[[ClusterTopology], None] = lambda _: None,
        limits: WireLimits = DEFAULT_LIMITS,
    ) -> None:
        self.name = name
        self.topology = ClusterTopology(name)
        self.seen_at: float | None = None
        """When it was last seen as a whole, in seconds since 1970; None: never."""
        self._bootstrap = parse_bootstrap(bootstrap)
        self._on_topology = on_topology
        self._masked: str | None = None
        self.dialling = Dialling(profile, client_id)
        self._lanes = Lanes(self.dialling, client_id, limits, self._hung_up)
        self.hang_ups: Counter[int] = Counter()
        """Questions on which a broker closed the connection, by API key."""
        self._log_rate_limiter = LogRateLimiter(burst=1)
        self._controller: int | None = None
        """From the last survey. Not part of the topology: KRaft brokers name any broker, each time another."""
        self._learnt: tuple[object, object] = (None, None)
        """The last list of topics that was processed, and the resulting topics of the topology."""
        self._connecting: set[asyncio.Task[None]] = set()
        self._coordinators: OrderedDict[Coordinator, int] = OrderedDict()
        self._turn = 0
        self._surveying: asyncio.Task[None] | None = None
        self._sought: set[str] = set()
        """Topics whose leaders are to be looked up."""
        self._unknown: set[str] = set()
        """Topics that may not exist, looked up when no leader is sought."""
        self._seeking: asyncio.Task[None] | None = None
        self._surveyed_at = _NEVER
        self._wake = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Surveys the cluster now and then, until `close`."""
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch(), name=f"upstream {self.name}")

    async def close(self) -> None:
        tasks = [
            task for task in (self._watching, self._surveying, self._seeking, *self._connecting) if task is not None
        ]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._drop_connections("the gateway closes its connections")

    def mask(self, reason: str | None) -> None:
        """Takes the cluster out of service (a reason) or back into it (None)."""
        if reason == self._masked:
            return
        self._masked = reason
        if reason is None:
            self.dialling.forgive()
            self.refresh_soon()
        else:
            self._drop_connections("the cluster was masked")
            self._set(replace(self.topology, reachable=False, why=f"masked: {reason}"))

    def recall(self, topics: Mapping[str, int], seen_at: float) -> None:
        """Takes other gateways' knowledge, topics and their partition counts, as long as the cluster was never reached.

        No partition has a leader, so nothing is sent to the cluster; and it does not count as `known`.
        """
        if self.seen_at is None and not self.topology.ever_reached:
            self.seen_at = seen_at
            leaders = {name: dict.fromkeys(range(partitions), -1) for name, partitions in topics.items()}
            self._set(replace(self.topology, topics=leaders))
            _log.warning(
                "cluster %s: %d topics are served as they were known at %s", self.name, len(topics), _at(seen_at)
            )

    def refresh_soon(self) -> None:
        """Surveys the cluster shortly; many calls make one survey."""
        self._wake.set()

    def find_leaders_soon(self, topics: Iterable[str]) -> None:
        """Looks up the leaders of these topics shortly; topics added during one question go into the next."""
        self._sought.update(topics)
        self._begin_seeking()

    def check_exists_soon(self, topic: str) -> None:
        """Asks the cluster shortly whether this topic exists, and for its leaders."""
        if len(self._unknown) < MAX_UNKNOWN:
            self._unknown.add(topic)
            self._begin_seeking()

    def _begin_seeking(self) -> None:
        if self._seeking is None:
            self._seeking = asyncio.create_task(self._seek(), name=f"leaders in {self.name}")

    async def find_leaders(self, topics: Collection[str]) -> None:
        """Looks up the leaders of these topics. Returns when `topology` has the cluster's answer, or when there is
        none."""
        sought = list(topics)
        for at in range(0, len(sought), MAX_SOUGHT):
            names = sought[at : at + MAX_SOUGHT]
            question = {"topics": [{"name": name} for name in names], "allow_auto_topic_creation": False}
            try:
                await self.ask(AnyBroker(), ApiKey.METADATA, question, _ANSWER_MS)
            except ClusterUnavailableError as error:
                _log.info("cluster %s did not return the leaders of %s: %s", self.name, ", ".join(names[:3]), error.why)
                return

    async def refresh(self) -> None:
        """Surveys the cluster and returns when `topology` shows it, reachable or not. Coalesced and rate-limited."""
        if self._surveying is None:
            self._surveying = asyncio.create_task(self._survey())
            self._surveying.add_done_callback(self._surveyed)
        await asyncio.shield(self._surveying)

    async def ask(self, target: Target, api_key: int, message: Message, timeout_ms: int = 10_000) -> Message:
        """One request to the target, tried again if the first went to a former controller or coordinator.

        :raises ClusterUnavailableError: down, masked, not in time, or without this API.
        """
        tried: list[BrokerConnection] = []
        try:
            async with asyncio.timeout(timeout_ms / 1000) as limit:
                if self._surveyed_at == _NEVER and self._masked is None:
                    await self.refresh()
                self._demand_reachable()
                answer = await self._try(target, api_key, message, tried, limit)
                if await has_error(answer, MOVED.get(type(target), frozenset())):
                    if isinstance(target, Coordinator):
                        self._coordinators.pop(target, None)
                    else:
                        await self.refresh()
                    answer = await self._try(target, api_key, message, tried, limit)
        except TimeoutError:
            for connection in tried:  # requests that queue after one that hangs would hang as well
                if connection.unanswered_s() >= timeout_ms / 1000 * 0.9:
                    connection.close(f"no answer within {timeout_ms / 1000:.1f} s")
            self.refresh_soon()
            raise self._away(f"no answer within {timeout_ms} ms") from None
        if api_key == ApiKey.METADATA:
            self._set(await self._seen(answer, complete=False))
        elif await has_error(answer, LEADER_MOVED):
            self.refresh_soon()
        return answer

    async def open(self, broker_id: int) -> BrokerSocket:
        """A logged-in, non-blocking socket to a broker, for a client's own upstream connection.

        :raises ClusterUnavailableError: down, masked, or the broker is unknown or refuses.
        """
        self._demand_reachable()
        if broker_id not in self.topology.brokers:
            self.refresh_soon()
        try:
            return await self.dialling.for_client(self._broker(broker_id))
        except DialError as error:
            self.refresh_soon()
            raise self._away(str(error)) from error

    def _hung_up(self, address: Address, hang_up: HangUp) -> None:
        self.hang_ups[hang_up.api_key] += 1
        api = ApiKey(hang_up.api_key).name
        if self._log_rate_limiter.lets(api, clock.now()):
            text = "cluster %s: broker %s:%d closed the connection instead of answering %s; %d questions waited for it"
            _log.warning(text, self.name, *address, api, hang_up.bystanders)

    def _demand_reachable(self) -> None:
        if not self.topology.reachable:
            raise self._away(self.topology.why)

    def _away(self, why: str) -> ClusterUnavailableError:
        return ClusterUnavailableError(self.name, why)

    def _broker(self, broker_id: int) -> Address:
        if broker_id not in self.topology.brokers:
            raise self._away(f"it has no broker {broker_id}")
        return self.topology.brokers[broker_id]

    async def _try(
        self,
        target: Target,
        api_key: int,
        message: Message,
        tried: list[BrokerConnection],
        limit: asyncio.Timeout | None = None,
    ) -> Message:
        """:param tried: gets the connection that the question uses."""
        address = await self._address(target, tried)
        connection = self._lanes.connection_for(address, api_key)
        tried.append(connection)
        try:
            return await connection.request(api_key, message, limit)
        except (BrokerLostError, DialError) as error:
            self.refresh_soon()
            raise self._away(str(error)) from error
        except UnsupportedApiError as error:
            raise self._away(f"{address[0]}:{address[1]} {error}") from error

    async def _address(self, target: Target, tried: list[BrokerConnection]) -> Address:
        match target:
            case OneBroker(broker_id):
                if broker_id not in self.topology.brokers:
                    await self.refresh()
                    self._demand_reachable()
                return self._broker(broker_id)
            case Controller():
                if self._controller is None:
                    raise self._away("it has no controller at the moment")
                return await self._address(OneBroker(self._controller), tried)
            case Coordinator():
                return await self._address(OneBroker(await self._coordinator(target, tried)), tried)
            case AnyBroker():
                return self._any()

    def _any(self) -> Address:
        """Round robin over the brokers that are not known to be away, connected ones first."""
        known = tuple(self.topology.brokers.values()) or self._bootstrap
        able = [a for a in known if not self.dialling.rests(a)] or known
        choice = [a for a in able if self._lanes.connected(a)] or able
        self._turn += 1
        return choice[self._turn % len(choice)]

    async def _coordinator(self, target: Coordinator, tried: list[BrokerConnection]) -> int:
        if target in self._coordinators:
            self._coordinators.move_to_end(target)
            return self._coordinators[target]
        request = {
            "key": target.key,
            "key_type": 0 if target.kind == "group" else 1,
            "coordinator_keys": [target.key],  # from v4 on
        }
        answer = await self._try(AnyBroker(), ApiKey.FIND_COORDINATOR, request, tried)
        found = answer["coordinators"][0] if answer["coordinators"] else answer
        if found["error_code"]:
            why = f"coordinator of {target.kind} {target.key}: {ErrorCode(found['error_code']).name}"
            raise self._away(why)
        self._coordinators[target] = broker_id = int(found["node_id"])
        if len(self._coordinators) > _MAX_COORDINATORS:
            self._coordinators.popitem(last=False)
        return broker_id

    async def _watch(self) -> None:
        pause_s = MIN_PAUSE_S
        loop = asyncio.get_running_loop()
        while True:
            self._wake.clear()
            began = loop.time()
            if self._masked is None:
                await self.refresh()
            reachable = self.topology.reachable
            pause_s = MIN_PAUSE_S if reachable else min(pause_s * 2, MAX_PAUSE_S)
            next_s = _FRESH_S if self._masked is not None else pause_s
            if reachable:
                next_s = survey_pause_s(loop.time() - began)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(next_s):
                    await self._wake.wait()

    async def _seek(self) -> None:
        try:
            while self._sought or self._unknown:
                names, self._sought = self._sought, set()
                if not names:
                    names, self._unknown = self._unknown, set()
                await self.find_leaders(names)
                await asyncio.sleep(SEEK_PAUSE_S)
        finally:
            self._seeking = None

    async def _survey(self) -> None:
        loop = asyncio.get_running_loop()
        wait_s = self._surveyed_at + MIN_PAUSE_S - loop.time()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        try:
            async with asyncio.timeout(_SURVEY_MS / 1000):
                answer = await self._first_answer()
            seen = await self._seen(answer, complete=True)
            self._controller = answer["controller_id"] if answer["controller_id"] >= 0 else self._controller
            if self.topology.reachable:
                self._set(seen)  # a broker that is slow to connect must not delay the leaders
            await self._connect_all(seen)
        except TimeoutError:
            self._unreachable(f"no broker answered within {_SURVEY_MS} ms")
        except ClusterUnavailableError as error:
            self._unreachable(error.why)
        else:
            if self._masked is None:
                now = self.topology if self.topology.reachable else seen
                offered = self._lanes.common_versions(now.brokers.values()) or now.api_versions
                self.seen_at = clock.wall()
                self._set(replace(now, reachable=True, why="", api_versions=offered))
        finally:
            self._surveyed_at = loop.time()

    def _surveyed(self, task: asyncio.Task[None]) -> None:
        self._surveying = None
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("survey of cluster %s failed: %r", self.name, error)

    async def _first_answer(self) -> Message:
        """Metadata from the first broker that returns it; one that hangs does not hold up the next for long."""
        if self._masked is not None:
            raise self._away(f"masked: {self._masked}")
        addresses = dict.fromkeys((*self.topology.brokers.values(), *self._bootstrap))
        ordered = sorted(addresses, key=lambda address: not self._lanes.connected(address))
        pending: set[asyncio.Task[Message]] = set()
        why = "it has no address"
        try:
            while ordered or pending:
                if ordered:
                    pending.add(asyncio.create_task(self._metadata(ordered.pop(0))))
                done, pending = await asyncio.wait(
                    pending, timeout=_STAGGER_S if ordered else None, return_when=asyncio.FIRST_COMPLETED
                )
                for task in done:
                    if (error := task.exception()) is None:
                        return task.result()
                    why = str(error)
        finally:
            for task in pending:
                task.cancel()
        raise self._away(why)

    async def _metadata(self, address: Address) -> Message:
        connection = self._lanes.connection(address, QUICK)
        # The survey has its own pauses, and its result ends everyone else's.
        self.dialling.forgive(address)
        await connection.connect()
        try:
            async with asyncio.timeout(_ANSWER_MS / 1000) as limit:
                # Hundreds of one client's requests may wait for a slot. After them this one could time out, and a
                # broker that does answer would be taken for dead.
                return await connection.request(ApiKey.METADATA, ALL_TOPICS, limit, ahead=True)
        except TimeoutError:
            why = f"{address[0]}:{address[1]}: no answer within {_ANSWER_MS} ms"
            connection.close(why)
            raise BrokerLostError(why) from None

    async def _seen(self, metadata: Message, *, complete: bool) -> ClusterTopology:
        """The topology after a METADATA answer; a long list of topics is processed off the event loop."""
        topics = metadata["topics"]
        if self._learnt[0] is topics and self._learnt[1] is self.topology.topics:
            return learn(self.topology, {**metadata, "topics": []}, complete=False)
        while True:
            before = self.topology
            if not heavy(metadata):
                return learn(before, metadata, complete=complete)
            seen = await offload(learn, before, metadata, complete=complete)
            if self.topology is before:
                self._learnt = (topics, seen.topics) if complete else self._learnt
                return seen

    async def _connect_all(self, seen: ClusterTopology) -> None:
        """Learns the versions of each broker, and closes connections to former brokers."""
        addresses = set(seen.brokers.values())
        self._lanes.keep(addresses, "the broker left the cluster, or is a bootstrap address only")
        self.dialling.keep(addresses)
        self.dialling.forgive()
        away = [address for address in addresses if not self._lanes.connected(address)]
        tasks = {asyncio.create_task(self._connect(self._lanes.connection(a, QUICK))) for a in away}
        if tasks:
            self._connecting |= tasks
            for task in tasks:
                task.add_done_callback(self._connecting.discard)
            await asyncio.wait(tasks, timeout=_CONNECT_MS / 1000)

    async def _connect(self, connection: BrokerConnection) -> None:
        with contextlib.suppress(BrokerLostError, DialError):
            await connection.connect()
            if self._surveying is None or self._surveying.done():  # no survey has waited for it
                self.refresh_soon()

    def _unreachable(self, why: str) -> None:
        if self._masked is None:
            self._set(replace(self.topology, reachable=False, why=why))

    def _set(self, topology: ClusterTopology) -> None:
        if topology is self.topology or topology == self.topology:
            return
        if topology.reachable != self.topology.reachable:
            if topology.reachable:
                _log.info("cluster %s is reachable: %d brokers", self.name, len(topology.brokers))
            else:
                known = f"; its last known state, of {_at(self.seen_at)}, is served" if self.seen_at else ""
                _log.warning("cluster %s is out of reach: %s%s", self.name, topology.why, known)
        self.topology = topology
        self._on_topology(topology)

    def _drop_connections(self, why: str) -> None:
        self._lanes.keep((), why)
        self._coordinators.clear()


def survey_pause_s(took_s: float) -> float:
    """Pause after a survey of a cluster that answers."""
    return min(_FRESH_S, max(_SOON_S, _SURVEY_SHARE * took_s))


def _at(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
