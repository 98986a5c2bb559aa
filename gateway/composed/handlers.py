"""Handlers of composed answers, the state that they decide on, and the virtual nodes that they need."""

from collections.abc import Callable, Container, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from gateway.composed.ask import Ask, Message
from gateway.composed.coordinator_release import CoordinatorRelease
from gateway.model.copies import Copies
from gateway.model.handler_registry import declare
from gateway.model.local_names import LocalNames, LocalVerdicts, local_names
from gateway.model.remote_topics import NO_REMOTE_TOPICS, RemoteTopicIndex, RemoteVerdicts, led_to
from gateway.model.rights import Denied, Gate
from gateway.model.topology import Topology
from ha_core.model import ANONYMOUS, Identity, Topic, View
from ha_core.model.access import CLUSTER_NAME, AccessRule, AclOperation, ResourceType, RuleFilter
from ha_core.model.quota import QuotaEntity, QuotaKind
from ha_core.plan.access.quotas import Quotas
from ha_core.plan.access.rights import Rights, Verdicts
from ha_core.plan.routing.resolve import cluster_for_topic
from ha_core.wire.apis import APIS
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.limits import DEFAULT_LIMITS, WireLimits

BrokerKey = tuple[str, int]
"""(cluster, broker id in that cluster)."""
OK: Message = {"error_code": 0, "error_message": None}
"""Result of one requested change. Answers share it, so it must not be modified."""


def failed(code: ErrorCode, why: str) -> Message:
    """The result in place of `OK`."""
    return {"error_code": int(code), "error_message": why}


class NodeAddress(NamedTuple):
    """A node as clients see it: always an address of a gateway."""

    node_id: int
    host: str
    port: int


@dataclass(frozen=True)
class NeedNodes:
    """Requests virtual nodes; answered with {(cluster, broker id): NodeAddress} once their listeners are bound."""

    brokers: tuple[BrokerKey, ...]


@dataclass(frozen=True)
class Long:
    """Continues off the event loop, because the next steps take long; answered with None."""


class QuotaChange(NamedTuple):
    """Limits of a quota: those to set, and those to remove (None)."""

    entity: QuotaEntity
    change: Mapping[QuotaKind, float | None]


@dataclass(frozen=True)
class ChangeQuotas:
    """Changes quotas, one by one; answered with a list of {error_code, error_message} in their order."""

    user: str
    """The authenticated user."""
    changes: tuple[QuotaChange, ...]
    validate_only: bool = False


@dataclass(frozen=True)
class CreateRules:
    """Creates access rules; answered with a list of {error_code, error_message} in their order."""

    user: str
    """The authenticated user."""
    rules: tuple[AccessRule, ...]


@dataclass(frozen=True)
class DeleteRules:
    """Deletes the rules that filters describe; answered with a list of `DeletedRules` in their order."""

    user: str
    filters: tuple[RuleFilter, ...]


class DeletedRules(NamedTuple):
    """:ivar status: {error_code, error_message}."""

    status: Message
    rules: tuple[AccessRule, ...] = ()


@dataclass(frozen=True)
class DeleteMoved:
    """Deletes moved topics in all clusters; answered like `ChangeQuotas`."""

    user: str
    """The user, who may delete them."""
    topics: tuple[str, ...]
    wait_ms: int


class DeletedBelow(NamedTuple):
    """:ivar topic: the topic's document at the time of the deletion.
    :ivar below: partition → client offset."""

    topic: Topic
    below: Mapping[int, int]


@dataclass(frozen=True)
class KeepDeleted:
    """Stores which records are deleted, before the client gets its answer; answered like `ChangeQuotas`."""

    topics: tuple[DeletedBelow, ...]


Change = ChangeQuotas | CreateRules | DeleteRules | DeleteMoved | KeepDeleted
Step = tuple[Ask, ...] | NeedNodes | Change | Long
Handler = Generator[Step, Any, Message]
"""Yields a tuple of asks, which run in parallel and are answered with a list of `Reply` in their order, or another
step; returns the response body."""
Handles = Callable[["Context", int, Message], Handler]
"""(context, version, request) → handler"""
HANDLERS: dict[int, Handles] = {}


def handles(api_key: ApiKey) -> Callable[[Handles], Handles]:
    """Declares a function as the handler of an API whose row says that it is composed."""
    return lambda function: declare(HANDLERS, api_key, function)


@dataclass(frozen=True)
class Context:
    """All state that an answer may depend on; taken once per request, so that it cannot change half-way. Handlers check
    `latest` before they acknowledge a change."""

    view: View
    topology: Topology
    identity: Identity
    port_cluster: str | None
    """Cluster of the virtual node that the request came in by; None on the bootstrap listener."""
    port_broker: int | None
    gateways: tuple[NodeAddress, ...]
    """Bootstrap listeners of all gateways that are alive or were lately, including this one."""
    self_node: NodeAddress
    cluster_id: str
    """Id of this installation: clients take all clusters together for one."""
    nodes: Mapping[BrokerKey, int] = field(default_factory=dict)
    """(cluster, broker id) → virtual node id."""
    direct: bool = False
    """True at the listener for discovery: real brokers are named."""
    limits: WireLimits = DEFAULT_LIMITS
    zone: str = ""
    """Zone of this gateway."""
    copies: Copies = field(default_factory=Copies)
    """Known copies of mirrors."""
    now: float = 0.0
    """Seconds on the gateway's clock."""
    coordinator_release: CoordinatorRelease = field(default_factory=CoordinatorRelease)
    """State about gateways that have gone."""
    rights: Rights | None = None
    """Rights of users; None: each client may do everything."""
    verdicts: Verdicts | None = None
    """Rights of this client by the rules; None: everything."""
    remote_topics: RemoteTopicIndex = NO_REMOTE_TOPICS
    """Topics that only flows write."""
    names: LocalNames | None = None
    """Local names of remote topics. Handlers get the real names, and give them."""
    quotas: Quotas | None = None
    """Quotas of clients; None: unlimited."""
    users: Container[str] = ()
    """Known users."""
    user: str = ANONYMOUS
    """The authenticated user; never a name from a client id."""
    rules_file: str = ""
    """Description of the place of rules that cannot be changed through gateways; empty: the platform has the rules."""
    deny: Callable[[Sequence[Denied]], None] = lambda _: None
    """Called with denials; possibly off the event loop."""
    latest: Callable[[], View] | None = None
    """The newest state that the gateway follows; None: `view` is the newest."""

    def allows(self, operation: AclOperation, resource: ResourceType, name: str = CLUSTER_NAME) -> bool:
        return self.verdicts is None or self.verdicts.allows(operation, resource, name)

    def objection(self, operation: AclOperation, topic: str) -> str:
        """Why the client may not change the topic, though it may change topics of the cluster; "": it may."""
        verdicts = self.verdicts
        if verdicts is None or not verdicts.may_object(operation, ResourceType.TOPIC):
            return ""
        return verdicts.objection(operation, ResourceType.TOPIC, topic, self.allows(operation, ResourceType.CLUSTER))


def compose(context: Context, api_key: int, version: int, request: Message) -> Handler:
    """The handler for a request. For a client with limited rights, the request is reduced to its allowed part, and the
    answer to its visible part."""
    verdicts, view, topology = _verdicts(context), context.view, context.topology
    # Real brokers, which the listener for discovery names, know remote topics by their own names only.
    names = None if context.direct else local_names(view, context.identity, context.remote_topics, topology)
    if names is not None:
        cluster_id = topology.cluster_id(names.cluster)
        local = LocalVerdicts(verdicts, context.verdicts, names, context.remote_topics, cluster_id)
        return _guarded(replace(context, verdicts=verdicts, names=names), local, api_key, version, request)
    if verdicts is None:
        return HANDLERS[api_key](context, version, request)
    return _guarded(replace(context, verdicts=verdicts), verdicts, api_key, version, request)


def _verdicts(context: Context) -> Verdicts | None:
    """Rights of the client, as its requests meet remote topics; None: everything."""
    view, topology = context.view, context.topology
    if not any(context.remote_topics.concerns(topology.cluster_id(cluster)) for cluster in view.clusters):
        return context.verdicts

    def places(name: str) -> Iterator[str]:
        cluster = cluster_for_topic(view, context.identity, name, topology.existing).cluster
        return map(topology.cluster_id, led_to(view, name, cluster))

    return RemoteVerdicts(context.verdicts, context.remote_topics, places)


def _guarded(context: Context, verdicts: Verdicts, api_key: int, version: int, request: Message) -> Handler:
    # After the first step: for a request with a hundred thousand names this runs off the event loop.
    gate = Gate(verdicts, APIS[api_key], version, request)
    if gate.denied:
        context.deny(gate.denied)
        # All topics that METADATA names may be denied. In version 0 an empty list would ask for all topics.
        version = APIS[api_key].max_version
    if gate.answer is not None:
        return gate.answer
    answer = yield from HANDLERS[api_key](context, version, gate.request)
    return gate.amend(answer)
