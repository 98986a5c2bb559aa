"""Virtual nodes: an id and a port of this gateway for every broker of every cluster.

ZooKeeper allocates ids once and for good, so that all gateways show the same id for a broker and clients may move
between gateways. Ports are local: `first_port + node id`. A listener is bound before its id is given out; otherwise the
client that reads it connects to a closed port and backs off.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Protocol

from gateway.composed.handlers import BrokerKey, NodeAddress

Bind = Callable[[str, int, int, int], None]
"""(cluster, broker id, node id, port): binds the listener; OSError if the port is taken."""

_GATEWAY_PREFIX = "gateway:"


class NodeIds(Protocol):
    """Allocates ids: the store."""

    def allocate_node(self, key: str) -> int: ...
    def nodes(self) -> dict[str, int]: ...


class NodePortError(Exception):
    """A virtual node cannot have its port."""


def broker_key(cluster: str, broker: int) -> str:
    """The name under which a broker's id is allocated.

    :raises NodePortError: a cluster named `gateway`, whose brokers would share their keys with the gateways.
    """
    if f"{cluster}:" == _GATEWAY_PREFIX:
        raise NodePortError("a cluster named 'gateway' cannot have virtual nodes; register it under another name")
    return f"{cluster}:{broker}"


def gateway_key(gateway_id: str) -> str:
    return f"{_GATEWAY_PREFIX}{gateway_id}"


def parse_key(key: str) -> BrokerKey | None:
    """(cluster, broker id) of an allocated key; None for gateways and for any other key."""
    if key.startswith(_GATEWAY_PREFIX):
        return None
    cluster, colon, broker = key.rpartition(":")
    if not (cluster and colon and broker.isascii() and broker.isdigit()):
        return None
    return cluster, int(broker)


class NodeBook:
    """Virtual nodes with their ids and ports: filled from the store, listeners bound. Used on one event loop only."""

    def __init__(self, store: NodeIds, bind: Bind, *, first_port: int, count: int, host: str) -> None:
        self._store = store
        self._bind = bind
        self._first_port, self._count, self._host = first_port, count, host
        self.ids: dict[BrokerKey, int] = {}
        """(cluster, broker id) → node id."""
        self._brokers: dict[int, BrokerKey] = {}
        self._bound: set[BrokerKey] = set()
        self._allocating = asyncio.Lock()

    def broker(self, node_id: int) -> BrokerKey | None:
        """(cluster, broker id) of a virtual node; None if this gateway does not know the node."""
        return self._brokers.get(node_id)

    async def start(self, clusters: Iterable[str]) -> None:
        """Binds the nodes allocated so far: clients of a restarted gateway come back to the ports that they know."""
        wanted = set(clusters)
        for key, node_id in (await asyncio.to_thread(self._store.nodes)).items():
            broker = parse_key(key)
            if broker is not None:
                self._learn(broker, node_id)
                if broker[0] in wanted:
                    self._listen(broker)

    async def ensure(self, brokers: Iterable[BrokerKey]) -> dict[BrokerKey, NodeAddress]:
        """Ids and addresses of these brokers, allocated where missing, listeners bound.

        :raises NodePortError: no port for one of them. Store errors and OSError of the bind pass through.
        """
        wanted = tuple(dict.fromkeys(brokers))
        if any(broker not in self._bound for broker in wanted):
            async with self._allocating:
                for broker in wanted:
                    if broker not in self.ids:
                        self._learn(broker, await asyncio.to_thread(self._store.allocate_node, broker_key(*broker)))
                    self._listen(broker)
        return {broker: self._address(broker) for broker in wanted}

    def _learn(self, broker: BrokerKey, node_id: int) -> None:
        """Ids never change: a contradiction means that two states were mixed up."""
        known = self.ids.setdefault(broker, node_id)
        owner = self._brokers.setdefault(node_id, broker)
        if known != node_id or owner != broker:
            raise NodePortError(
                f"virtual node {node_id} is {owner[0]}:{owner[1]} and {broker[0]}:{broker[1]} is node {known}: ids are "
                f"never reused, so the ZooKeeper tree was replaced under a running gateway; restart it"
            )

    def _address(self, broker: BrokerKey) -> NodeAddress:
        """:raises NodePortError: the id lies beyond the configured range."""
        node_id = self.ids[broker]
        if node_id >= self._count or self._first_port + node_id > 65_535:
            raise NodePortError(
                f"virtual node {node_id} has no port: nodes.first_port={self._first_port} with nodes.count="
                f"{self._count} ends below it; raise nodes.count (first_port + count must stay below 65536)"
            )
        return NodeAddress(node_id, self._host, self._first_port + node_id)

    def _listen(self, broker: BrokerKey) -> None:
        if broker not in self._bound:
            node_id, _, port = self._address(broker)
            self._bind(*broker, node_id, port)
            self._bound.add(broker)
