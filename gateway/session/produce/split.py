"""Produce to topics with a cut ahead: to the origin first, then batches at or above the cut to the target.

Invariants:

- A batch is acknowledged when readers find it: in the origin if it ends below the cut, else in the target. The origin's
  answer decides, so a retry through any gateway takes the same route.
- A batch at or above a cut that is only proposed is neither refused nor acknowledged until the state decides
  (`dispose`), for `PROPOSED_HOLD_S` at most.
- One request of a connection at a time is written to targets, and is resent before the next one if a leader has
  changed. Refused batches are waited for (`ProducerOrder`). So a target gets a producer's batches in the order in which
  the origin appended them.
"""

from collections.abc import Generator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple

from gateway.session.commands import BrokerLane, Cause, Refresh
from gateway.session.pending import Exchange, ExchangeAnswer, OffloadStep, Send, StandInLine, WaitForState
from gateway.session.produce.duplicate_offsets import UNKNOWN_OFFSET
from gateway.session.produce.judgement import LOGGED, Batches, ProduceJudgement, acknowledged, entries
from gateway.session.produce.producer_order import Dispatch, Key
from gateway.session.refusal import Refusal
from gateway.session.request import Message, Request, text
from gateway.session.routes import Routes
from gateway.session.state import ConnectionState
from ha_core.model import Extent
from ha_core.model.extent import identity, open_extent
from ha_core.model.producer import is_gateway_id, upstream_id
from ha_core.wire import ErrorCode
from ha_core.wire.codes import RETRIABLE
from ha_core.wire.produce import ProduceScan
from ha_core.wire.records import Batch, rewrite_producer_id


class SentBatch(NamedTuple):
    """A partition's batch that went to the origin, as its client sent it."""

    origin: Extent
    """The origin's extent at that time."""
    in_transaction: bool
    records: bytes
    batch: Batch


class Disposition(Enum):
    """Outcome for a batch that is not written to a target."""

    TAKEN = "taken"
    """Readers find it in the origin: all of it lies below the cut."""
    STRANDED = "stranded"
    """Like `TAKEN`, in an origin that was taken for dead since, so the next cluster never learns of it. Allowed only if
    no earlier batch was refused: that one would go to the next cluster, and later ones would not fit after it there."""
    UNDECIDED = "undecided"
    REFUSED = "refused"


def dispose(
    sent: SentBatch, first: int, name: bytes, partition: int, routes: Routes, lease: bool
) -> Disposition | Extent:
    """Judges a batch that the origin has from client offset `first` on, and that was not known to lie below the cut
    when it was sent. An extent: the target, to which all of it goes, also if it begins below the cut.

    Only the newest state counts. While a cut is only proposed, the decision is open: the cut may be raised or taken
    back. If the batch were refused then, the record of a producer without idempotence would come a second time, and
    readers would get both copies.

    Invariant: `TAKEN`, `STRANDED` and a target are returned only while the lease holds, so that no operation has passed
    this gateway by. Every later cut lies above the origin's present log end, or the batch is above the cut already.
    """
    after = first + sent.batch.records_count
    topic = routes.snapshot.view.topics.get(text(name))
    if topic is not None and topic.mapped:
        extents = topic.extents(partition)
    else:  # The cut was taken back: the log is ordinary again, if the client's writes go there now.
        extents = identity(sent.origin.cluster) if routes.writes((name,)) else ()
    stay = next((extent for extent in extents if extent.same_stay(sent.origin)), None)
    if stay is not None and stay.ignored:
        return Disposition.REFUSED  # readers skip records that only the origin has: it has to be written again
    taken = Disposition.TAKEN if stay is None or stay.known_end is None else Disposition.STRANDED
    if sent.origin.end is not None and after <= sent.origin.end:
        return taken  # cuts are only raised, or lowered to the origin's log end
    if stay is None:
        return Disposition.REFUSED
    if stay.end is None or after <= stay.end:
        return taken if lease else Disposition.UNDECIDED
    if stay.known_end is not None and not stay.surplus:
        return Disposition.REFUSED
    assert topic is not None
    ahead = topic.crosses(partition) and topic.crossing and (topic.crossing.state == "proposed" or topic.fence)
    if ahead or topic.damaged(partition):
        return Disposition.UNDECIDED
    # A transaction ends in the cluster that it began in: batches above the cut are refused until it is aborted.
    if not lease or topic.fence is not None or sent.in_transaction or extents[-2:-1] != (stay,):
        return Disposition.REFUSED
    return open_extent(extents)


PROPOSED_HOLD_S = 5.0
"""Longest time from a request to its answer while a cut is only proposed, and at most half of the request's timeout.
Cuts are decided within some tenths of a second; only an executor that died leaves one proposed."""
AGAIN_S = 0.1
"""Interval for finding the target's leader if it is unknown or has changed. The client gets no error: a producer
without idempotence would write a second time the records that the target may have appended."""
_LANE = 1
"""A connection of its own: on the client's read connection to the target, the answer to a write could come after one
that has to wait for it."""
_ALL = -1
"""acks: all in-sync replicas. An answer that a leader change could revoke would move the cut."""
_ELSEWHERE = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE}
)
"""Another broker has to be asked, as the client itself would do."""
_NO_ANSWER: Message = {"error_code": int(ErrorCode.NOT_LEADER_OR_FOLLOWER)}
"""Stands for a target's broker that was lost: another one is looked for. Closing the client's connection instead would
take all other partitions of the origin's broker with it, until the target has elected a leader."""


def batches_at_cuts(request: Request, sent: Batches, in_transaction: bool, routes: Routes) -> dict[Key, SentBatch]:
    """Batches of a request with a cut ahead, before producer ids are rewritten for the origin."""
    ahead: dict[Key, SentBatch] = {}
    for key, batch in sent.items():
        topic = routes.topic(key[0]).topic
        if batch is None or topic is None or not topic.crosses(key[1]):
            continue
        origin = routes.writer(topic, key[1])
        if isinstance(origin, Extent):
            records = bytes(memoryview(request.buf)[batch.at : batch.end])
            ahead[key] = SentBatch(origin, in_transaction, records, batch)
    return ahead


def split(judgement: ProduceJudgement, scan: ProduceScan, crossing: Mapping[Key, SentBatch]) -> Exchange:
    """Answers a request with batches for partitions that have a cut ahead."""
    session, request = judgement.session, judgement.request
    answer = yield from write_across(
        judgement, scan.timeout_ms, crossing, decided_by(session.context.now, scan.timeout_ms)
    )
    if scan.acks == 0 and any(entry["error_code"] for _, entry in entries(answer)):
        session.intake.leave(Cause.REFUSED_WITHOUT_ANSWER, "produce with acks=0 was refused")
    return ExchangeAnswer(b"" if scan.acks == 0 else request.answer(answer), promises=bool(acknowledged(answer)))


def decided_by(now: float, timeout_ms: int) -> float:
    """Time until which a request that arrives now waits for the state to decide on a cut."""
    return now + min(PROPOSED_HOLD_S, max(0, timeout_ms) / 2000)


def write_across(
    judgement: ProduceJudgement, timeout_ms: int, crossing: Mapping[Key, SentBatch], until: float
) -> Generator[Send | OffloadStep | StandInLine | WaitForState, Any, Message]:
    """Sends batches that are not answered here to the port's broker, and those that turn out to belong to a target to
    that target. Returns the answer.

    :param until: batches on which the state has not decided by this time are refused.
    """
    session, request = judgement.session, judgement.request
    order = session.client.producer_order
    buffered_bytes = sum(len(sent.records) for sent in crossing.values())
    session.in_flight.buffered_bytes += buffered_bytes
    dispatches = {key: order.dispatched(key, sent.batch, session.context.now) for key, sent in crossing.items()}

    frames = yield Send({session.context.broker: judgement.frame(acks=_ALL)})
    answer = judgement.merged(frames[session.context.broker])
    targets = _Targets(
        session, request, judgement, timeout_ms, until, dict(entries(answer)), dict(crossing), dispatches
    )
    targets.keep_order()
    # After a request that still waits it is decided in order: an earlier batch may be refused by then.
    if session.in_flight.line or {*targets.dispositions().values()} - {Disposition.TAKEN}:
        yield StandInLine()
        yield from targets.write()

    session.in_flight.buffered_bytes -= buffered_bytes
    written = acknowledged(answer)
    for key, sent in crossing.items():
        order.answered(key, sent.batch, dispatches[key])
        if key in written and session.context.life.connected:
            order.taken(key, sent.batch)
    return answer


@dataclass(slots=True, eq=False)
class _Targets:
    """Writes of one request to targets.

    :ivar until: batches on which the state has not decided by then are refused.
    :ivar entries: the answer so far, in client offsets; answers of targets are merged into it.
    :ivar open_writes: batches that no target has appended yet.
    :ivar dispatches: dispatch of each batch.
    """

    session: ConnectionState
    request: Request
    judgement: ProduceJudgement
    timeout_ms: int
    until: float
    entries: dict[Key, Message]
    open_writes: dict[Key, SentBatch]
    dispatches: Mapping[Key, Dispatch]

    def keep_order(self) -> None:
        """Refuses later batches like an earlier retriable one, so that both are resent in order.

        A broker that is about to lead refuses a batch, and a moment later calls the next one of its producer out of
        order. librdkafka then raises its epoch, and resends batches that are in the log (confluentinc/librdkafka#4953).
        So batches after a refused one are refused like it, also while that one is in flight again, or has arrived
        meanwhile.
        """
        order, now = self.session.client.producer_order, self.session.context.now
        for key, sent in self.open_writes.items():
            if not self._counts(key):
                continue
            error = self.entries[key]["error_code"]
            if error in RETRIABLE:
                # Also if it may have been appended, above the cut: if the target acknowledged the next one, librdkafka
                # would take both for written.
                self.judgement.has_to_come_first(key, sent.batch)
            elif error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and (
                order.waits(key, sent.batch, now)
                or order.earlier_under_way(key, sent.batch, now)
                or self.dispatches[key].behind_refused
            ):
                self._refuse(key, Refusal.ORDER)

    def _counts(self, key: Key) -> bool:
        """True if the client learns the outcome here. Otherwise it has resent the batch over another connection, and
        learns the outcome there."""
        order = self.session.client.producer_order
        return self.session.context.life.connected or order.is_under_way(key, self.open_writes[key].batch)

    def dispositions(self) -> dict[Key, Disposition | Extent]:
        """Outcome of each partition that the origin has appended, by the newest state."""
        routes = self.session.client.routes(self.request.client_id)
        lease = self.session.context.leased()
        return {
            key: dispose(sent, entry["base_offset"], *key, routes, lease)
            for key, sent in self.open_writes.items()
            if (entry := self.entries[key])["error_code"] == ErrorCode.NONE and entry["base_offset"] >= 0
        }

    def write(self) -> Exchange:
        """Writes batches to targets once the state has decided, and again when leaders change."""
        session, until = self.session, self.until
        not_before = 0.0
        while True:
            decided = self.dispositions()
            lanes = {key: self._leader(key, target) for key, target in decided.items() if isinstance(target, Extent)}
            if session.context.now < until:
                again_at = not_before
                if Disposition.UNDECIDED in decided.values():
                    again_at = until
                elif None in lanes.values():
                    again_at = max(again_at, session.context.now + AGAIN_S)
                if session.context.now < again_at:
                    yield WaitForState(min(again_at, until))
                    continue
            writes = self._sort(decided, lanes)
            if not writes:
                return None
            frames = yield Send({lane: self._frame(targets) for lane, targets in writes.items()}, survives_loss=True)
            for lane, frame in frames.items():
                answered = {} if frame is None else dict(entries(self.request.decode_answer(frame)))
                for key, target in writes[lane].items():
                    outcome = answered.get(key, _NO_ANSWER)
                    if outcome["error_code"] in _ELSEWHERE and session.context.now + AGAIN_S < until:
                        not_before = session.context.now + AGAIN_S
                        session.context.emit(Refresh())
                    else:
                        self._take_over(key, target, outcome)
                        del self.open_writes[key]
            if session.context.now >= not_before:
                return None

    def _sort(
        self, decided: dict[Key, Disposition | Extent], lanes: Mapping[Key, BrokerLane | None]
    ) -> dict[BrokerLane, dict[Key, Extent]]:
        """Batches to write, by broker; batches that can neither be written nor acknowledged are refused."""
        writes: dict[BrokerLane, dict[Key, Extent]] = {}
        order, now = self.session.client.producer_order, self.session.context.now
        for key, disposition in decided.items():
            if disposition is Disposition.TAKEN:
                continue
            batch = self.open_writes[key].batch
            in_order = order.admit(key, batch, now) and not order.earlier_under_way(key, batch, now)
            early = not in_order or self.dispatches[key].behind_refused
            if disposition is Disposition.STRANDED and not early:
                continue
            lane = lanes.get(key)
            if early:
                self._refuse(key, Refusal.ORDER)
            elif not isinstance(disposition, Extent):
                self._refuse(key, Refusal.CROSSING)
            elif lane is None:
                self._refuse(key, Refusal.NO_LEADER)
            else:
                writes.setdefault(lane, {})[key] = disposition
        return writes

    def _leader(self, key: Key, target: Extent) -> BrokerLane | None:
        leader = self.session.context.snapshot.topology.leader(target.cluster, key[0].decode(), key[1])
        if leader is None:
            self.session.context.emit(Refresh())
            return None
        return BrokerLane(target.cluster, leader, _LANE)

    def _frame(self, targets: dict[Key, Extent]) -> bytes:
        topics: dict[bytes, list[Message]] = {}
        for (name, partition), target in targets.items():
            sent = self.open_writes[name, partition]
            records = bytearray(sent.records)
            if is_gateway_id(sent.batch.producer_id):
                rewrite_producer_id(records, 0, upstream_id(sent.batch.producer_id, target.writer_epoch))
            topics.setdefault(name, []).append({"index": partition, "records": bytes(records)})
        data = [{"name": name.decode(), "partition_data": partitions} for name, partitions in topics.items()]
        body = {"transactional_id": None, "acks": _ALL, "timeout_ms": self.timeout_ms, "topic_data": data}
        return self.request.rewritten(body)

    def _take_over(self, key: Key, target: Extent, answered: Message) -> None:
        """Merges a target's answer into the answer, in client offsets."""
        error, producer_id = answered["error_code"], self.open_writes[key].batch.producer_id
        if error not in LOGGED:
            # The client asked the right broker, and its retry finds the target better known by then.
            retriable = error in _ELSEWHERE or error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            self._refuse(key, Refusal.CROSSING if retriable else error)
            self.session.context.emit(Refresh())
            return
        self.session.context.shared.writer_epochs.opened(key, target.writer_epoch, producer_id)
        offset = UNKNOWN_OFFSET if answered["base_offset"] < 0 else target.extrapolate(answered["base_offset"])
        unknown = offset < 0 <= producer_id
        error = ErrorCode.DUPLICATE_SEQUENCE_NUMBER if unknown else ErrorCode.NONE
        self.entries[key].update(error_code=int(error), base_offset=offset, log_start_offset=-1)

    def _refuse(self, key: Key, why: Refusal | int) -> None:
        """:param why: a number is a target's error code, for the client."""
        if isinstance(why, Refusal):
            self.session.context.count_refused((why,))
            why = why.code(self.request.api)
        self.entries[key].update(error_code=int(why), base_offset=-1)
        if self._counts(key):
            self.judgement.has_to_come_first(key, self.open_writes[key].batch)
