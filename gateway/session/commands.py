"""Commands of a session to its driver. They are executed in order, before the next event is fed in."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum
from typing import Any, NamedTuple

from gateway.model.rights import Denied
from gateway.session.produce.duplicate_offsets import EarlierBatch
from ha_core.model import Identity
from ha_core.wire.sasl_steps import Question


class BrokerLane(NamedTuple):
    """A broker of a cluster: the key of an upstream connection."""

    cluster: str
    broker: int
    lane: int = 0
    """Further connections to the same broker, for requests that must not wait for answers on the first."""


class ToClient(NamedTuple):
    """Send to the client. A memoryview points into the caller's buffer: copy what cannot be sent at once."""

    data: bytes | bytearray | memoryview


class ToUpstream(NamedTuple):
    """Send to a broker; the connection is opened if there is none yet."""

    lane: BrokerLane
    data: bytes | bytearray | memoryview


class ShutUpstream(NamedTuple):
    """Half-close the connection to this broker after the bytes sent before. Its answers are still awaited."""

    lane: BrokerLane


class Drop(NamedTuple):
    """Close the connection to this broker and discard unsent bytes: no answer is awaited any more."""

    lane: BrokerLane


class Compose(NamedTuple):
    """Have a composed handler answer, to `Session.answered`."""

    token: Hashable
    api_key: int
    api_version: int
    identity: Identity
    request: Any
    """Decoded; or the bytes of a long request, which is decoded off the event loop."""


class VerifyLogin(NamedTuple):
    """Verify the claim of a login, which takes long; the answer goes to `Session.verified`."""

    question: Question


class OffloadWork(NamedTuple):
    """Run this off the event loop; its result goes to `Session.worked`."""

    token: Hashable
    work: Callable[[], Any]
    cause: Cause
    """Why the session ends if the bytes are malformed."""


class AwaitLease(NamedTuple):
    """Call `Session.tick` when the lease holds again."""


class Delays(NamedTuple):
    """The client exceeds a rate limit for discovery, and has to wait; `per_s` is the limit."""

    limit: str
    per_s: int


class NotServed(NamedTuple):
    """The listener for discovery got a request that it does not serve."""

    api_key: int


class Wake(NamedTuple):
    """Call `Session.tick` at this time (seconds on the driver's monotonic clock)."""

    at: float


class Saw(NamedTuple):
    """First use of a topic or group on this connection."""

    identity: Identity
    what: str
    """`topic` or `group`."""
    name: str
    how: str
    """`produce`, `fetch`, `commit` or `join`."""
    software: str | None = None
    """`NAME/VERSION` of the client, if it has sent them."""


class AuditDenial(NamedTuple):
    """The client was denied a resource."""

    api_key: int
    denied: tuple[Denied, ...]


class Refresh(NamedTuple):
    """A cluster's known leaders were out of date: refresh them soon."""


class FindLeaders(NamedTuple):
    """The leaders of these topics in the cluster are unknown, and no client will ask for them: ask the cluster."""

    cluster: str
    topics: frozenset[str]


class CheckTopicExists(NamedTuple):
    """A client uses a topic that the gateway does not know: ask the cluster whether it exists."""

    cluster: str
    topic: str


class FindProducers(NamedTuple):
    """Ask the cluster for the producers of this partition. Its answer goes to `WriterEpochs.opened`."""

    cluster: str
    topic: str
    partition: int


class FindDuplicateOffset(NamedTuple):
    """Find the offset of a batch that an earlier writer epoch holds; it goes to `DuplicateOffsets.learn`."""

    wanted: EarlierBatch


class CheckTransactionBegan(NamedTuple):
    """Ask whether the transaction began elsewhere. Its coordinator's answer goes to `open_transactions.learn_began`."""

    cluster: str
    user: str | None
    transactional_id: str
    attempt: int
    """Number of the refused attempt: the answer does not apply to the next one."""


class CheckTransactionEnded(NamedTuple):
    """Ask whether the transaction still writes to these topics. Its coordinator's answer goes to
    `open_transactions.learn_ended`."""

    cluster: str
    user: str | None
    transactional_id: str
    topics: frozenset[bytes]


class Cause(Enum):
    """Why a session ends; also the metric label."""

    CLIENT_LEFT = "client_left"
    MALFORMED = "malformed"
    FOREIGN_PROTOCOL = "foreign_protocol"
    """TLS without a listener for it, HTTP, a PROXY header."""
    UNSUPPORTED = "unsupported"
    NOT_AUTHENTICATED = "not_authenticated"
    AUTHENTICATION_FAILED = "authentication_failed"
    RATE_LIMITED = "braked"
    """Too many logins from its address have failed: its own was not checked."""
    UNVERIFIED = "unjudged"
    """Its login could not be verified."""
    SESSION_EXPIRED = "session_expired"
    """It has not re-authenticated in time."""
    TOO_MANY = "too_many"
    """Its user has the maximum number of connections."""
    RIGHT_LOST = "right_lost"
    """It lost the right to a request that it was sending."""
    USER_GONE = "user_gone"
    """Its user was deleted, or can no longer log in this way."""
    LATE = "late"
    """The rest of a request did not come within `limits.frame_ms`; a produce that is forwarded as it comes was also
    slower than `limits.min_produce_bytes_s`."""
    HELD_TOO_MUCH = "held_too_much"
    """Its request, or answers that it does not read, exceed `limits.max_held_bytes` together with those of all
    clients."""
    REFUSED_WITHOUT_ANSWER = "refused_without_answer"
    UPSTREAM_LOST = "upstream_lost"
    UPSTREAM_MALFORMED = "upstream_malformed"
    IDLE = "idle"
    STALLED = "stalled"
    """The rest of a request did not come, or an answer was not read, and an operation waited for it."""
    TAKEN_FOR_DEAD = "taken_for_dead"
    """It waited for a cluster that an operation has taken for dead, and delayed that operation."""
    LEASE_LOST = "lease_lost"
    SHUTDOWN = "shutdown"
    FAULT = "fault"
    """An internal error of the gateway; the log has the traceback."""


class Close(NamedTuple):
    """End the session: earlier bytes are flushed first."""

    cause: Cause
    detail: str = ""


SharedStateQuery = FindProducers | FindDuplicateOffset | CheckTransactionBegan | CheckTransactionEnded
"""Queries to clusters, whose answers update state that all sessions of the gateway share."""
Wish = (
    Compose
    | OffloadWork
    | VerifyLogin
    | AwaitLease
    | Delays
    | NotServed
    | Saw
    | AuditDenial
    | Refresh
    | FindLeaders
    | CheckTopicExists
    | SharedStateQuery
)
"""Commands for the gateway around a connection; the connection executes all others itself."""
Command = ToClient | ToUpstream | ShutUpstream | Drop | Wake | Close | Wish
