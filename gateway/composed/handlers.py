"""What composes an answer: handlers, the facts that they decide on, and the virtual nodes that they need."""

from __future__ import annotations

from collections.abc import Callable, Container, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gateway.composed.ask import Ask, Message
from gateway.composed.coordinator_release import CoordinatorRelease
from gateway.model.copies import Copies
from gateway.model.handler_registry import declare
from gateway.model.rights import Denied
from gateway.model.topology import Topology
from ha_core.model import ANONYMOUS, Identity, Topic, View
from ha_core.model.access import CLUSTER_NAME, AccessRule, AclOperation, ResourceType
from ha_core.model.access_filter import RuleFilter
from ha_core.model.quota import QuotaEntity, QuotaKind
from ha_core.plan.access.quotas import Quotas
from ha_core.plan.access.rights import Rights, Verdicts
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.limits import DEFAULT_LIMITS, WireLimits

BrokerKey = tuple[str, int]
"""(cluster, broker id in that cluster)."""
OK: Message = {"error_code": 0, "error_message": None}
"""Of one thing that was asked for. Answers share it, so nobody changes it."""


def failed(code: ErrorCode, why: str) -> Message:
    """What stands in the place of `OK`."""
    return {"error_code": int(code), "error_message": why}


class NodeAddress(NamedTuple):
    """A node as clients see it: always an address of a gateway."""

    node_id: int
    host: str
    port: int


@dataclass(frozen=True)
class NeedNodes:
    """Wants virtual nodes; answered with {(cluster, broker id): NodeAddress} once their listeners are bound."""

    brokers: tuple[BrokerKey, ...]


@dataclass(frozen=True)
class Long:
    """Wants to go on beside the event loop, because what comes now takes long; answered with None."""


class QuotaChange(NamedTuple):
    """Limits of a quota: those that are set, and those that are taken away (None)."""

    entity: QuotaEntity
    change: Mapping[QuotaKind, float | None]


@dataclass(frozen=True)
class ChangeQuotas:
    """Wants quotas changed, one by one; answered with a list of {error_code, error_message} in their order."""

    user: str
    """Who wants it, and has authenticated."""
    changes: tuple[QuotaChange, ...]
    validate_only: bool = False


@dataclass(frozen=True)
class CreateRules:
    """Wants access rules; answered with a list of {error_code, error_message} in their order."""

    user: str
    """Who wants them, and has authenticated."""
    rules: tuple[AccessRule, ...]


@dataclass(frozen=True)
class DeleteRules:
    """Wants the rules away that filters describe; answered with a list of `DeletedRules` in their order."""

    user: str
    filters: tuple[RuleFilter, ...]


class DeletedRules(NamedTuple):
    """:ivar said: {error_code, error_message}."""

    said: Message
    rules: tuple[AccessRule, ...] = ()


@dataclass(frozen=True)
class DeleteMoved:
    """Wants moved topics deleted in all clusters; answered as `ChangeQuotas`."""

    user: str
    """Who wants it, and may delete them."""
    topics: tuple[str, ...]
    wait_ms: int


class DeletedBelow(NamedTuple):
    """:ivar topic: the topic's document at the time of the deletion.
    :ivar below: partition → client offset."""

    topic: Topic
    below: Mapping[int, int]


@dataclass(frozen=True)
class KeepDeleted:
    """Asks to write down which records are deleted, before the client is told; answered as `ChangeQuotas`."""

    topics: tuple[DeletedBelow, ...]


Change = ChangeQuotas | CreateRules | DeleteRules | DeleteMoved | KeepDeleted
Step = tuple[Ask, ...] | NeedNodes | Change | Long
Handler = Generator[Step, Any, Message]
"""Yields a tuple of asks, which run in parallel and are answered with a list of `Reply` in their order, or another
wish; returns the response body."""
Handles = Callable[["Context", int, Message], Handler]
"""(context, version, request) → the answer in the making."""
HANDLERS: dict[int, Handles] = {}


def handles(api_key: ApiKey) -> Callable[[Handles], Handles]:
    """Declares a function as the handler of an API whose row says that it is composed."""
    return lambda function: declare(HANDLERS, api_key, function)


@dataclass(frozen=True)
class Context:
    """Everything that an answer may depend on; taken once per request, so that it cannot change half-way. Handlers
    check `latest` before they acknowledge a change."""

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
    direct: bool = False
    """Asked at the listener for discovery: real brokers are named."""
    limits: WireLimits = DEFAULT_LIMITS
    zone: str = ""
    """Where this gateway runs."""
    copies: Copies = field(default_factory=Copies)
    """What is known of those of mirrors."""
    now: float = 0.0
    """Seconds on the gateway's clock."""
    letting_go: CoordinatorRelease = field(default_factory=CoordinatorRelease)
    """Of gateways that have gone."""
    rights: Rights | None = None
    """Who may do what; None: everybody may do everything."""
    verdicts: Verdicts | None = None
    """What whoever asks may do."""
    quotas: Quotas | None = None
    """Who may use how much; None: nobody is limited."""
    users: Container[str] = ()
    """Who is known."""
    user: str = ANONYMOUS
    """Who has authenticated; never by a name out of a client id."""
    rules_file: str = ""
    """Where rules are kept that cannot be changed through gateways, in words; empty: the platform has them."""
    deny: Callable[[Sequence[Denied]], None] = lambda _: None
    """Is told what was denied; may be called beside the event loop."""
    latest: Callable[[], View] | None = None
    """The newest state that the gateway follows; None: `view` is the newest."""

    def allows(self, operation: AclOperation, resource: ResourceType, name: str = CLUSTER_NAME) -> bool:
        return self.verdicts is None or self.verdicts.allows(operation, resource, name)
