"""All connections to one cluster, and what it looks like.

Invariant: while the cluster is known to be down or masked, no ask dials anything; only the one background probe does,
with growing pauses. So a dead cluster costs its callers nothing, and a masked one is left in peace.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from gateway.composed.ask import Any_, Broker, ClusterUnavailableError, Controller, Coordinator, Message, Target
from gateway.config import SecurityProfile
from gateway.links.dial import DialError, dial
from gateway.links.peer import Peer, PeerError, UnsupportedApiError
from gateway.links.survey import ALL_TOPICS, learn, parse_bootstrap
from gateway.topology import Address, ClusterTopology
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.limits import DEFAULT_LIMITS, Limits

_log = logging.getLogger(__name__)

_DIAL_MS = 3000
_SURVEY_MS = 5000
_STAGGER_S = 0.5
_FRESH_S = 30.0
_NEVER = float("-inf")
_LEAST_PAUSE_S = 0.25
_MOST_PAUSE_S = 2.0
_MOST_DIALS = 64
_MOST_COORDINATORS = 10_000

# A broker works on one request per connection at a time: one that waits for the cluster would hold up all behind it.
_SLOW = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.DELETE_RECORDS,
        ApiKey.DESCRIBE_LOG_DIRS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
    }
)
_MOVED = {
    Controller: frozenset({ErrorCode.NOT_CONTROLLER}),
    Coordinator: frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE}),
}
_LEADER_MOVED = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH})


@dataclass
class _Pause:
    """An address that could not be dialled: nobody tries again before `until` (loop time)."""

    until: float
    length_s: float
    why: str


class ClusterLink:
    """Asks a cluster on behalf of the gateway. Used on one event loop only; `close` ends its background task."""

    def __init__(
        self,
        name: str,
        bootstrap: str,
        profile: SecurityProfile,
        *,
        client_id: str,
        on_topology: Callable[[ClusterTopology], None] = lambda _: None,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.name = name
        self.topology = ClusterTopology(name)
        self.dials = 0
        self.failed_dials = 0
        self._bootstrap = parse_bootstrap(bootstrap)
        self._profile = profile
        self._client_id = client_id
        self._on_topology = on_topology
        self._limits = limits
        self._masked: str | None = None
        self._peers: dict[tuple[Address, bool], Peer] = {}
        self._pauses: dict[Address, _Pause] = {}
        self._dialling = asyncio.Semaphore(_MOST_DIALS)
        self._coordinators: OrderedDict[Coordinator, int] = OrderedDict()
        self._turn = 0
        self._surveying: asyncio.Task[None] | None = None
        self._surveyed_at = _NEVER
        self._wake = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Surveys the cluster now and then, until `close`."""
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch(), name=f"link {self.name}")

    async def close(self) -> None:
        tasks = [task for task in (self._watching, self._surveying) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._drop_peers("the gateway closes its links")

    def mask(self, reason: str | None) -> None:
        """Takes the cluster out of service (a reason) or back into it (None)."""
        if reason == self._masked:
            return
        self._masked = reason
        if reason is None:
            self._pauses.clear()
            self.refresh_soon()
        else:
            self._drop_peers("the cluster was masked")
            self._set(replace(self.topology, reachable=False, why=f"masked: {reason}"))

    def refresh_soon(self) -> None:
        """Surveys the cluster shortly; many calls make one survey."""
        self._wake.set()

    async def refresh(self) -> None:
        """Surveys the cluster and returns when `topology` shows it, reachable or not. Coalesced and rate-limited."""
        if self._surveying is None:
            self._surveying = asyncio.create_task(self._survey())
            self._surveying.add_done_callback(self._surveyed)
        await asyncio.shield(self._surveying)

    async def ask(self, target: Target, api_key: int, message: Message, timeout_ms: int = 10_000) -> Message:
        """One request to the target, tried a second time where the first went to a controller or coordinator of before.

        :raises ClusterUnavailableError: down, masked, not in time, or it does not know the API.
        """
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                if self._surveyed_at == _NEVER and self._masked is None:
                    await self.refresh()
                self._demand_reachable()
                answer = await self._try(target, api_key, message)
                if _says(answer, _MOVED.get(type(target), frozenset())):
                    await self._forget(target)
                    answer = await self._try(target, api_key, message)
        except TimeoutError:
            self._drop_silent(timeout_ms / 1000)
            self.refresh_soon()
            raise ClusterUnavailableError(self.name, f"no answer within {timeout_ms} ms") from None
        if _says(answer, _LEADER_MOVED):
            self.refresh_soon()
        if api_key == ApiKey.METADATA:
            self._set(learn(self.topology, answer, complete=False))
        return answer

    async def open(self, broker_id: int) -> socket.socket:
        """A logged-in, non-blocking socket to a broker, for a client's own upstream connection.

        :raises ClusterUnavailableError: down, masked, or the broker is unknown or refuses.
        """
        self._demand_reachable()
        address = self.topology.brokers.get(broker_id)
        if address is None:
            self.refresh_soon()
            raise ClusterUnavailableError(self.name, f"it has no broker {broker_id}")
        try:
            return await self._dial(address)
        except DialError as error:
            self.refresh_soon()
            raise ClusterUnavailableError(self.name, str(error)) from error

    def _demand_reachable(self) -> None:
        if not self.topology.reachable:
            raise ClusterUnavailableError(self.name, self.topology.why)

    async def _try(self, target: Target, api_key: int, message: Message) -> Message:
        address = await self._address(target)
        slow = api_key in _SLOW
        peer = self._peer(address, slow)
        try:
            return await peer.request(api_key, message)
        except (PeerError, DialError) as error:
            self.refresh_soon()
            raise ClusterUnavailableError(self.name, str(error)) from error
        except UnsupportedApiError as error:
            raise ClusterUnavailableError(self.name, str(error)) from error

    async def _address(self, target: Target) -> Address:
        match target:
            case Broker(broker_id):
                if broker_id not in self.topology.brokers:
                    await self.refresh()
                    self._demand_reachable()
                address = self.topology.brokers.get(broker_id)
                if address is None:
                    raise ClusterUnavailableError(self.name, f"it has no broker {broker_id}")
                return address
            case Controller():
                if self.topology.controller is None:
                    raise ClusterUnavailableError(self.name, "it has no controller at the moment")
                return await self._address(Broker(self.topology.controller))
            case Coordinator():
                return await self._address(Broker(await self._coordinator(target)))
            case Any_():
                return self._any()

    def _any(self) -> Address:
        """Round robin over the brokers that are not known to be away, connected ones first."""
        now = asyncio.get_running_loop().time()
        known = tuple(self.topology.brokers.values()) or self._bootstrap
        able = [a for a in known if (pause := self._pauses.get(a)) is None or pause.until <= now] or list(known)
        live = [a for a in able if (peer := self._peers.get((a, False))) is not None and peer.connected]
        choice = live or able
        self._turn += 1
        return choice[self._turn % len(choice)]

    async def _coordinator(self, target: Coordinator) -> int:
        known = self._coordinators.get(target)
        if known is not None:
            self._coordinators.move_to_end(target)
            return known
        request = {
            "key": target.key,
            "key_type": 0 if target.kind == "group" else 1,
            "coordinator_keys": [target.key],  # from v4 on
        }
        answer = await self._try(Any_(), ApiKey.FIND_COORDINATOR, request)
        found = answer["coordinators"][0] if answer["coordinators"] else answer
        if found["error_code"]:
            why = f"coordinator of {target.kind} {target.key}: {ErrorCode(found['error_code']).name}"
            raise ClusterUnavailableError(self.name, why)
        self._coordinators[target] = broker_id = int(found["node_id"])
        if len(self._coordinators) > _MOST_COORDINATORS:
            self._coordinators.popitem(last=False)
        return broker_id

    async def _forget(self, target: Target) -> None:
        if isinstance(target, Coordinator):
            self._coordinators.pop(target, None)
        else:
            await self.refresh()

    def _peer(self, address: Address, slow: bool) -> Peer:
        peer = self._peers.get((address, slow))
        if peer is None:
            peer = self._peers[address, slow] = Peer(lambda: self._dial(address), self._client_id, self._limits)
        return peer

    async def _dial(self, address: Address) -> socket.socket:
        loop = asyncio.get_running_loop()
        pause = self._pauses.get(address)
        if pause is not None and loop.time() < pause.until:
            raise DialError(f"{pause.why} (not tried again yet)")
        async with self._dialling:
            self.dials += 1
            try:
                sock = await dial(address, self._profile, self._client_id, _DIAL_MS)
            except DialError as error:
                self.failed_dials += 1
                length_s = min(_MOST_PAUSE_S, pause.length_s * 2 if pause else _LEAST_PAUSE_S)
                self._pauses[address] = _Pause(loop.time() + length_s, length_s, str(error))
                raise
        self._pauses.pop(address, None)
        return sock

    async def _watch(self) -> None:
        pause_s = _LEAST_PAUSE_S
        while True:
            self._wake.clear()
            if self._masked is None:
                await self.refresh()
            reachable = self.topology.reachable
            pause_s = _LEAST_PAUSE_S if reachable else min(pause_s * 2, _MOST_PAUSE_S)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_FRESH_S if reachable or self._masked is not None else pause_s):
                    await self._wake.wait()

    async def _survey(self) -> None:
        loop = asyncio.get_running_loop()
        wait_s = self._surveyed_at + _LEAST_PAUSE_S - loop.time()
        if wait_s > 0:
            await asyncio.sleep(wait_s)
        try:
            async with asyncio.timeout(_SURVEY_MS / 1000):
                answer = await self._first_answer()
            seen = learn(self.topology, answer, complete=True)
            await self._connect_all(seen)
        except TimeoutError:
            self._unreachable(f"no broker answered within {_SURVEY_MS} ms")
        except ClusterUnavailableError as error:
            self._unreachable(error.why)
        else:
            if self._masked is None:
                self._set(replace(seen, reachable=True, why="", api_versions=self._common_versions(seen)))
        finally:
            self._surveyed_at = loop.time()

    def _surveyed(self, task: asyncio.Task[None]) -> None:
        self._surveying = None
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("survey of cluster %s failed: %r", self.name, error)

    async def _first_answer(self) -> Message:
        """Metadata from the first broker that gives it; one that hangs does not hold up the next for long."""
        if self._masked is not None:
            raise ClusterUnavailableError(self.name, f"masked: {self._masked}")
        addresses = dict.fromkeys((*self.topology.brokers.values(), *self._bootstrap))
        ordered = sorted(addresses, key=lambda a: (peer := self._peers.get((a, False))) is None or not peer.connected)
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
        raise ClusterUnavailableError(self.name, why)

    async def _metadata(self, address: Address) -> Message:
        peer = self._peer(address, slow=False)
        # The survey has pauses of its own, and what it finds is what ends everyone else's.
        self._pauses.pop(address, None)
        try:
            async with asyncio.timeout(_DIAL_MS / 1000):
                return await peer.request(ApiKey.METADATA, ALL_TOPICS)
        except TimeoutError:
            why = f"{address[0]}:{address[1]}: no answer within {_DIAL_MS} ms"
            peer.close(why)
            raise PeerError(why) from None

    async def _connect_all(self, seen: ClusterTopology) -> None:
        """Learns what each broker offers, and lets go of brokers that are no more."""
        gone = [k for k in self._peers if k[0] not in seen.brokers.values()]
        for key in gone:
            self._peers.pop(key).close("the broker left the cluster, or is a bootstrap address only")
        peers = [self._peer(address, slow=False) for address in seen.brokers.values()]
        for address in seen.brokers.values():
            self._pauses.pop(address, None)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_DIAL_MS / 1000):
                await asyncio.gather(*(p.connect() for p in peers), return_exceptions=True)

    def _common_versions(self, seen: ClusterTopology) -> dict[int, tuple[int, int]]:
        offers = [
            p.api_versions for a in seen.brokers.values() if (p := self._peers.get((a, False))) and p.api_versions
        ]
        if not offers:
            return dict(self.topology.api_versions)
        common: dict[int, tuple[int, int]] = {}
        for key in set.intersection(*(set(offer) for offer in offers)):
            low, high = max(offer[key][0] for offer in offers), min(offer[key][1] for offer in offers)
            if low <= high:
                common[key] = (low, high)
        return common

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
                _log.warning("cluster %s is out of reach: %s", self.name, topology.why)
        self.topology = topology
        self._on_topology(topology)

    def _drop_silent(self, at_least_s: float) -> None:
        # What queues behind a request that hangs would hang as well.
        for peer in self._peers.values():
            if peer.silent_s() >= at_least_s * 0.9:
                peer.close(f"no answer within {at_least_s:.1f} s")

    def _drop_peers(self, why: str) -> None:
        peers, self._peers = self._peers, {}
        for peer in peers.values():
            peer.close(why)
        self._coordinators.clear()


def _says(answer: Message, codes: frozenset[ErrorCode]) -> bool:
    """Whether an answer, or anything listed in it down to the partitions, carries one of these errors."""
    if not codes:
        return False
    layer: list[Any] = [answer]
    for _ in range(3):
        if any(item.get("error_code") in codes for item in layer):
            return True
        layer = [
            item
            for holder in layer
            for value in holder.values()
            if isinstance(value, list)
            for item in value
            if isinstance(item, dict)
        ]
    return False
