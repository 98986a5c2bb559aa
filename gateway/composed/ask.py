"""What a composed answer is made of: questions to clusters, virtual nodes, and the facts it is decided on."""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar

from gateway.topology import Topology
from ha_core.model import Identity, View
from ha_core.wire.codes import ApiKey
from ha_core.wire.limits import DEFAULT_LIMITS, Limits

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)
Message = dict[str, Any]
BrokerKey = tuple[str, int]
"""(cluster, broker id in that cluster)."""


@dataclass(frozen=True, slots=True)
class Any_:  # noqa: N801 - `Any` is taken by typing
    """Whichever broker is at hand."""


@dataclass(frozen=True, slots=True)
class Controller:
    """The cluster's controller."""


@dataclass(frozen=True, slots=True)
class Broker:
    """One broker, by its own id."""

    broker_id: int


@dataclass(frozen=True, slots=True)
class Coordinator:
    """The coordinator of a group or a transactional id."""

    kind: Literal["group", "transaction"]
    key: str


Target = Any_ | Controller | Broker | Coordinator


@dataclass(frozen=True)
class Ask:
    """One request of the gateway itself to a cluster; the version is chosen upstream."""

    cluster: str
    target: Target
    api_key: int
    message: Message
    timeout_ms: int = 10_000


class NodeAddress(NamedTuple):
    """A node as clients see it: always an address of a gateway."""

    node_id: int
    host: str
    port: int


@dataclass(frozen=True)
class NeedNodes:
    """Wants virtual nodes; answered with {(cluster, broker id): NodeAddress} once their listeners are bound."""

    brokers: tuple[BrokerKey, ...]


class ClusterUnavailableError(Exception):
    """A cluster could not be asked, or did not answer in time."""

    def __init__(self, cluster: str, why: str) -> None:
        super().__init__(f"cluster {cluster} is not available: {why}")
        self.cluster = cluster
        self.why = why


Reply = Message | ClusterUnavailableError
Handler = Generator[tuple[Ask, ...] | NeedNodes, Any, Message]
"""Yields a tuple of asks, which run in parallel and are answered with a list of `Reply` in their order, or `NeedNodes`;
returns the response body."""


Asking = Generator[tuple[Ask, ...], Any, T]
"""Part of a handler that only asks."""


def ask_once(ask: Ask) -> Asking[Reply]:
    """One question."""
    (reply,) = yield (ask,)
    answer: Reply = reply
    return answer


def grouped(pairs: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """Key → its values, both in the order in which they come."""
    groups: dict[K, list[T]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


Compose = Callable[["Context", int, Message], Handler]
"""(context, version, request) → the answer in the making."""
HANDLERS: dict[int, Compose] = {}


def handles(api_key: ApiKey) -> Callable[[Compose], Compose]:
    """Declares a function as the handler of an API whose row says that it is composed."""

    def register(compose: Compose) -> Compose:
        if HANDLERS.setdefault(api_key, compose) is not compose:
            raise ValueError(f"{api_key.name} has two handlers: {HANDLERS[api_key]} and {compose}")
        return compose

    return register


@dataclass(frozen=True)
class Context:
    """Everything that an answer may depend on; taken once per request, so that it cannot change half-way."""

    view: View
    topology: Topology
    identity: Identity
    port_cluster: str | None
    """Cluster of the virtual node that the request came in by; None on the bootstrap listener."""
    port_broker: int | None
    gateways: tuple[NodeAddress, ...]
    """Bootstrap listeners of all gateways that live, or did lately, this one included."""
    self_node: NodeAddress
    cluster_id: str
    """Of this installation: what clients take all clusters together for."""
    nodes: Mapping[BrokerKey, int] = field(default_factory=dict)
    """(cluster, broker id) → virtual node id."""
    limits: Limits = DEFAULT_LIMITS
