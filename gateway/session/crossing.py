"""Produce to topics whose cut lies ahead: to the origin first, and what comes to lie at or above the cut to the target.

Invariants:
- A batch is acknowledged when all of it is where readers find it: below the cut in the origin, the rest in the target.
- The rest is cut off at the record that the origin's answer tells, so a retry through any gateway makes the same rest.
- One request of a connection at a time is on its way to targets. What is refused there is waited for (`Overtaking`), so
  a target takes the batches of a producer in the order in which the origin took them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from gateway.session import answers
from gateway.session import produce as producing
from gateway.session.commands import Cause, Node, Refresh
from gateway.session.conversation import Conversation
from gateway.session.produce import Key, ProduceVerdict
from gateway.session.routes import Routes, Way
from gateway.session.slots import Frames, Kind, Slot
from ha_core.model import Extent
from ha_core.model.producer import is_gateway_id, upstream_id
from ha_core.plan.extents import extents_of, live, physical_end, written
from ha_core.wire import (
    ApiKey,
    ErrorCode,
    RequestHeader,
    WireError,
    decode,
    encode,
    encode_request,
    encode_response,
)
from ha_core.wire.produce import ProduceScan
from ha_core.wire.records import Batch, batches, rewrite_producer_id
from ha_core.wire.split import tail

_LANE = 1
"""Answers leave in the order of the requests. On the connection by which the client reads from the target, the answer
to a leg could come behind one that has to wait for it."""
_ALL = -1
"""acks: every replica in sync. An answer that a leader change could take back would move the cut."""


class Part(NamedTuple):
    """A partition of a request, before its producer id is changed for the origin."""

    origin: Extent
    target: Extent
    open: bool
    records: bytes
    batch: Batch


class Leg(NamedTuple):
    """What of a partition goes to the target."""

    part: Part
    records: bytearray
    batch: Batch
    base_offset: int | None
    """Client offset of the first record of a batch that straddles the cut; None if all of it lies behind."""


class Departure(NamedTuple):
    """A request that waits for its turn at the targets. `start` returns its answer if nothing of it can be sent."""

    slot: Slot
    start: Callable[[], bytes | None]


def parts(frame: Any, scan: ProduceScan, routes: Routes) -> dict[Key, Part]:
    """The partitions of a whole request whose cut lies ahead."""
    found: dict[Key, Part] = {}
    for name, partition, at, length in scan.partitions:
        route = routes.topic(name)
        topic = route.topic
        if route.produce is not Way.MAPPED or topic is None or topic.crossing is None or length <= 0:
            continue
        origin, target = written(topic, partition), live(extents_of(topic, partition))
        records = bytes(memoryview(frame)[at : at + length])
        batch = next(batches(records, 0, length), None)
        if origin is not target and batch is not None and batch.magic == 2 and batch.end == length:
            # A transaction ends in the cluster that it began in: what passes the cut is refused until it is aborted.
            may_pass = topic.crossing.state == "open" and scan.transactional_id is None
            found[name, partition] = Part(origin, target, may_pass, records, batch)
    return found


def send(
    session: Conversation,
    header: RequestHeader,
    body: memoryview,
    scan: ProduceScan,
    verdict: ProduceVerdict,
    crossing: Mapping[Key, Part],
) -> None:
    """Sends to the port's broker what was not refused; the rest follows when its answer is there."""
    request = decode(ApiKey.PRODUCE, header.api_version, "request", body, limits=session.settings.limits)
    if verdict.refused:
        request = producing.without(request, verdict.refused)
    request["acks"] = _ALL
    node = Node(session.port.cluster or "", session.port.broker or 0)
    slot = Slot(header.api_key, header.api_version, header.correlation_id, Kind.GATHER)
    slot.topics = tuple({key[0] for key in crossing})
    slot.mute = scan.acks == 0
    order = [(p[0], p[1]) for p in scan.partitions]
    overtaking = session.settings.overtaking
    going = {key: part for key, part in crossing.items() if key not in verdict.refused}
    for key, part in going.items():
        overtaking.departed(key, part.batch, session.now)

    def from_origin(frames: Frames) -> bytes | None:
        answer = answers.decoded(session, header, frames[node])
        merged = producing.merge(order, answer, verdict.refused, verdict.shifts)
        for key in producing.acknowledged(answer) & verdict.openers.keys():
            session.settings.terms.opened(key, *verdict.openers[key])
        legs = _legs(session, merged, going)
        if not legs:
            return finish(merged)
        session.legs.append(Departure(slot, lambda: _depart(session, header, request, slot, legs, merged, finish)))
        if len(session.legs) == 1:
            _start(session)
        return None

    def finish(merged: dict[str, Any]) -> bytes:
        for key, part in going.items():
            overtaking.arrived(key, part.batch)
        if slot.mute and any(entry["error_code"] for _, entry in _entries(merged)):
            session.close(Cause.REFUSED_WITHOUT_ANSWER, "produce with acks=0 was refused")
        encoded = encode(ApiKey.PRODUCE, header.api_version, "response", merged)
        return encode_response(ApiKey.PRODUCE, header.api_version, header.correlation_id, encoded)

    slot.awaited = {node}
    slot.finish = from_origin
    session.enqueue(slot)
    session.forward(slot, node, _frame(header, request))


def _frame(header: RequestHeader, request: dict[str, Any]) -> bytes:
    body = encode(ApiKey.PRODUCE, header.api_version, "request", request)
    return encode_request(ApiKey.PRODUCE, header.api_version, header.correlation_id, header.client_id, body)


def _legs(session: Conversation, merged: dict[str, Any], going: Mapping[Key, Part]) -> dict[Key, Leg]:
    """What has to follow to the target, by the offsets that the origin gave; in `merged` they are client offsets."""
    legs: dict[Key, Leg] = {}
    for key, entry in _entries(merged):
        part = going.get(key)
        if part is None or entry["error_code"] != ErrorCode.NONE or entry["base_offset"] < 0:
            continue
        end = physical_end(part.origin)
        assert end is not None
        below = part.origin.start + (end - part.origin.base) - entry["base_offset"]
        if below >= part.batch.records_count:
            continue
        if not part.open:
            _refuse(session, key, entry, part.batch)
            continue
        try:
            rest = bytearray(part.records if below <= 0 else tail(part.records, below))
        except WireError:
            entry.update(error_code=int(ErrorCode.CORRUPT_MESSAGE), base_offset=-1)
            continue
        (batch,) = batches(rest, 0, len(rest))
        if is_gateway_id(batch.producer_id):
            rewrite_producer_id(rest, 0, upstream_id(batch.producer_id, part.target.term))
        legs[key] = Leg(part, rest, batch, entry["base_offset"] if below > 0 else None)
    return legs


def _start(session: Conversation) -> None:
    """Sends the legs of the request whose turn it is; answers those of which nothing can be sent."""
    while session.legs:
        slot, start = session.legs[0]
        answer = start()
        if answer is None:
            return
        session.legs.popleft()
        slot.ready(answer)
    session.flush()


def _depart(
    session: Conversation,
    header: RequestHeader,
    asked: dict[str, Any],
    slot: Slot,
    legs: dict[Key, Leg],
    merged: dict[str, Any],
    finish: Callable[[dict[str, Any]], bytes],
) -> bytes | None:
    """Sends the legs of one request. Its answer if none can be sent."""
    requests: dict[Node, dict[str, list[dict[str, Any]]]] = {}
    sent: dict[Key, Leg] = {}
    entries = dict(_entries(merged))
    for key, leg in legs.items():
        name = key[0].decode()
        leader = session.snapshot.topology.leader(leg.part.target.cluster, name, key[1])
        if leader is None:
            session.emit(Refresh())
        overtaking = session.settings.overtaking
        early = overtaking.overtakes(key, leg.part.batch, session.now) or overtaking.earlier_under_way(
            key, leg.part.batch, session.now
        )
        if leader is None or early or not _may_write(session, name, key[1], leg.part.target):
            _refuse(session, key, entries[key], leg.part.batch)
            continue
        node = Node(leg.part.target.cluster, leader, _LANE)
        partition = {"index": key[1], "records": bytes(leg.records)}
        requests.setdefault(node, {}).setdefault(name, []).append(partition)
        sent[key] = leg

    def from_targets(frames: Frames) -> bytes:
        for frame in frames.values():
            _note(session, answers.decoded(session, header, frame), sent, entries)
        answer = finish(merged)
        session.legs.popleft()
        _start(session)
        return answer

    if not requests:
        return finish(merged)
    slot.finish = from_targets
    slot.awaited = set(requests)
    for node, topics in requests.items():
        data = [{"name": name, "partition_data": found} for name, found in topics.items()]
        request = {"transactional_id": None, "acks": _ALL, "timeout_ms": asked["timeout_ms"], "topic_data": data}
        session.forward(slot, node, _frame(header, request))
    return None


def _may_write(session: Conversation, name: str, partition: int, target: Extent) -> bool:
    """Whether the newest state still lets the target be written: time has passed since the origin was asked."""
    topic = session.snapshot.view.topics.get(name)
    if topic is None or not topic.mapped or topic.fence is not None or not session.settings.lease.holds(session.now):
        return False
    if topic.crossing is not None and topic.crossing.state != "open":
        return False
    current = live(extents_of(topic, partition))
    return (current.cluster, current.term, current.start) == (target.cluster, target.term, target.start)


_TAKEN = (ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)


def _note(
    session: Conversation,
    answer: dict[str, Any] | None,
    sent: Mapping[Key, Leg],
    entries: Mapping[Key, dict[str, Any]],
) -> None:
    """Takes over what a target said, in client offsets."""
    for key, said in _entries(answer):
        leg = sent[key]
        entry = entries[key]
        target = leg.part.target
        if said["error_code"] not in _TAKEN:
            entry.update(error_code=_as_seen(said["error_code"]), base_offset=-1)
            session.settings.overtaking.refused(key, [leg.part.batch], session.now)
            session.emit(Refresh())
            continue
        session.settings.terms.opened(key, target.term, leg.batch.producer_id)
        offset = said["base_offset"]
        at = -1 if offset < 0 else target.start + (offset - target.base)
        if leg.base_offset is not None and at == target.start:
            at = leg.base_offset
        elif leg.base_offset is not None:
            # The records of one batch do not follow each other any more, and the answer has one offset for all.
            at = -1
        error = ErrorCode.NONE
        if at < 0 and leg.batch.producer_id >= 0:
            error = ErrorCode.DUPLICATE_SEQUENCE_NUMBER  # taken, at an offset that is not known
        entry.update(error_code=int(error), base_offset=at, log_start_offset=-1)


_LEADERLESS = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER}
)


def _as_seen(error: int) -> int:
    # The client asked the right broker, and its retry meets a target that is known better by then.
    return int(ErrorCode.NOT_LEADER_OR_FOLLOWER) if error in _LEADERLESS else error


def _refuse(session: Conversation, key: Key, entry: dict[str, Any], batch: Batch) -> None:
    entry.update(error_code=int(ErrorCode.NOT_LEADER_OR_FOLLOWER), base_offset=-1)
    session.settings.overtaking.refused(key, [batch], session.now)


def _entries(answer: dict[str, Any] | None) -> list[tuple[Key, dict[str, Any]]]:
    return [
        ((topic["name"].encode(), entry["index"]), entry)
        for topic in (answer["responses"] if answer else ())
        for entry in topic["partition_responses"]
    ]
