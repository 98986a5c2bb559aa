"""What all sessions of a gateway share."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from gateway.model.client_zones import ClientZones
from gateway.model.copies import Copies
from gateway.model.counts import Counts
from gateway.quotas.charges import Meters
from gateway.session.commands import BrokerLane
from gateway.session.discovery_rates import DiscoveryRates
from gateway.session.held_bytes import HeldBytes
from gateway.session.login_rate_limiter import LoginRateLimiter
from gateway.session.open_transactions import Holders
from gateway.session.produce.duplicate_offsets import DuplicateOffsets
from gateway.session.produce.producer_order import ProducerOrders
from gateway.session.produce.writer_epochs import WriterEpochs
from gateway.session.snapshot import Lease
from gateway.session.transaction_writes import Written
from ha_core.model.producer import issued_id, issuer
from ha_core.plan.routing.bounded_cache import CacheBudget
from ha_core.wire import WireLimits
from ha_core.wire.sasl_steps import Question, Reply


class Accounts(Protocol):
    """Who has which password, key or token."""

    def reply(self, question: Question) -> Reply | None:
        """What is known at once of a claim; None: finding it out takes longer than others can wait."""

    def named(self, question: Question) -> str:
        """Whom a claim names, proved or not; empty: nobody."""


class Authentication(NamedTuple):
    """Who may enter.

    :ivar anonymous: whether clients may skip SASL; they are the user `anonymous` then.
    :ivar mechanisms: that are offered.
    :ivar session_s: how long a login is good at most (`connections.max.reauth.ms` of brokers).
    :ivar delay_s: how long after its token a login that failed is told so, and its connection closed.
    """

    anonymous: bool
    mechanisms: tuple[str, ...]
    accounts: Accounts
    brake: LoginRateLimiter
    session_s: float = math.inf
    delay_s: float = 0.0


class VirtualNodes(Protocol):
    """The ids of brokers over all clusters, as far as this gateway knows them now."""

    @property
    def ids(self) -> Mapping[tuple[str, int], int]: ...
    def broker(self, node_id: int) -> tuple[str, int] | None: ...


class Issued(NamedTuple):
    cluster: str | None
    """Whose coordinator issued the producer id; None: nobody knows."""
    own: int
    """The id in that cluster."""


class Shared(NamedTuple):
    limits: WireLimits
    authentication: Authentication
    lease: Lease
    next_producer_id: Callable[[], int | None]
    """The next client producer id; None while the next block is being fetched."""
    counts: Counts
    terms: WriterEpochs
    producer_orders: ProducerOrders
    recalled: DuplicateOffsets
    nodes: VirtualNodes
    transactions: Holders
    copies: Copies
    meters: Meters
    discovery: DiscoveryRates
    held: HeldBytes
    remembered: CacheBudget
    """For what sessions keep by names that clients send."""
    written: Written
    max_in_flight: int = 100
    zones: ClientZones = ClientZones()
    """Where clients are."""

    def issued(self, client_id: int) -> Issued:
        """Whose producer a client speaks of."""
        node, own = issuer(client_id)
        broker = self.nodes.broker(node)
        return Issued(None, client_id) if broker is None else Issued(broker[0], own)

    def shown(self, broker: BrokerLane, own: int) -> int:
        """The producer id that the client gets for the one that this broker, a coordinator, has issued."""
        return issued_id(own, self.nodes.ids[broker.cluster, broker.broker])
