"""Which gateway's ports a client is shown.

Every gateway has a port for every virtual node. If each named its own, the address of a node would change with every
answer of another gateway, and clients close their connections when it does (librdkafka: "nodename change"). So all
gateways agree, without talking, on one gateway per client: the highest hash of client and gateway (rendezvous
hashing). When it dies, the next one in that order takes over for its clients and for nobody else's.

A client is its user, its client.id and the address that it comes from: whole fleets share the first two. Whoever comes
from several addresses, as behind a pool of translated ones, may be shown several gateways, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import NamedTuple

from gateway.composed.ask import BrokerKey, NodeAddress
from ha_core.model import GatewayRecord, Identity


class Peer(NamedTuple):
    """A live gateway."""

    id: str
    address: NodeAddress
    first_node_port: int
    nodes: frozenset[int]


def peer(record: GatewayRecord) -> Peer:
    """What other gateways need to know of this one."""
    return Peer(
        record.id,
        NodeAddress(record.node_id, record.host, record.port),
        record.first_node_port,
        frozenset(record.nodes),
    )


def ranked(peers: Iterable[Peer], identity: Identity, host: str) -> list[Peer]:
    """The gateways in the order in which they serve this client, which comes from `host`."""
    client = f"{identity.user}\0{identity.instance}\0{host}\0".encode()
    return sorted(peers, key=lambda p: blake2b(client + p.id.encode(), digest_size=8).digest(), reverse=True)


def addresses(
    peers: Iterable[Peer], own_id: str, identity: Identity, host: str, own: Mapping[BrokerKey, NodeAddress]
) -> dict[BrokerKey, NodeAddress]:
    """The nodes `own`, at the ports of the first gateway in the client's order that has bound all of them."""
    wanted = {node.node_id for node in own.values()}
    for candidate in ranked(peers, identity, host):
        if candidate.id == own_id:
            break
        if wanted <= candidate.nodes:
            host, first = candidate.address.host, candidate.first_node_port
            return {broker: NodeAddress(n.node_id, host, first + n.node_id) for broker, n in own.items()}
    return dict(own)
