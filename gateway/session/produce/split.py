"""Produce to topics whose cut lies ahead: to the origin first, and what comes to lie at or above the cut to the target.

Invariants:
- A batch is acknowledged when it is where readers find it: in the origin if it ends below the cut, else in the target.
  Which of the two follows from the origin's answer, so a retry through any gateway goes the same way.
- What lies at or above a cut that is only proposed is neither refused nor acknowledged until the state decides
  (`disposition`), for `PROPOSED_HOLD_S` at most.
- One request of a connection at a time is on its way to targets; where a leader has changed it is sent again before
  the next one. What is refused is waited for (`ProducerOrder`), so a target takes the batches of a producer in the
  order in which the origin took them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from gateway.session import streaming
from gateway.session.commands import BrokerLane, Cause, Refresh
from gateway.session.pending import Answer, Exchange, Send, StandInLine, Wait
from gateway.session.produce.disposition import Disposition, SentBatch, dispose
from gateway.session.produce.recalled import UNKNOWN_OFFSET
from gateway.session.produce.verdict import TAKEN, Batches, Key, Verdict, acknowledged, entries, merged, without
from gateway.session.request import Message, Request
from gateway.session.routes import Routes
from gateway.session.state import ConnectionState
from ha_core.model import Extent
from ha_core.model.producer import is_gateway_id, upstream_id
from ha_core.wire import ErrorCode
from ha_core.wire.produce import ProduceScan
from ha_core.wire.records import rewrite_producer_id

PROPOSED_HOLD_S = 5.0
"""Longest time from a request to its answer while a cut is only proposed. Cuts are opened, raised or taken back within
some tenths of a second; only an executor that died leaves them, and then clients have to be told. Of a request that
gives its brokers less than twice that time half of it is taken: the client waits no longer than it said."""
AGAIN_S = 0.1
"""Where the target's leader is not known, or has changed, it is looked for so often. The client is not told:
a producer without idempotence would write a second time what the target may have taken."""
_LANE = 1
"""Answers leave in the order of the requests. On the connection by which the client reads from the target, the answer
to a write could come after one that has to wait for it."""
_ALL = -1
"""acks: every replica in sync. An answer that a leader change could take back would move the cut."""


class TargetWrite(NamedTuple):
    """A batch that goes to the target."""

    key: Key
    sent: SentBatch
    target: Extent
    entry: Message
    """Its place in the answer."""


def batches_at_cuts(request: Request, sent: Batches, in_transaction: bool, routes: Routes) -> dict[Key, SentBatch]:
    """What of a request has its cut ahead, before producer ids are changed for the origin."""
    found: dict[Key, SentBatch] = {}
    for key, batch in sent.items():
        topic = routes.topic(key[0]).topic
        if batch is not None and topic is not None and topic.crosses(key[1]):
            records = bytes(memoryview(request.buf)[batch.at : batch.end])
            found[key] = SentBatch(topic.written(key[1]), in_transaction, records, batch)
    return found


def split(
    session: ConnectionState,
    request: Request,
    scan: ProduceScan,
    verdict: Verdict,
    crossing: Mapping[Key, SentBatch],
) -> Exchange:
    """Sends to the port's broker what was not refused, and to the targets what turns out to belong there."""
    order = session.settings.producer_order
    open_writes = dict(crossing)
    kept_bytes = sum(len(sent.records) for sent in crossing.values())
    session.kept_bytes += kept_bytes
    for key, sent in crossing.items():
        order.departed(key, sent.batch, session.now)
    until = session.now + min(PROPOSED_HOLD_S, max(0, scan.timeout_ms) / 2000)

    frames = yield Send({session.broker: without(request, verdict, acks=_ALL)})
    answer = merged(session, request, verdict, frames[session.broker])
    # After one that still waits it is decided in its order: what comes first may be refused by then.
    decided = _dispositions(session, request, answer, open_writes)
    if session.line or any(disposition is not Disposition.TAKEN for _, _, disposition in decided):
        yield StandInLine()
        yield from _to_targets(session, request, scan.timeout_ms, until, answer, open_writes)

    session.kept_bytes -= kept_bytes
    for key, sent in crossing.items():
        order.arrived(key, sent.batch)
    if scan.acks != 0:
        return Answer(request.answer(answer), promises=bool(acknowledged(answer)))
    if any(entry["error_code"] for _, entry in entries(answer)):
        streaming.leave(session, Cause.REFUSED_WITHOUT_ANSWER, "produce with acks=0 was refused")
    return Answer(b"", promises=bool(acknowledged(answer)))


def _to_targets(
    session: ConnectionState,
    request: Request,
    timeout_ms: int,
    until: float,
    answer: Message,
    open_writes: dict[Key, SentBatch],
) -> Exchange:
    """Writes to the targets what belongs there, as soon as the state has decided, and as often as leaders change.

    :param until: what the state has not decided by then is refused.
    :param answer: so far, in client offsets; what targets say is taken over into it.
    :param open_writes: what the origin has taken, and no target yet.
    """
    not_before = 0.0
    while True:
        decided = list(_dispositions(session, request, answer, open_writes))
        lanes = {key: _leader(session, key, target) for key, _, target in decided if isinstance(target, Extent)}
        if session.now < until:
            again_at = not_before
            if any(disposition is Disposition.UNDECIDED for _, _, disposition in decided):
                again_at = until
            elif None in lanes.values():
                again_at = max(again_at, session.now + AGAIN_S)
            if session.now < again_at:
                yield Wait(min(again_at, until))
                continue
        writes: dict[BrokerLane, list[TargetWrite]] = {}
        for key, entry, disposition in decided:
            sent = open_writes[key]
            if disposition is Disposition.TAKEN:
                continue
            if disposition is Disposition.STRANDED and not _comes_early(session, key, sent):
                continue
            lane = lanes.get(key)
            if lane is None or not isinstance(disposition, Extent) or _comes_early(session, key, sent):
                _refuse(session, key, sent, entry, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            else:
                writes.setdefault(lane, []).append(TargetWrite(key, sent, disposition, entry))
        if not writes:
            return None

        frames = yield Send(
            {lane: _to_target(request, timeout_ms, together) for lane, together in writes.items()}, survives_loss=True
        )
        for lane, frame in frames.items():
            said = {} if frame is None else dict(entries(request.decode_answer(frame)))
            for write in writes[lane]:
                outcome = said.get(write.key, _NO_ANSWER)
                if outcome["error_code"] in _ELSEWHERE and session.now + AGAIN_S < until:
                    not_before = session.now + AGAIN_S
                    session.emit(Refresh())
                else:
                    del open_writes[write.key]
                    _take_over(session, write, outcome)
        if session.now >= not_before:
            return None


def _dispositions(
    session: ConnectionState, request: Request, answer: Message, open_writes: Mapping[Key, SentBatch]
) -> Iterator[tuple[Key, Message, Disposition | Extent]]:
    """What becomes of each partition that the origin has taken, by the newest state."""
    routes = session.routes(request.client_id)
    lease = session.leased()
    for key, entry in entries(answer):
        sent = open_writes.get(key)
        if sent is not None and entry["error_code"] == ErrorCode.NONE and entry["base_offset"] >= 0:
            yield key, entry, dispose(sent, entry["base_offset"], *key, routes, lease)


def _to_target(request: Request, timeout_ms: int, writes: list[TargetWrite]) -> bytes:
    topics: dict[bytes, list[Message]] = {}
    for (name, partition), sent, target, _ in writes:
        topics.setdefault(name, []).append({"index": partition, "records": _renamed(sent, target.term)})
    data = [{"name": name.decode(), "partition_data": partitions} for name, partitions in topics.items()]
    return request.rewritten({"transactional_id": None, "acks": _ALL, "timeout_ms": timeout_ms, "topic_data": data})


def _leader(session: ConnectionState, key: Key, target: Extent) -> BrokerLane | None:
    leader = session.snapshot.topology.leader(target.cluster, key[0].decode(), key[1])
    if leader is None:
        session.emit(Refresh())
        return None
    return BrokerLane(target.cluster, leader, _LANE)


def _comes_early(session: ConnectionState, key: Key, sent: SentBatch) -> bool:
    order = session.settings.producer_order
    return order.overtakes(key, sent.batch, session.now) or order.earlier_under_way(key, sent.batch, session.now)


def _renamed(sent: SentBatch, term: int) -> bytes:
    """The batch under the producer id of the target's term."""
    records = bytearray(sent.records)
    if is_gateway_id(sent.batch.producer_id):
        rewrite_producer_id(records, 0, upstream_id(sent.batch.producer_id, term))
    return bytes(records)


_ELSEWHERE = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE}
)
"""Another broker is to be asked, as the client itself would do."""


_NO_ANSWER: Message = {"error_code": int(ErrorCode.NOT_LEADER_OR_FOLLOWER)}
"""What is made of a target's broker that was lost, with an answer or before it could be asked: another one is looked
for. Closed in its place, the client's connection would take all other partitions of the origin's broker with it, again
and again, until the target has elected somebody."""


def _take_over(session: ConnectionState, write: TargetWrite, said: Message) -> None:
    """What a target said goes into the answer, in client offsets."""
    key, sent, target, entry = write
    error = said["error_code"]
    if error not in TAKEN:
        # The client asked the right broker, and its retry meets a target that is known better by then.
        retriable = error in _ELSEWHERE or error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        _refuse(session, key, sent, entry, ErrorCode.NOT_LEADER_OR_FOLLOWER if retriable else error)
        session.emit(Refresh())
        return
    session.settings.terms.opened(key, target.term, sent.batch.producer_id)
    offset = UNKNOWN_OFFSET if said["base_offset"] < 0 else target.extrapolate(said["base_offset"])
    unknown = offset < 0 and sent.batch.producer_id >= 0
    error = ErrorCode.DUPLICATE_SEQUENCE_NUMBER if unknown else ErrorCode.NONE
    entry.update(error_code=int(error), base_offset=offset, log_start_offset=-1)


def _refuse(session: ConnectionState, key: Key, sent: SentBatch, entry: Message, error: int) -> None:
    entry.update(error_code=int(error), base_offset=-1)
    session.settings.producer_order.refused(key, sent.batch, session.now)
