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
from typing import Any, NamedTuple

from gateway.session import answers, leaving
from gateway.session.commands import BrokerLane, Cause, Refresh
from gateway.session.pending import Frames, Kind, Slot
from gateway.session.produce import verdict as producing
from gateway.session.produce.departures import Departure
from gateway.session.produce.disposition import Crosses, Fate, Part, fate
from gateway.session.produce.recalled import UNKNOWN_OFFSET
from gateway.session.produce.verdict import Key, ProduceVerdict
from gateway.session.routes import Routes, Way
from gateway.session.state import ConnectionState
from ha_core.model import Extent
from ha_core.model.extent import live
from ha_core.model.producer import is_gateway_id, upstream_id
from ha_core.wire import (
    ApiKey,
    ErrorCode,
    RequestHeader,
    decode,
    encode,
    encode_request,
    encode_response,
    inline,
)
from ha_core.wire.produce import ProduceScan
from ha_core.wire.records import Batch, batches, rewrite_producer_id

PROPOSED_HOLD_S = 5.0
"""Longest time from a request to its answer while a cut is only proposed. Cuts are opened, raised or taken back within
some tenths of a second; only an executor that died leaves them, and then clients have to be told. Of a request that
gives its brokers less than twice that time half of it is taken: the client waits no longer than it said."""
AGAIN_S = 0.1
"""Where the target's leader is not known, or has changed, it is looked for so often. The client is not told:
a producer without idempotence would write a second time what the target may have taken."""
MAX_KEPT_BYTES = 16 << 20
"""Of batches that may have to go to a target, of one connection: no more is read from the client until some are
answered."""
_LANE = 1
"""Answers leave in the order of the requests. On the connection by which the client reads from the target, the answer
to a leg could come behind one that has to wait for it."""
_ALL = -1
"""acks: every replica in sync. An answer that a leader change could take back would move the cut."""


class Leg(NamedTuple):
    """A batch on its way to the target."""

    target: Extent
    batch: Batch
    entry: dict[str, Any]
    """Its place in the answer."""


def parts(frame: Any, scan: ProduceScan, routes: Routes) -> dict[Key, Part]:
    """The partitions of a whole request whose cut lies ahead."""
    found: dict[Key, Part] = {}
    for name, partition, at, length in scan.partitions:
        route = routes.topic(name)
        topic = route.topic
        if route.produce is not Way.MAPPED or topic is None or topic.crossing is None or length <= 0:
            continue
        origin, target = topic.written(partition), live(topic.extents(partition))
        records = bytes(memoryview(frame)[at : at + length])
        batch = next(batches(records, 0, length), None)
        if origin is not target and batch is not None and batch.magic == 2 and batch.end == length:
            found[name, partition] = Part(origin, scan.transactional_id is not None, records, batch)
    return found


def send(
    session: ConnectionState,
    header: RequestHeader,
    body: memoryview,
    scan: ProduceScan,
    verdict: ProduceVerdict,
    crossing: Mapping[Key, Part],
) -> None:
    """Sends to the port's broker what was not refused; the rest follows when its answer is there."""
    request = decode(ApiKey.PRODUCE, header.api_version, "request", body, limits=inline(session.settings.limits))
    if verdict.refused:
        request = producing.without(request, verdict.refused)
    request["acks"] = _ALL
    lane = BrokerLane(session.port.cluster or "", session.port.broker or 0)
    slot = Slot(header.api_key, header.api_version, header.correlation_id, Kind.GATHER)
    slot.topics = tuple({key[0] for key in crossing})
    slot.mute = scan.acks == 0
    order = [(p[0], p[1]) for p in scan.partitions]
    producer_order = session.settings.producer_order
    going = {key: part for key, part in crossing.items() if key not in verdict.refused}
    kept_bytes = sum(len(part.records) for part in going.values())
    session.kept_bytes += kept_bytes
    for key, part in going.items():
        producer_order.departed(key, part.batch, session.now)
    until = session.now + min(PROPOSED_HOLD_S, max(0, scan.timeout_ms) / 2000)

    def from_origin(frames: Frames) -> bytes | None:
        answer = answers.decoded(session, header, frames[lane])
        merged = producing.merge(order, answer, verdict)
        for key in producing.acknowledged(answer) & verdict.openers.keys():
            session.settings.terms.opened(key, *verdict.openers[key])
        departure = Departure(header, slot, scan.timeout_ms, until, dict(going), merged, finish)
        # Behind one that still waits it is decided in its turn: what comes first may be refused by then.
        if not session.departures and all(found is Fate.TAKEN for _, _, found in _fates(session, departure)):
            return finish(merged)
        session.departures.append(departure)
        proceed(session)
        return None

    def finish(merged: dict[str, Any]) -> bytes:
        session.kept_bytes -= kept_bytes
        for key, part in going.items():
            producer_order.arrived(key, part.batch)
        if not producing.acknowledged(merged):
            slot.under = None  # it promises nothing
        if slot.mute and any(entry["error_code"] for _, entry in _entries(merged)):
            leaving.leave(session, Cause.REFUSED_WITHOUT_ANSWER, "produce with acks=0 was refused")
        encoded = encode(ApiKey.PRODUCE, header.api_version, "response", merged)
        return encode_response(ApiKey.PRODUCE, header.api_version, header.correlation_id, encoded)

    slot.awaited = {lane}
    slot.finish = from_origin
    session.enqueue(slot)
    session.forward(slot, lane, _frame(header, request))


def _frame(header: RequestHeader, request: dict[str, Any]) -> bytes:
    body = encode(ApiKey.PRODUCE, header.api_version, "request", request)
    return encode_request(ApiKey.PRODUCE, header.api_version, header.correlation_id, header.client_id, body)


def proceed(session: ConnectionState) -> None:
    """Sends the requests whose turn it is, as far as the state has decided on them; to be called when it has changed,
    and when their time is up."""
    while session.departures and session.closed is None and not session.departures[0].away:
        departure = session.departures[0]
        answer = _depart(session, departure)
        if answer is None:
            break
        del session.departures[0]
        departure.slot.ready(answer)
    for departure in session.departures:
        if not departure.away:
            # Nothing of it is in flight, and it is judged anew at its turn. An operation that waited for it would wait
            # for itself.
            departure.slot.revision = session.snapshot.view.revision
    session.flush()


def _fates(session: ConnectionState, departure: Departure) -> Iterator[tuple[Key, dict[str, Any], Fate | Crosses]]:
    """What becomes of each partition that the origin has taken, by the newest state."""
    routes = session.routes(departure.header.client_id)
    lease = session.settings.lease.holds(session.now)
    for key, entry in _entries(departure.merged):
        part = departure.going.get(key)
        if part is not None and entry["error_code"] == ErrorCode.NONE and entry["base_offset"] >= 0:
            yield key, entry, fate(part, entry["base_offset"], *key, routes, lease)


def _depart(session: ConnectionState, departure: Departure) -> bytes | None:
    """Sends what of a request belongs to targets. Its answer if that is nothing; None also if it has to wait."""
    found = list(_fates(session, departure))
    nodes = {key: _leader(session, key, one.target) for key, _, one in found if isinstance(one, Crosses)}
    if session.now < departure.until:
        again_at = departure.not_before
        if any(one is Fate.UNDECIDED for _, _, one in found):
            again_at = departure.until
        elif None in nodes.values():
            again_at = max(again_at, session.now + AGAIN_S)
        if session.now < again_at:
            departure.slot.ready_at = min(again_at, departure.until)
            session.wake()
            return None
    legs: dict[Key, Leg] = {}
    requests: dict[BrokerLane, dict[str, list[dict[str, Any]]]] = {}
    for key, entry, one in found:
        part = departure.going[key]
        if one is Fate.TAKEN or (one is Fate.STRANDED and not _comes_early(session, key, part)):
            continue
        lane = nodes.get(key)
        if lane is None or not isinstance(one, Crosses) or _comes_early(session, key, part):
            _refuse(session, key, entry, part.batch)
            continue
        legs[key] = Leg(one.target, part.batch, entry)
        partition = {"index": key[1], "records": _renamed(part, one.target.term)}
        requests.setdefault(lane, {}).setdefault(key[0].decode(), []).append(partition)

    def from_targets(frames: Frames) -> bytes | None:
        departure.away = False
        for lane, frame in frames.items():
            said = answers.decoded(session, departure.header, frame) or _lost(requests[lane])
            _note(session, departure, said, legs)
        answer = None
        if session.now >= departure.not_before:
            del session.departures[0]
            answer = departure.finish(departure.merged)
        proceed(session)
        return answer

    if not requests:
        return departure.finish(departure.merged)
    departure.away = departure.slot.survives_loss = True
    departure.slot.finish = from_targets
    departure.slot.awaited = set(requests)
    for lane, topics in requests.items():
        data = [{"name": name, "partition_data": partitions} for name, partitions in topics.items()]
        request = {
            "transactional_id": None, "acks": _ALL, "timeout_ms": departure.timeout_ms, "topic_data": data
        }  # fmt: skip
        session.forward(departure.slot, lane, _frame(departure.header, request))
    return None


def _lost(topics: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """What is made of a target's broker that was lost, with an answer or before it could be asked: another one is
    looked for. Closed in its place, the client's connection would take all other partitions of the origin's broker
    with it, again and again, until the target has elected somebody."""
    error = {"error_code": int(ErrorCode.NOT_LEADER_OR_FOLLOWER), "base_offset": -1}
    return {
        "responses": [
            {"name": name, "partition_responses": [{"index": one["index"], **error} for one in partitions]}
            for name, partitions in topics.items()
        ]
    }


def _leader(session: ConnectionState, key: Key, target: Extent) -> BrokerLane | None:
    leader = session.snapshot.topology.leader(target.cluster, key[0].decode(), key[1])
    if leader is None:
        session.emit(Refresh())
        return None
    return BrokerLane(target.cluster, leader, _LANE)


def _comes_early(session: ConnectionState, key: Key, part: Part) -> bool:
    producer_order = session.settings.producer_order
    return producer_order.overtakes(key, part.batch, session.now) or producer_order.earlier_under_way(
        key, part.batch, session.now
    )


def _renamed(part: Part, term: int) -> bytes:
    """The batch under the producer id of the target's term."""
    records = bytearray(part.records)
    if is_gateway_id(part.batch.producer_id):
        rewrite_producer_id(records, 0, upstream_id(part.batch.producer_id, term))
    return bytes(records)


_TAKEN = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
_ELSEWHERE = frozenset(
    {ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE}
)
"""Another broker is to be asked, as the client itself would do."""


def _note(
    session: ConnectionState,
    departure: Departure,
    answer: dict[str, Any] | None,
    sent: Mapping[Key, Leg],
) -> None:
    """Takes over what a target said, in client offsets."""
    for key, said in _entries(answer):
        target, batch, entry = sent[key]
        if said["error_code"] in _ELSEWHERE and session.now + AGAIN_S < departure.until:
            departure.not_before = session.now + AGAIN_S
            session.emit(Refresh())
            continue
        del departure.going[key]
        if said["error_code"] not in _TAKEN:
            entry.update(error_code=_as_seen(said["error_code"]), base_offset=-1)
            session.settings.producer_order.refused(key, [batch], session.now)
            session.emit(Refresh())
            continue
        session.settings.terms.opened(key, target.term, batch.producer_id)
        offset = said["base_offset"]
        at = UNKNOWN_OFFSET if offset < 0 else target.extrapolate(offset)
        error = ErrorCode.NONE
        if at < 0 and batch.producer_id >= 0:
            error = ErrorCode.DUPLICATE_SEQUENCE_NUMBER  # taken, at an offset that is not known
        entry.update(error_code=int(error), base_offset=at, log_start_offset=-1)


def _as_seen(error: int) -> int:
    # The client asked the right broker, and its retry meets a target that is known better by then.
    retriable = error in _ELSEWHERE or error == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    return int(ErrorCode.NOT_LEADER_OR_FOLLOWER) if retriable else error


def _refuse(session: ConnectionState, key: Key, entry: dict[str, Any], batch: Batch) -> None:
    entry.update(error_code=int(ErrorCode.NOT_LEADER_OR_FOLLOWER), base_offset=-1)
    session.settings.producer_order.refused(key, [batch], session.now)


def _entries(answer: dict[str, Any] | None) -> list[tuple[Key, dict[str, Any]]]:
    return [
        ((topic["name"].encode(), entry["index"]), entry)
        for topic in (answer["responses"] if answer else ())
        for entry in topic["partition_responses"]
    ]
