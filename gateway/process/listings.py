"""Caches encoded answers that list all topics: one of fifty thousand topics takes seconds to make.

An answer depends on the clusters' answers, the state, and the bindings and rights of the user. While these are the very
same objects (`Decoder` reuses equal answers of clusters), so is the answer, except for the gateway at whose ports a
client is shown the nodes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gateway.composed.ask import ClusterUnavailableError, Reply
from gateway.composed.handlers import BrokerKey, Context, NodeAddress
from gateway.session.commands import Compose
from ha_core.wire import ApiKey

MAX_BYTES = 64 << 20

Placement = tuple[NodeAddress, ...]


@dataclass(eq=False)
class Listing:
    """Answers made of one set of objects, for each placement of their nodes."""

    made_of: tuple[object, ...]
    """Referred to, so that no other object gets their addresses."""
    brokers: tuple[BrokerKey, ...] | None = None
    """Brokers whose nodes the answer names; None until it was made once."""
    bodies: dict[Placement, bytes] = field(default_factory=dict)


def lists_all(command: Compose) -> bool:
    """Whether a request asks for all topics, and for nothing that takes further questions to brokers."""
    request = command.request
    if command.api_key != ApiKey.METADATA or isinstance(request, bytes):
        return False
    if request["include_cluster_authorized_operations"]:
        return False
    return request["topics"] is None or (command.api_version == 0 and not request["topics"])


def placement(nodes: Mapping[BrokerKey, NodeAddress], brokers: Sequence[BrokerKey]) -> Placement:
    return tuple(nodes[broker] for broker in brokers)


class Listings:
    """The listings of the newest state."""

    def __init__(self) -> None:
        self._view: object = None
        self._topology: object = None
        self._listings: dict[tuple[object, ...], Listing] = {}

    def listing(self, context: Context, command: Compose, replies: Sequence[Reply]) -> Listing:
        """The listing of the answer made of these; without bodies if it is new."""
        if self._view is not context.view or self._topology is not context.topology:
            self._view, self._topology = context.view, context.topology
            self._listings.clear()
        identity = context.identity
        bindings = context.view.bindings.get(identity.user)
        instance = identity.instance if bindings is not None and identity.instance in bindings.instances else None
        topics = [None if isinstance(reply, ClusterUnavailableError) else reply["topics"] for reply in replies]
        made_of = (bindings, context.verdicts, *topics)
        key = (
            command.api_version,
            bool(command.request["include_topic_authorized_operations"]),
            identity.topic_hint,
            instance,
            context.gateways,
            context.self_node,
            *map(id, made_of),
        )
        listing = self._listings.get(key)
        if listing is None:
            if sum(len(body) for listing in self._listings.values() for body in listing.bodies.values()) > MAX_BYTES:
                self._listings.clear()
            listing = self._listings[key] = Listing(made_of)
        return listing
