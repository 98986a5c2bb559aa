"""The order of answers: one slot per request that has an answer, in the order in which the client asked.

A broker answers a connection strictly in order, and clients rely on it. A slot at the head of the queue may stream its
answer; any other waits for its turn. The upstream queues hold the same slots in the same order, so the head of the
client's queue is always the head of its upstream's, and nobody waits for ever.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from enum import IntEnum

from gateway.session.commands import BrokerLane
from ha_core.wire.fetch import FetchPatcher, FetchShift

PROBE = 0x7FFF_FFFF
"""Correlation id of the gateway's own questions on a client's upstream connection."""
MAX_SILENT = 10_000
"""Names come from the wire: of more topics none is kept, and any may be meant."""


class Kind(IntEnum):
    PASS = 0
    """The upstream's answer goes to the client as it arrives."""
    PATCH = 1
    """The same, with offsets patched on the way (fetch)."""
    GATHER = 2
    """Answers of one or more upstreams are collected whole; `finish` makes one of them."""
    WAIT = 3
    """A composed handler works on it."""
    READY = 4
    """`data` is the answer, from `ready_at` on."""
    DISCARD = 5
    """The client was answered already: what the upstream says is dropped."""


Frames = dict[BrokerLane, bytearray | None]
"""Answers by upstream, with their size field; None where the upstream was lost."""


Under = tuple[int, int]
"""Generation of the lease, revision of the state. If neither is the same when the answer comes, an operation may have
gone on without this gateway."""
NO_LEASE = -1
"""In the place of the generation: it did not hold."""


SEVERAL = BrokerLane("", -1)
"""The way of a request that goes to more than one broker."""


class Slot:
    """One request that the client waits for."""

    __slots__ = (
        "api_key",
        "api_version",
        "awaited",
        "correlation_id",
        "data",
        "delay",
        "finish",
        "frames",
        "group",
        "in_session",
        "kind",
        "lane",
        "lifts_with",
        "mute",
        "reads",
        "ready_at",
        "revision",
        "shifts",
        "spared",
        "survives_loss",
        "topics",
        "under",
        "way",
    )  # fmt: skip

    def __init__(self, api_key: int, api_version: int, correlation_id: int, kind: Kind) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.kind = kind
        self.lane: BrokerLane | None = None
        self.way: BrokerLane | None = None
        """The broker that keeps it in order with others; None: there is none."""
        self.data: bytes | bytearray = b""
        self.ready_at = 0.0
        """When to look at it again; of an answer that is ready: when it may go."""
        self.revision = 0
        """Of the state on which the request was forwarded."""
        self.under: Under | None = None
        """What was known when it was forwarded; None: its answer promises nothing about a log or a group."""
        self.delay = 0.0
        self.lifts_with: str | None = None
        """A refusal held for the fence of this operation: answered at once when the fence is lifted."""
        self.shifts: Mapping[tuple[bytes, int], FetchShift] | None = None
        self.awaited: set[BrokerLane] = set()
        self.spared: frozenset[BrokerLane] = frozenset()
        """Of these the ones without which the answer can be made (`silence`)."""
        self.frames: Frames = {}
        self.finish: Callable[[Frames], bytes | bytearray | None] | None = None
        """Makes the answer; None: something else makes the slot ready, or more is awaited."""
        self.mute = False
        """The client expects no answer (acks=0): the slot keeps its place, and says nothing."""
        self.topics: tuple[bytes, ...] | None = ()
        """Topics that a forwarded produce writes to; None, any: it was streamed before all were seen."""
        self.reads: tuple[bytes, ...] = ()
        """Topics that a forwarded fetch waits for, as far as it names them."""
        self.in_session = False
        """Whether the fetch belongs to a fetch session (KIP-227)."""
        self.group: bytes | None = None
        self.survives_loss = False
        """Only old records are read, or a cut is crossed: when the broker is lost, the answer is made without it."""

    def concerns(self, topics: frozenset[bytes]) -> bool:
        """Whether it may write to one of them."""
        return bool(topics) if self.topics is None else not topics.isdisjoint(self.topics)

    def ready(self, data: bytes | bytearray, at: float = 0.0) -> None:
        self.kind = Kind.READY
        self.data = data
        self.ready_at = at


class Silent:
    """Topics of requests without an answer (acks=0) that may still be on their way."""

    __slots__ = ("_any", "_topics", "revision")

    def __init__(self) -> None:
        self._topics: set[bytes] = set()
        self._any = False
        """Some may have named others: they were streamed before all was seen, or named too many."""
        self.revision = 0
        """Of the state on which the last of them was sent."""

    def __bool__(self) -> bool:
        return self._any or bool(self._topics)

    def add(self, topics: Iterable[bytes], complete: bool, revision: int) -> None:
        """:param complete: whether the request names no others."""
        self.revision = revision
        self._topics.update(topics)
        if not complete or len(self._topics) > MAX_SILENT:
            self._any = True
            self._topics.clear()

    def touches(self, topics: frozenset[bytes]) -> bool:
        return bool(topics) if self._any else not topics.isdisjoint(self._topics)

    def take(self) -> tuple[bytes, ...] | None:
        """The topics, which are asked for now; None: any."""
        found = None if self._any else tuple(self._topics)
        self._topics.clear()
        self._any = False
        return found


class Upstream:
    """One connection to a broker on behalf of one client."""

    __slots__ = (
        "arrived_at",
        "blocked",
        "carry",
        "dropping",
        "gathering",
        "half",
        "lane",
        "later",
        "missing",
        "mute",
        "patcher",
        "queue",
        "shut",
        "silent",
        "skip",
        "under",
        "wanted",
    )  # fmt: skip

    def __init__(self, lane: BrokerLane) -> None:
        self.lane = lane
        self.queue: deque[Slot] = deque()
        self.skip = 0
        """Bytes of the streaming answer still to come."""
        self.dropping = False
        """They go nowhere."""
        self.carry: bytes | bytearray = b""
        """Bytes received but not yet used: to be put in front of the next chunk."""
        self.blocked = False
        """Its answer is not the client's next one: read no more until it is."""
        self.under: Under = (NO_LEASE, 0)
        """What was known when the beginning of the request that is being written was."""
        self.missing = 0
        """Bytes, still to come from the client, of the request that is being written: nothing else may be."""
        self.half: Slot | None = None
        """That request, if it has an answer."""
        self.arrived_at = 0.0
        """When the last bytes of it came."""
        self.shut = False
        """It was given up: nothing more is written, and the broker ends the connection when it has done the rest."""
        self.later: list[tuple[Slot, bytes]] = []
        """The gateway's own questions that wait for them."""
        self.mute = False
        """Something without an answer went over it: only its end would tell of a failure."""
        self.silent = Silent()
        self.gathering: bytearray | None = None
        self.wanted = 0
        self.patcher: FetchPatcher | None = None
