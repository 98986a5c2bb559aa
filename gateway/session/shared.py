"""State that all sessions of a gateway share."""

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
    """Passwords, keys and tokens of users."""

    def reply(self, question: Question) -> Reply | None:
        """The result of checking a claim, if it is known at once; None: the check takes too long for the event loop."""

    def named(self, question: Question) -> str:
        """The user that a claim names, proved or not; empty: none."""


class Authentication(NamedTuple):
    """Settings of logins.

    :ivar anonymous: True if clients may skip SASL; they are the user `anonymous` then.
    :ivar mechanisms: offered mechanisms.
    :ivar session_s: maximum validity of a login (`connections.max.reauth.ms` of brokers).
    :ivar delay_s: time from the token of a failed login to its answer and the end of the connection.
    """

    anonymous: bool
    mechanisms: tuple[str, ...]
    accounts: Accounts
    login_rate_limiter: LoginRateLimiter
    session_s: float = math.inf
    delay_s: float = 0.0


class VirtualNodes(Protocol):
    """Ids of the brokers of all clusters that this gateway knows now."""

    @property
    def ids(self) -> Mapping[tuple[str, int], int]: ...
    def broker(self, node_id: int) -> tuple[str, int] | None: ...


class Issued(NamedTuple):
    cluster: str | None
    """Cluster whose coordinator issued the producer id; None: unknown."""
    own: int
    """The id in that cluster."""


class Shared(NamedTuple):
    limits: WireLimits
    authentication: Authentication
    lease: Lease
    next_producer_id: Callable[[], int | None]
    """The next client producer id; None while the next block is being fetched."""
    counts: Counts
    writer_epochs: WriterEpochs
    producer_orders: ProducerOrders
    duplicate_offsets: DuplicateOffsets
    nodes: VirtualNodes
    transactions: Holders
    copies: Copies
    meters: Meters
    discovery: DiscoveryRates
    held: HeldBytes
    remembered: CacheBudget
    """Memory budget for what sessions keep by names that clients send."""
    written: Written
    max_in_flight: int = 100
    zones: ClientZones = ClientZones()
    """Zones of clients."""

    def issued(self, client_id: int) -> Issued:
        """Cluster and own id of the producer that a client names."""
        node, own = issuer(client_id)
        broker = self.nodes.broker(node)
        return Issued(None, client_id) if broker is None else Issued(broker[0], own)

    def shown(self, broker: BrokerLane, own: int) -> int:
        """The client's producer id for one that this broker, a coordinator, has issued."""
        return issued_id(own, self.nodes.ids[broker.cluster, broker.broker])


class HeldBytes:
    """Bound on the bytes of incomplete requests, over all clients.

    A produce is forwarded as it comes; all other requests are handled when they are complete, and may have
    `max_request_bytes`. Ten thousand clients that each send all but the last byte must not fill the memory.

    :ivar limit: limit in bytes.
    :ivar bytes: bytes held now.
    """

    __slots__ = ("bytes", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bytes = 0

    def add(self, count: int) -> bool:
        """True if there is room for the bytes. They are counted in any case, until they are released."""
        self.bytes += count
        return self.bytes <= self.limit

    def let_go(self, count: int) -> None:
        self.bytes -= count
