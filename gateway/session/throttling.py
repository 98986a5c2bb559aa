"""Quotas of one connection: counts what its requests use, and pauses reading for as long as that demands (KIP-13,
KIP-124, KIP-219).

Every request is forwarded first. A produce is counted when it is forwarded, a fetch when its answer begins to come.
Above the quota, the client's socket is not read for as long as a broker would mute its channel; this takes one timer.
The answer says how long (`throttle_time_ms`). Clients whose version makes them wait by themselves get it at once, all
others when the time is over.

An answered request holds up no operation: one that waits for requests in flight does not wait for throttled clients. No
client is muted for longer than `MUTE_S` at a time, so that its requests in flight do not time out: the rest of the debt
is charged with its next request (`QuotaMeter`).
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from enum import Enum
from struct import Struct

from gateway.model.counts import Counts
from gateway.quotas.charges import Charge, Charges, Meters
from gateway.session.client_ids import ByClientId
from gateway.session.pending import InFlight, Passed, Pending, Ready
from gateway.session.request import Message, Request
from ha_core.model import identify
from ha_core.model.quota import QuotaKind
from ha_core.plan.access.quotas import Quotas
from ha_core.wire import ApiKey
from ha_core.wire.fetch_answer import FetchPatcher
from ha_core.wire.produce import ProduceScan
from ha_core.wire.throttle import bytes_before_throttle, client_waits, say_throttle, throttle_field

MUTE_S = 5.0
"""Clients have up to five requests in flight (`max.in.flight.requests.per.connection` of Java; of all others if
idempotent), and give up after 30 s (`request.timeout.ms`): the last of five that wait for each other is answered after
20 s."""
QUOTA_WINDOW_S = 10.0
"""A fetch gets at most what its quota allows in this time, as from brokers."""
MAX_BYTES = 0x7FFF_FFFF
"""Largest size that a fetch can ask for."""
_MAX_BYTES_AT = 12
"""Position in the body of a fetch."""
_INT = Struct(">i")
_FETCH = int(ApiKey.FETCH)
_PRODUCE = int(ApiKey.PRODUCE)
_NO_TOPICS: Mapping[bytes, int] = {}
_NOBODY = object()
"""No client: a client without a client id has None."""


class AwaitingQuota(Enum):
    """A request waits because its client has exceeded a quota."""

    THROTTLED = "throttled"


class Throttling:
    """:ivar quotas: quotas in force; None: there are none.
    :ivar muted_until: until then no request is read.
    :ivar anew: True if that has changed since the driver last read it.
    :ivar timed: True if time spent for the client counts.
    :ivar unpaid_s: part of that time that is not counted yet.
    """

    __slots__ = (
        "_by_client", "_counts", "_last", "_last_id", "_meters", "anew", "muted_until", "quotas", "timed", "unpaid_s",
        "user",
    )  # fmt: skip

    def __init__(self, quotas: Quotas | None, meters: Meters, counts: Counts) -> None:
        self.quotas = quotas
        self.user: str | None = None
        self.muted_until = 0.0
        self.anew = False
        self.timed = False
        self.unpaid_s = 0.0
        self._meters, self._counts = meters, counts
        self._by_client: ByClientId[Charges | None] | None = None
        """Charges by client id, once there are quotas."""
        self._last_id: object = _NOBODY
        """Client id of the last request, and its charges: on a connection nearly always the same."""
        self._last: Charges | None = None

    def charges(self, request: Request, now: float) -> Charges | None:
        """Charges that apply to the request's sender; None: none."""
        quotas = self.quotas
        if quotas is None:
            return None
        client_id = request.client_id
        if client_id == self._last_id:
            return self._last
        if self._by_client is None:
            self._by_client = ByClientId()
        by_client_id = self._by_client
        if client_id not in by_client_id:
            by_client_id.keep(client_id, self._meters.charges(quotas, identify(self.user, client_id), now))
            self.timed = any(one is not None and one.request is not None for one in by_client_id.values())
        self._last_id, self._last = client_id, by_client_id[client_id]
        return self._last

    def unlimited(self, request: Request, now: float) -> bool:
        """True if the request uses no quota. Those that do are counted one by one, and are not cached."""
        return self.charges(request, now) is None

    def enter(self, user: str) -> None:
        """The client is this user from now on."""
        self.user = user
        self._forget()

    def follow(self, quotas: Quotas | None, now: float) -> None:
        """Applies new quotas from the next request on; waits under the old ones end."""
        if quotas is self.quotas:
            return
        self.quotas = quotas
        self._forget()
        self.timed = False
        if self.muted_until > now:
            self.muted_until = now
            self.anew = True

    def _forget(self) -> None:
        self._by_client = None
        self._last_id, self._last = _NOBODY, None

    # -- requests -----------------------------------------------------------------------------------------------------

    def needs_all_topics(self, request: Request, now: float) -> bool:
        """True if all topics of a produce have to be known before any of it is forwarded."""
        charges = self.charges(request, now)
        return charges is not None and charges.produce is not None and bool(charges.produce.topics)

    def wrote(self, request: Request, scan: ProduceScan, now: float) -> None:
        """Counts a produce that is about to be forwarded."""
        charges = self.charges(request, now)
        if charges is None or charges.produce is None:
            return
        of_topics: Mapping[bytes, int] = _NO_TOPICS
        if charges.produce.topics:
            of_topics = _written_bytes_by_topic(scan)
        size = request.end - request.start + request.missing - _INT.size
        if wait_s := charges.produce.spend(size, of_topics, now):
            self._wait(request, wait_s, QuotaKind.PRODUCE, now)

    def max_bytes(self, request: Request, topics: Iterable[bytes], now: float) -> int | None:
        """Maximum bytes of the answer to a fetch of these topics; None: as many as it asks for."""
        charges = self.charges(request, now)
        if charges is None or charges.fetch is None:
            return None
        max_bytes = charges.fetch.rate(topics) * QUOTA_WINDOW_S
        return max(1, int(max_bytes)) if max_bytes < MAX_BYTES else None

    def cut_fetch(self, request: Request, topics: Iterable[bytes], now: float) -> None:
        """Lowers the limit in the encoded fetch to `max_bytes`."""
        max_bytes = self.max_bytes(request, topics, now)
        if max_bytes is not None:
            at = request.body_at + _MAX_BYTES_AT
            if max_bytes < _INT.unpack_from(request.buf, at)[0]:
                _INT.pack_into(request.buf, at, max_bytes)

    # -- answers ------------------------------------------------------------------------------------------------------

    def needs(self, pending: object, now: float) -> int:
        """Bytes of a broker's answer that have to be there before it may begin to go."""
        if self.quotas is None or not isinstance(pending, Passed):
            return 0
        request = pending.request
        if request.charged or self.charges(request, now) is None:
            return 0
        return bytes_before_throttle(request.api_key, request.api_version)

    def begins(self, pending: Passed, frame: memoryview, size: int, now: float) -> Counter[bytes] | None:
        """An answer of `size` bytes begins to come; its beginning is in `frame`.

        Returns a counter if bytes have to be counted by topic as the answer streams.
        """
        request = pending.request
        charges = self.charges(request, now)
        if charges is None:
            return None
        fetch, counter = charges.fetch, None
        if fetch is not None and request.api_key == _FETCH:
            one_topic = not fetch.topics or len(pending.reads) == 1 or fetch.topics.keys().isdisjoint(pending.reads)
            if not one_topic:
                counter = Counter[bytes]()
            if not request.charged:
                of_topics = {pending.reads[0]: size} if fetch.topics and pending.reads else _NO_TOPICS
                if wait_s := fetch.spend(size, of_topics, now) if one_topic else fetch.owed_s(now):
                    self._wait(request, wait_s, QuotaKind.FETCH, now)
        if request.charged:
            return counter
        request.charged = True
        if charges.request is not None:
            self._pay(request, charges.request, now)
        if request.throttle_ms:
            if request.api_key != _PRODUCE:
                say_throttle(frame, 0, len(frame), request.api_key, request.api_version, request.throttle_ms)
            if request.api_key == _FETCH:
                pending.due_at = request.held_until
        return counter

    def read(self, request: Request, size: int, of_topics: Mapping[bytes, int], now: float) -> None:
        """An answer whose bytes were counted by topic has gone. It is too late to put the throttle time into it."""
        charges = self.charges(request, now)
        if charges is not None and charges.fetch is not None:
            self._wait(request, charges.fetch.spend(size, of_topics, now), QuotaKind.FETCH, now)

    def made(self, pending: Pending, ready: Ready, now: float) -> Ready:
        """Charges an answer that was made here, and puts the throttle time into it."""
        request = pending.request
        charges = self.charges(request, now)
        if charges is None or not ready.frame:
            return ready
        if not request.charged:
            request.charged = True
            if request.api_key == _FETCH and charges.fetch is not None and isinstance(pending, InFlight):
                of_topics = _fetched_bytes_by_topic(request, ready.frame) if charges.fetch.topics else {}
                self._wait(request, charges.fetch.spend(len(ready.frame), of_topics, now), QuotaKind.FETCH, now)
            self._pay(request, charges.request, now)
        if not request.throttle_ms:
            return ready
        frame = bytearray(ready.frame)
        say_throttle(frame, 0, len(frame), request.api_key, request.api_version, request.throttle_ms)
        return replace(ready, frame=frame, due_at=max(ready.due_at, request.held_until))

    def replied(self, request: Request, message: Message, now: float) -> Message:
        """Charges an answer that is sent at once, and puts the throttle time into it."""
        charges = self.charges(request, now)
        if charges is None:
            return message
        self._pay(request, charges.request, now)
        if not request.throttle_ms or throttle_field(request.api_key, request.api_version) is None:
            return message
        return {**message, "throttle_time_ms": max(message.get("throttle_time_ms", 0), request.throttle_ms)}

    # -- waiting ------------------------------------------------------------------------------------------------------

    def _pay(self, request: Request, charge: Charge | None, now: float) -> None:
        """Counts the time that was spent for this client since the last answer."""
        if charge is not None and self.unpaid_s:
            spent_s, self.unpaid_s = self.unpaid_s, 0.0
            self._wait(request, charge.spend(spent_s * 100, now), QuotaKind.REQUEST, now)

    def _wait(self, request: Request, wait_s: float, kind: QuotaKind, now: float) -> None:
        """Reads nothing more from the client for this long."""
        if not wait_s:
            return
        mute_s = min(wait_s, MUTE_S)
        self.muted_until = max(self.muted_until, now + mute_s)
        self.anew = True
        request.throttle_ms = max(request.throttle_ms, round(wait_s * 1000))
        if not client_waits(request.api_key, request.api_version):
            request.held_until = max(request.held_until, now + mute_s)
        self._counts.throttled[kind.label] += 1
        self._counts.throttled_s[kind.label] += mute_s


def _fetched_bytes_by_topic(request: Request, frame: bytes | bytearray) -> Counter[bytes]:
    counter = Counter[bytes]()
    patcher = FetchPatcher(request.api_version, len(frame) - _INT.size, {}, counter)
    patcher.feed(memoryview(frame), _INT.size, len(frame))
    return counter


def _written_bytes_by_topic(scan: ProduceScan) -> Mapping[bytes, int]:
    partitions = scan.partitions
    if len(partitions) == 1:  # the usual case; a counter costs more than everything else here
        topic, _, _, size = partitions[0]
        return {topic: max(size, 0)}
    counter = Counter[bytes]()
    for topic, _, _, size in partitions:
        counter[topic] += max(size, 0)
    return counter
