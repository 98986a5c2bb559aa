"""The other live gateways, and the gateway whose ports a client is shown.

Every gateway has a port for every virtual node. If each named its own, the address of a node would change with every
answer of another gateway, and clients close their connections when it does (librdkafka: "nodename change"). So all
gateways choose the same gateway for a client, without communication: the highest hash of client and gateway (rendezvous
hashing). When it dies, its clients go to the next one in that order; the others' clients stay.

A client is identified by user, client.id and source address: whole fleets share the first two. With a pool of
translated addresses a client may be shown several gateways, one after the other.

Where the client's zone is known (`gateway/model/client_zones`), gateways of that zone come first in its order: produce,
groups and fetches stay within the zone, and copies that are near the gateway are near the client. Gateways of other
zones serve it when none of its own lives.

Each worker counts as a gateway: all that a client sends to brokers reaches one process, which remembers the batches it
has refused and those in flight (`session/produce/producer_order`). At a port that workers share the kernel would spread
a client's connections over them.

A gateway's record in ZooKeeper outlives it by a session timeout, because operations must wait until it has stopped for
certain. Safety does not depend on the gateway that an answer names, so clients need not wait, and each attempt at a
closed port doubles their pause before the next (up to 10 s in librdkafka, 30 s in kafka-python).

Connections of the last round of probes stay open until the next. So the end of a process is seen at once, and not up to
a second later: clients ask again within milliseconds, and each answer that still names the dead gateway costs them.

A refused connection proves that no process listens. A missing answer may be a network's hiccup: it counts when it is
the second in a row, from a gateway that has answered before. Where gateways cannot reach each other at the addresses
for clients (a container's port on its host), all registered gateways are shown.
"""

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
    """Rank of a gateway for a client that connects from `host`; the greatest serves it."""
    client = f"{identity.user}\0{identity.instance}\0{host}\0".encode()
    return blake2b(client + gateway_id.encode(), digest_size=8).digest()


def ranked(peers: Iterable[GatewayRecord], identity: Identity, host: str, zone: str = "") -> list[GatewayRecord]:
    """The gateways in the order in which they serve a client that connects from `host`.

    :param zone: of the client: its gateways come first, by their weights, then the others; "": not known.
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
    """A port at which this process alone answers: a worker shares the bootstrap port with other workers."""
    return peer.first_node_port + peer.nodes[0] if peer.worker_of and peer.nodes else peer.port


_log = logging.getLogger(__name__)

TIMEOUT_S = 1.0
SILENCES = 2
"""Unanswered probes in a row after which a gateway is taken for dead."""
BREATH_S = 0.1
"""Least time between two rounds, whichever connections end: live gateways close connections, too."""
HURRIES_S = 1.0
"""Least time between two rounds that one gateway brings forward. Some addresses close every connection at once, and a
round asks all gateways and ZooKeeper."""
_ASKED = "nothing more is asked"
KEPT_S = 60.0
"""Longer than a restart takes. Bounded, because clients that ask every listed node (Java's AdminClient, for groups) get
no answer from this one."""


class Answering:
    """Probes all other gateways in rounds."""

    def __init__(self, own_id: str, timeout_s: float = TIMEOUT_S, tls: TlsFiles | None = None) -> None:
        """:param tls: for connections to the other gateways; None: they do not use TLS."""
        self._own_id, self._timeout_s = own_id, timeout_s
        self._profile = SecurityProfile(tls=tls)
        self._silences: dict[str, int] = {}
        """Unanswered probes in a row, of gateways that have ever answered."""
        self._dead: set[str] = set()
        self._held: dict[str, BrokerConnection] = {}
        """The connection on which each has answered last."""
        self._lost: set[str] = set()
        """Gateways that have closed that connection and have not answered since."""
        self._hurried: dict[str, float] = {}
        """When each has brought a round forward."""
        self._ended = asyncio.Event()
        """A connection has ended: the next round is due."""

    async def pause(self, longest_s: float) -> None:
        """Waits until the next round is due."""
        await asyncio.sleep(min(BREATH_S, longest_s))
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), longest_s - BREATH_S)
        self._ended.clear()  # here, because no round follows when ZooKeeper cannot list the gateways

    def close(self) -> None:
        held, self._held = self._held, {}
        for connection in held.values():
            connection.close(_ASKED)

    async def of(self, peers: Collection[GatewayRecord]) -> tuple[GatewayRecord, ...]:
        """The gateways among `peers` that live, each probed once. The own gateway always does."""
        others = [peer for peer in peers if peer.id != self._own_id]
        silences = await asyncio.gather(*(self._silence(peer) for peer in others))
        self._silences = {
            peer.id: self._silences[peer.id] + silence if silence else 0
            for peer, silence in zip(others, silences, strict=True)
            if not silence or peer.id in self._silences
        }
        dead = {peer.id for peer in others if self._silences.get(peer.id, 0) >= SILENCES}
        for name in sorted(dead - self._dead):
            _log.warning("gateway %s does not answer: clients are no longer sent to it", name)
        for name in sorted(self._dead - dead):
            _log.info("gateway %s answers again, or is no longer registered", name)
        self._dead = dead
        registered = {peer.id for peer in others}
        self._lost &= registered - dead
        self._hurried = {name: at for name, at in self._hurried.items() if name in registered}
        for name in self._held.keys() - registered:
            self._held.pop(name).close(_ASKED)
        return tuple(peer for peer in peers if peer.id not in dead)

    async def _silence(self, peer: GatewayRecord) -> int:
        """The number to add to its unanswered probes; 0 when it has answered."""
        dialled = partial(dial, (peer.host, own_port(peer)), self._profile, self._own_id, int(1000 * self._timeout_s))
        connection = BrokerConnection(dialled, self._own_id, Decoder(DEFAULT_LIMITS))
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            async with asyncio.timeout(self._timeout_s):
                await connection.connect()  # every gateway answers API_VERSIONS before a login
        except (DialError, BrokerLostError, TimeoutError) as error:
            connection.close(_ASKED)
            refused = isinstance(error.__cause__, ConnectionRefusedError)
            if not refused and loop.time() - begun < self._timeout_s / 2 and peer.id in self._lost:
                self._ended.set()  # A process that is dying still listens for a moment.
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
    """Gateways that were registered within the time of a restart; METADATA lists them as nodes that lead nothing.

    Otherwise a client that asked during one gateway's restart would know no address when the others restart.
    """

    def __init__(self, kept_s: float = KEPT_S) -> None:
        self._kept_s = kept_s
        self._seen: dict[str, tuple[NodeAddress, str, float]] = {}
        """Gateway or worker → its address, its zone, and when it was last registered."""

    def see(self, peers: Collection[GatewayRecord], now: float) -> None:
        """:param peers: all gateways that are registered now."""
        self._seen |= {peer.id: (NodeAddress(peer.node_id, peer.host, peer.port), peer.zone, now) for peer in peers}
        self._seen = {name: seen for name, seen in self._seen.items() if now - seen[2] <= self._kept_s}

    def listed(self, zone: str = "") -> tuple[NodeAddress, ...]:
        """Addresses of gateways that are registered or were lately, optionally of one zone."""
        addresses = {address for address, where, _ in self._seen.values() if zone in ("", where)}
        return tuple(sorted(addresses))  # workers of a gateway share one address
