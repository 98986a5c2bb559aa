"""What the handlers of requests and answers share: the state of one client connection, and the verbs that change it."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any

from gateway.session.commands import AwaitLease, BrokerLane, Cause, Close, Command, ToClient, ToUpstream, Wake
from gateway.session.damping import Damping
from gateway.session.fetch.plan import Gap
from gateway.session.open_transactions import OpenTransactions
from gateway.session.pending import NO_LEASE, SEVERAL, Kind, Slot, Under, Upstream
from gateway.session.routes import Routes
from gateway.session.settings import Settings
from gateway.session.snapshot import Port, Snapshot
from ha_core.model import Identity, identify
from ha_core.wire import APIS, SaslServer, encode_response
from ha_core.wire import encode as encode_body

if TYPE_CHECKING:
    from gateway.session.produce.departures import Departure
    from gateway.session.turns import Turn

_OUTCOMES = {Kind.PASS: "passed", Kind.PATCH: "mapped", Kind.GATHER: "mapped", Kind.WAIT: "composed"}

MAX_HOLD_S = 0.2
"""Longest time that a refusal waits for its fence to be lifted. Far below every request timeout: a long hold runs into
the client's own timers, and its batches into CVE-2026-35554."""


MAX_QUESTIONS = 8
"""Composed requests of one connection that are worked on at once: each may end in an answer of megabytes."""
MAX_GIVEN_BYTES = 256 << 10
"""Of answers made here within one event: what the client's socket does not take is kept, and more of it is not made
before it has gone."""


class ConnectionState:
    """One client connection, as its handlers see it.

    :ivar queue: requests that the client waits for, in order.
    :ivar out: commands that the driver has not been given yet.
    """

    def __init__(self, port: Port, settings: Settings, snapshot: Snapshot) -> None:
        self.port = port
        self.settings = settings
        self.snapshot = snapshot
        self.now = 0.0
        self.out: list[Command] = []
        self.queue: deque[Slot] = deque()
        self.upstreams: dict[BrokerLane, Upstream] = {}
        self.carry: bytes = b""
        self.closed: Cause | None = None
        self.left = False
        """The client is gone; what is in flight is still awaited, because it may yet be appended."""
        self.leaving: Close | None = None
        """Nothing more is taken from the client: the session ends so when what is in flight is answered."""
        self.user: str | None = None
        self.sasl: SaslServer | None = None
        """While the client proves who it is."""
        self.damping = Damping()
        self.seen: set[int] = set()
        """Hashes of what was told to be used."""
        self.fetch_topics: set[bytes] = set()
        """Topics of the fetch session that the client has with the broker, as far as requests named them."""
        self.fetch_reset = False
        """The next incremental fetch must be made full again: its session may hold topics that are translated now."""
        self.gaps: dict[tuple[str, int], Gap] = {}
        """What the last answers told of the place at which a partition is read."""
        self._awaits_lease = False
        self.here = None if port.cluster is None or port.broker is None else BrokerLane(port.cluster, port.broker)
        """The port's broker."""
        self.turn: Turn | None = None
        """What the first of the held requests waits for (`turns`)."""
        self.only_produce = False
        """Nothing but produce is in flight, on its way to the port's broker first: more of it need not be looked at."""
        self.silently = False
        """Something was sent that has no answer."""
        self.streaming: Upstream | None = None
        """Where the next client bytes go: the rest of a request that is forwarded while it arrives (`streaming`)."""
        self._gather: bytearray | None = None
        self._wanted = 0
        self.known_routes: dict[str | None, Routes] = {}
        self.waiting: dict[int, Slot] = {}
        self._token = 0
        self.held = False
        """`carry` holds requests that are not looked at before some of the earlier ones are answered."""
        self.given_bytes = 0
        """Answers in `out`."""
        self._waking = False
        self.transactions = OpenTransactions(settings.transactions)
        self.ending: dict[int, str] = {}
        """Token of a `Compose` → the transaction that it ends."""
        self.departures: list[Departure] = []
        """Requests of which something belongs to another cluster, or may, one after the other (`crossing`)."""
        self.kept_bytes = 0
        """Batches that are kept for that."""

    @property
    def entered(self) -> bool:
        """Whether the client has proved who it is, or need not."""
        return self.user is not None or (self.settings.authentication.anonymous and self.sasl is None)

    def emit(self, command: Command) -> None:
        self.out.append(command)

    def close(self, cause: Cause, detail: str = "") -> None:
        """Ends the session; nothing more is decided."""
        if self.closed is None:
            self.closed = cause
            self.out.append(Close(cause, detail))

    def enter(self, user: str) -> None:
        """The client has proved who it is."""
        self.user = self.transactions.user = user
        self.known_routes.clear()

    def routes(self, client_id: str | None) -> Routes:
        """Verdicts for the identity of a request."""
        routes = self.known_routes.get(client_id)
        if routes is None:
            if len(self.known_routes) >= 16:
                self.known_routes.clear()
            routes = self.known_routes[client_id] = Routes(self.snapshot, identify(self.user, client_id), self.port)
        return routes

    def identity(self, client_id: str | None) -> Identity:
        return self.routes(client_id).identity

    def send(self, lane: BrokerLane, data: bytes | bytearray | memoryview) -> Upstream:
        """To a broker, whose connection is opened on first use."""
        upstream = self.upstreams.get(lane)
        if upstream is None:
            upstream = self.upstreams[lane] = Upstream(lane)
        self.out.append(ToUpstream(lane, data))
        return upstream

    def forward(self, slot: Slot, lane: BrokerLane, data: bytes | bytearray | memoryview) -> None:
        """A request to a broker, whose answer belongs to `slot`."""
        slot.lane = lane
        if lane.lane == 0:
            slot.way = lane if slot.way in (None, lane) else SEVERAL
        self.damping.forwarded(slot.api_key)
        self.send(lane, data).queue.append(slot)

    def send_silently(
        self, lane: BrokerLane, data: bytes | memoryview, topics: Iterable[bytes], complete: bool
    ) -> None:
        """A request that has no answer.

        :param complete: whether `topics` are all that it names.
        """
        upstream = self.send(lane, data)
        upstream.mute = self.silently = True
        upstream.silent.add(topics, complete, self.snapshot.view.revision)

    def ready(self, slot: Slot, body: dict[str, Any] | bytes) -> None:
        """Encodes an answer made here, unless it is."""
        encoded = body if isinstance(body, bytes) else encode_body(slot.api_key, slot.api_version, "response", body)
        frame = encode_response(slot.api_key, slot.api_version, slot.correlation_id, encoded)
        slot.ready(frame, slot.ready_at)
        if slot.ready_at > self.now:
            self.wake()

    def wake(self) -> None:
        """Asks to be woken for what is due next."""
        self._waking = True

    def take(self) -> list[Command]:
        """What the driver has not been given yet."""
        if self._waking:
            # Looked for once, however many requests of an event asked for it: the driver keeps one time only.
            self._waking = False
            due = [slot.ready_at for slot in self.queue if slot.ready_at > self.now]
            if due:
                self.out.append(Wake(min(due)))
        out, self.out = self.out, []
        self.given_bytes = 0
        return out

    def under(self) -> Under:
        """What a request that is forwarded now rests on."""
        lease = self.settings.lease
        return lease.generation if lease.holds(self.now) else NO_LEASE, self.snapshot.view.revision

    def stands(self, under: Under) -> bool | None:
        """Whether no operation can have gone on without this gateway since then; None: it is not known yet.

        What was forwarded was executed before its answer was read, and the clock after that. So if the lease holds, it
        did all the time, or is another one and nothing at all was published in between.
        """
        lease = self.settings.lease
        if not lease.holds(self.now):
            return None
        return under[0] == lease.generation or under[1] == self.snapshot.view.revision

    def vouches(self, under: Under) -> bool:
        """Whether the answer to what was forwarded then may be given to the client. If not it waits for the lease, or
        the session ends: an operation may have read the ends of the log before the record was in it."""
        if self.left:
            return True  # nobody is told
        standing = self.stands(under)
        if standing is None and not self._awaits_lease:
            self._awaits_lease = True
            self.emit(AwaitLease())
        elif standing is False:
            self.close(Cause.LEASE_LOST, "what was forwarded may have been passed over by an operation")
        return bool(standing)

    def enqueue(self, slot: Slot) -> None:
        """A slot for a request that is about to be forwarded or composed."""
        slot.revision = self.snapshot.view.revision
        if APIS[slot.api_key].vouched:
            slot.under = self.under()
        self.queue.append(slot)
        self.settings.counts.requests[slot.api_key, _OUTCOMES[slot.kind]] += 1

    def reply(self, slot: Slot, body: dict[str, Any], outcome: str = "local") -> None:
        """An answer made here, in its turn."""
        self.queue.append(slot)
        self.settings.counts.requests[slot.api_key, outcome] += 1
        self.ready(slot, body)
        self.flush()

    def refuse(
        self, slot: Slot, body: dict[str, Any], fence: str | None = None, what: Iterable[Hashable] | None = None
    ) -> None:
        """A retriable error: held for its fence, and damped when the client asks again and again.

        :param what: was refused, if not all requests of that kind.
        """
        lease = self.settings.lease.holds(self.now)
        self.settings.counts.refusals["fence" if fence else "elsewhere" if lease else "lease"] += 1
        if fence is not None:
            slot.ready_at = self.now + MAX_HOLD_S
            slot.lifts_with = fence
        else:
            slot.ready_at = self.now + self.damping.refused((slot.api_key,) if what is None else what)
        self.reply(slot, body, "refused")

    def await_answer(self, slot: Slot) -> int:
        """A token for `Compose`."""
        slot.kind = Kind.WAIT
        self._token += 1
        self.waiting[self._token] = slot
        self.enqueue(slot)
        return self._token

    def flush(self) -> None:
        """Sends every answer made here whose turn and time have come."""
        queue = self.queue
        while queue and queue[0].kind is Kind.READY and queue[0].ready_at <= self.now:
            if queue[0].under is not None and not self.vouches(queue[0].under):
                return
            slot = queue.popleft()
            if not self.left and not slot.mute:
                self.given_bytes += len(slot.data)
                self.out.append(ToClient(slot.data))
