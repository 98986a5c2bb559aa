"""What a session asks its driver to do. Commands are carried out in order, before the next event is fed in."""

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
    """Further connections to the same broker, for what must not wait behind the answers of the first."""


class ToClient(NamedTuple):
    """Send to the client. A memoryview points into the caller's buffer: copy what cannot be sent at once."""

    data: bytes | bytearray | memoryview


class ToUpstream(NamedTuple):
    """Send to a broker; the connection is opened if there is none yet."""

    lane: BrokerLane
    data: bytes | bytearray | memoryview


class ShutUpstream(NamedTuple):
    """Tell this broker that nothing more comes, after what was sent. Its answers are still awaited."""

    lane: BrokerLane


class Drop(NamedTuple):
    """Close the connection to this broker, with what it has not taken yet: nothing of it is awaited any more."""

    lane: BrokerLane


class Compose(NamedTuple):
    """Let a composed handler answer, to `Session.answered`."""

    token: Hashable
    api_key: int
    api_version: int
    identity: Identity
    request: Any
    """Decoded, or its bytes where it is long: that is decoded beside the event loop."""


class Judge(NamedTuple):
    """Find out of a claim what takes long; the answer goes to `Session.judged`."""

    question: Question


class OffloadWork(NamedTuple):
    """Do this beside the event loop; what it returns goes to `Session.worked`."""

    token: Hashable
    work: Callable[[], Any]
    cause: Cause
    """With which the session ends where the bytes are not what they should be."""


class AwaitLease(NamedTuple):
    """Call `Session.tick` when the lease holds again."""


class Delays(NamedTuple):
    """The client asks more often than it may, and has to wait; `per_s` is what the limit lets through."""

    limit: str
    per_s: int


class NotServed(NamedTuple):
    """The listener for discovery was asked for something else."""

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
    """`NAME/VERSION` of the client, if it has told."""


class AuditDenial(NamedTuple):
    """The client was denied something."""

    api_key: int
    denied: tuple[Denied, ...]


class Refresh(NamedTuple):
    """What was known of a cluster's leaders did not hold: ask anew soon."""


class FindLeaders(NamedTuple):
    """Who leads these topics in the cluster is not known, and no client will ask for it: ask the cluster."""

    cluster: str
    topics: frozenset[str]


class Inquire(NamedTuple):
    """Which producers does the cluster know in this partition? What it says goes to `Terms.opened`."""

    cluster: str
    topic: str
    partition: int


class LookUp(NamedTuple):
    """Which offset has a batch that an earlier term holds? What the logs say goes to `Recalled.learn`."""

    wanted: EarlierBatch


class LookFor(NamedTuple):
    """Has the transaction begun elsewhere? What its coordinator says goes to `open_transactions.learn_begun`."""

    cluster: str
    user: str | None
    transactional_id: str
    attempt: int
    """Which was refused: what is said of one says nothing of the next."""


class LookAfter(NamedTuple):
    """Does the transaction still write to these topics? What its coordinator says goes to `open_transactions.learn`."""

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
    BRAKED = "braked"
    """Too many logins from its address have failed: its own was not looked at."""
    UNJUDGED = "unjudged"
    """Nobody could tell whether its login is right."""
    SESSION_EXPIRED = "session_expired"
    """It has not authenticated anew in time."""
    TOO_MANY = "too_many"
    """Its user has as many as one user may have."""
    RIGHT_LOST = "right_lost"
    """It was in the middle of a request that it has no right to any more."""
    USER_GONE = "user_gone"
    """Its user was deleted, or cannot log in any more as it has."""
    LATE = "late"
    """The rest of a request did not come within `limits.frame_ms`; of a produce that is sent on as it comes, not at
    `limits.min_produce_bytes_s` either."""
    HELD_TOO_MUCH = "held_too_much"
    """Its request, or answers that it does not take, bring the bytes held for all clients above
    `limits.max_held_bytes`."""
    REFUSED_WITHOUT_ANSWER = "refused_without_answer"
    UPSTREAM_LOST = "upstream_lost"
    UPSTREAM_MALFORMED = "upstream_malformed"
    IDLE = "idle"
    STALLED = "stalled"
    """The rest of a request did not come, or an answer was not taken, and an operation waited for it."""
    TAKEN_FOR_DEAD = "taken_for_dead"
    """It waited for a cluster that an operation does without, and held that up."""
    LEASE_LOST = "lease_lost"
    SHUTDOWN = "shutdown"
    FAULT = "fault"
    """A fault of the gateway itself; the log has the traceback."""


class Close(NamedTuple):
    """End the session: what was sent before is flushed first."""

    cause: Cause
    detail: str = ""


Inquiry = Inquire | LookUp | LookFor | LookAfter
"""To clusters, about what all sessions share."""
Wish = (
    Compose
    | OffloadWork
    | Judge
    | AwaitLease
    | Delays
    | NotServed
    | Saw
    | AuditDenial
    | Refresh
    | FindLeaders
    | Inquiry
)
"""What the gateway around a connection does; all else the connection does itself."""
Command = ToClient | ToUpstream | ShutUpstream | Drop | Wake | Close | Wish
