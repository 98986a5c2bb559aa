"""Which other gateways live, and which gateway's ports a client is shown.

Every gateway has a port for every virtual node. If each named its own, the address of a node would change with every
answer of another gateway, and clients close their connections when it does (librdkafka: "nodename change"). So all
gateways agree, without talking, on one gateway per client: the highest hash of client and gateway (rendezvous
hashing). When it dies, the next one in that order takes over for its clients and for nobody else's.

A client is its user, its client.id and the address that it comes from: whole fleets share the first two. Behind a pool
of translated addresses it may be shown several gateways, one after the other.

Where the client's zone is known (`gateway/model/client_zones`), gateways of that zone come first in its order: produce,
groups and fetches do not cross the line between zones, and copies that are near the gateway are near the client. Where
none of them lives the others serve it.

A worker of a gateway is one of them: all that a client sends to brokers comes to one process, which remembers what it
has refused and what is under way (`session/produce/producer_order`). At a port that workers share the kernel would
give each of a client's connections to another one.

A gateway's record in ZooKeeper outlives it by a session timeout, because operations must wait until it has stopped for
certain. Which gateway an answer names is no question of safety, so clients need not wait, and each attempt at an
address where nobody listens doubles their pause before the next (up to 10 s in librdkafka, 30 s in kafka-python).

What was asked last stays connected until the next look. So the end of a process is seen when it happens, and not up to
a second later: clients ask anew within milliseconds, and each answer that still names the dead gateway costs them.

A refused connection says that nobody listens. No answer at all may be a network's hiccup: only the second in a row
counts, and only of a gateway that has answered before: where clients' addresses do not lead from one gateway to
another (a container's port on its host) nothing is known, and all that are registered are shown.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import partial
from hashlib import blake2b

from gateway.composed.handlers import BrokerKey, NodeAddress
from gateway.upstream.broker import BrokerConnection, BrokerLostError
from gateway.upstream.decoding import Decoder
from gateway.upstream.dial import DialError, dial
from ha_core.model import GatewayRecord, Identity
from ha_core.wire.limits import DEFAULT_LIMITS
from ha_core.wire.sasl import SecurityProfile
from ha_core.wire.tls_files import TlsFiles


def weight(gateway_id: str, identity: Identity, host: str) -> bytes:
    """The gateway with the greatest one serves this client, which comes from `host`."""
    client = f"{identity.user}\0{identity.instance}\0{host}\0".encode()
    return blake2b(client + gateway_id.encode(), digest_size=8).digest()


def ranked(peers: Iterable[GatewayRecord], identity: Identity, host: str, zone: str = "") -> list[GatewayRecord]:
    """The gateways in the order in which they serve this client, which comes from `host`.

    :param zone: of the client: gateways there come first, by their weights, and the others after them; "": not known.
    """

    def order(peer: GatewayRecord) -> tuple[bool, bytes]:
        return bool(zone) and peer.zone == zone, weight(peer.id, identity, host)

    return sorted(peers, key=order, reverse=True)


def addresses(
    peers: Iterable[GatewayRecord],
    own_id: str,
    identity: Identity,
    host: str,
    own: Mapping[BrokerKey, NodeAddress],
    zone: str = "",
) -> dict[BrokerKey, NodeAddress]:
    """The nodes `own`, at the ports of the first gateway in the client's order that has bound all of them."""
    wanted = {node.node_id for node in own.values()}
    for candidate in ranked(peers, identity, host, zone):
        if candidate.id == own_id:
            break
        if wanted.issubset(candidate.nodes):
            host, first = candidate.host, candidate.first_node_port
            return {broker: NodeAddress(n.node_id, host, first + n.node_id) for broker, n in own.items()}
    return dict(own)


def own_port(peer: GatewayRecord) -> int:
    """Where nobody but this process answers: at the bootstrap port of a worker the others do, too."""
    return peer.first_node_port + peer.nodes[0] if peer.worker_of and peer.nodes else peer.port


_log = logging.getLogger(__name__)

TIMEOUT_S = 1.0
SILENCES = 2
"""So many in a row, and the gateway is taken for dead."""
BREATH_S = 0.1
"""At least so long between two looks, whatever ends: one that lives may close connections, too."""
HURRIES_S = 1.0
"""At most once in so long each brings the next look forward. Behind some addresses every connection is closed at once,
and a look asks all gateways and ZooKeeper."""
_ASKED = "nothing more is asked"
KEPT_S = 60.0
"""Longer than a restart takes. Not for ever: who asks every listed node (Java's AdminClient, for groups) gets no answer
from this one."""


class Answering:
    """Asks all gateways but its own, again and again."""

    def __init__(self, own_id: str, timeout_s: float = TIMEOUT_S, tls: TlsFiles | None = None) -> None:
        """:param tls: as a client of the others; None: they speak none."""
        self._own_id, self._timeout_s = own_id, timeout_s
        self._profile = SecurityProfile(tls=tls)
        self._silences: dict[str, int] = {}
        """How often in a row each did not answer; of those that ever have."""
        self._dead: set[str] = set()
        self._held: dict[str, BrokerConnection] = {}
        """By which each has answered last."""
        self._lost: set[str] = set()
        """Whose has ended by itself, and who has not answered since."""
        self._hurried: dict[str, float] = {}
        """When each has brought a look forward."""
        self._ended = asyncio.Event()
        """There is something to be looked at soon."""

    async def pause(self, longest_s: float) -> None:
        """Until it is time for the next look."""
        await asyncio.sleep(min(BREATH_S, longest_s))
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), longest_s - BREATH_S)
        self._ended.clear()  # here: no look follows where ZooKeeper does not say who is registered

    def close(self) -> None:
        held, self._held = self._held, {}
        for connection in held.values():
            connection.close(_ASKED)

    async def of(self, peers: Collection[GatewayRecord]) -> tuple[GatewayRecord, ...]:
        """Those that live, as far as can be told: each is asked once. The own gateway always does."""
        others = [peer for peer in peers if peer.id != self._own_id]
        found = await asyncio.gather(*(self._silence(peer) for peer in others))
        self._silences = {
            peer.id: self._silences[peer.id] + silence if silence else 0
            for peer, silence in zip(others, found, strict=True)
            if not silence or peer.id in self._silences
        }
        dead = {peer.id for peer in others if self._silences.get(peer.id, 0) >= SILENCES}
        for name in sorted(dead - self._dead):
            _log.warning("gateway %s does not answer: clients are not sent there any more", name)
        for name in sorted(self._dead - dead):
            _log.info("gateway %s answers again, or is not registered any more", name)
        self._dead = dead
        registered = {peer.id for peer in others}
        self._lost &= registered - dead
        self._hurried = {name: at for name, at in self._hurried.items() if name in registered}
        for name in self._held.keys() - registered:
            self._held.pop(name).close(_ASKED)
        return tuple(peer for peer in peers if peer.id not in dead)

    async def _silence(self, peer: GatewayRecord) -> int:
        """What is added to its silences; 0 when it has answered."""
        dialled = partial(dial, (peer.host, own_port(peer)), self._profile, self._own_id, int(1000 * self._timeout_s))
        connection = BrokerConnection(dialled, self._own_id, Decoder(DEFAULT_LIMITS))
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            async with asyncio.timeout(self._timeout_s):
                await connection.connect()  # every gateway tells its versions before any login
        except (DialError, BrokerLostError, TimeoutError) as error:
            connection.close(_ASKED)
            refused = isinstance(error.__cause__, ConnectionRefusedError)
            if not refused and loop.time() - begun < self._timeout_s / 2 and peer.id in self._lost:
                self._ended.set()  # A process that is just dying still listens for a moment.
            return SILENCES if refused else 1
        except BaseException:
            connection.close(_ASKED)
            raise
        self._hold(peer.id, connection)
        return 0

    def _hold(self, name: str, connection: BrokerConnection) -> None:
        before = self._held.pop(name, None)
        self._held[name] = connection
        self._lost.discard(name)
        connection.when_lost(partial(self._lose, name, connection))
        if before is not None:
            before.close(_ASKED)

    def _lose(self, name: str, connection: BrokerConnection) -> None:
        if self._held.get(name) is connection:
            del self._held[name]
            self._lost.add(name)
            now = asyncio.get_running_loop().time()
            if now - self._hurried.get(name, -math.inf) >= HURRIES_S:
                self._hurried[name] = now
                self._ended.set()


class Lately:
    """Gateways that were registered within the time that a restart may take: listed as nodes that lead nothing.

    A client that asked while one was away would otherwise know of the others only, and of nobody when these restart.
    """

    def __init__(self, kept_s: float = KEPT_S) -> None:
        self._kept_s = kept_s
        self._seen: dict[str, tuple[NodeAddress, str, float]] = {}
        """Gateway or worker → its address, its zone, and when it was registered last."""

    def see(self, peers: Collection[GatewayRecord], now: float) -> None:
        """:param peers: all that are registered now."""
        self._seen |= {peer.id: (NodeAddress(peer.node_id, peer.host, peer.port), peer.zone, now) for peer in peers}
        self._seen = {name: seen for name, seen in self._seen.items() if now - seen[2] <= self._kept_s}

    def listed(self, zone: str = "") -> tuple[NodeAddress, ...]:
        """The addresses of all that are registered now, or were lately; with a zone, of those there."""
        found = {address for address, where, _ in self._seen.values() if zone in ("", where)}
        return tuple(sorted(found))  # workers have one together
