"""Produce and fetch: passed where nothing needs a look, rewritten where something does."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from gateway.session import answers, leaving, refusals, streaming
from gateway.session.commands import BrokerLane, Cause, Inquire, LookUp, Refresh, Saw
from gateway.session.fetch import log_starts, unresponsive
from gateway.session.fetch import plan as fetching
from gateway.session.pending import Frames, Kind, Slot
from gateway.session.produce import issuing, split
from gateway.session.produce import verdict as producing
from gateway.session.routes import Routes, Way
from gateway.session.state import ConnectionState
from ha_core.model import View
from ha_core.wire import (
    ApiKey,
    ErrorCode,
    RemoteProtocolError,
    RequestHeader,
    decode,
    encode,
    encode_request,
    encode_response,
    inline,
)
from ha_core.wire.fetch import FetchScan, scan_fetch_request
from ha_core.wire.produce import ProduceScan, patch_produce_response, scan_produce

CROSSING_WAIT_MS = 20
"""Longest wait of a fetch that is answered by two clusters: the one with records waits for the one without."""
_TAKEN = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
_NO_OFFSETS: Mapping[producing.Key, int] = {}
MAX_NAME_BYTES = 249
"""Of a topic that can exist: whatever has a longer name is in no map."""
MAX_IN_SESSION = 40_000
"""Topics of a fetch session, as one full request may name them; what is left out later is not taken off. Of more, the
client is asked to begin anew."""
MAX_COLD_BYTES = 16 << 20
"""Most bytes that one request reads from a closed extent: that answer is held in memory whole."""


def _slot(header: RequestHeader, kind: Kind) -> Slot:
    return Slot(header.api_key, header.api_version, header.correlation_id, kind)


def _notice(session: ConnectionState, header: RequestHeader, topic: bytes, how: str) -> None:
    key = hash((how, topic))  # names come from the wire, and may be long
    if key not in session.seen and len(session.seen) < 10_000:
        session.seen.add(key)
        session.emit(Saw(session.identity(header.client_id), "topic", topic.decode("utf-8", "replace"), how))


def _on_its_way(
    session: ConnectionState, header: RequestHeader, scan: ProduceScan, refused: Collection[producing.Key] = ()
) -> None:
    for topic, partition, _, _ in scan.partitions:
        if (topic, partition) not in refused:
            _notice(session, header, topic, "produce")
            session.damping.forwarded((topic, partition))


def stream_produce(
    session: ConnectionState, header: RequestHeader, buf: bytearray, pos: int, end: int, frame_end: int
) -> bool:
    """Forwards the beginning of a request whose rest has not arrived, if it is certain that all of it passes."""
    scan = scan_produce(buf, pos, end, header.api_version, header.body_at, frame_end)
    routes = session.routes(header.client_id)
    if scan is None or scan.transactional_id is not None or not session.settings.lease.holds(session.now):
        return False
    terms, producer_order = session.settings.terms, session.settings.producer_order
    in_order = not producer_order.watches(session.now)
    if in_order and (routes.plain or scan.complete) and producing.passes(scan, routes):
        slot = _pass_produce(session, header, scan, memoryview(buf)[pos:end])
    elif scan.complete and len(scan.partitions) == 1:
        verdict = producing.judge_head(buf, scan, end, routes, terms, producer_order, session.now)
        if verdict is None:
            return False
        slot = _forward(session, header, scan, memoryview(buf)[pos:end], verdict)
    else:
        return False
    streaming.begin(session, _here(session), frame_end - end, slot)
    return True


def _here(session: ConnectionState) -> BrokerLane:
    assert session.here is not None
    return session.here


def _pass_produce(session: ConnectionState, header: RequestHeader, scan: ProduceScan, frame: memoryview) -> Slot | None:
    """Sends it as it is. None: it has no answer."""
    _on_its_way(session, header, scan)
    if scan.acks == 0:
        session.send_silently(_here(session), frame, {partition[0] for partition in scan.partitions}, scan.complete)
        return None
    slot = _slot(header, Kind.PASS)
    slot.topics = tuple({partition[0] for partition in scan.partitions}) if scan.complete else None
    session.enqueue(slot)
    session.forward(slot, _here(session), frame)
    return slot


def produce(session: ConnectionState, header: RequestHeader, buf: bytearray, pos: int, end: int) -> None:
    """A whole produce request."""
    scan = scan_produce(buf, pos, end, header.api_version, header.body_at, end)
    if scan is None or not scan.complete:
        raise RemoteProtocolError("a produce request ends inside its partitions")
    routes = session.routes(header.client_id)
    terms, producer_order = session.settings.terms, session.settings.producer_order
    if not session.settings.lease.holds(session.now):
        producing.demand_one_batch(buf, scan)
        everything = {(p[0], p[1]): ErrorCode.NOT_LEADER_OR_FOLLOWER for p in scan.partitions}
        producing.note_refused(buf, scan, everything, producer_order, session.now)
        _refuse_produce(session, header, scan, everything, None)
        return
    ordinary = scan.transactional_id is None and not producer_order.watches(session.now)
    if ordinary and producing.passes(scan, routes):
        _pass_produce(session, header, scan, memoryview(buf)[pos:end])
        return
    producing.demand_one_batch(buf, scan)
    parts = split.parts(buf, scan, routes)
    recalled = session.settings.recalled
    verdict = producing.judge(buf, scan, routes, terms, producer_order, recalled, session.now)
    producing.note_refused(buf, scan, verdict.refused, producer_order, session.now)
    if scan.transactional_id is not None:
        verdict = issuing.settle(buf, scan, verdict, session.settings.nodes, session.port.cluster)
    for wanted in verdict.look_up:
        session.emit(LookUp(wanted))
    for topic, partition in verdict.early:
        session.emit(Inquire(_here(session).cluster, topic.decode("utf-8", "replace"), partition))
    if len(verdict.refused) == len(scan.partitions):
        if scan.acks != 0 and _TAKEN.issuperset(verdict.refused.values()):
            session.reply(_slot(header, Kind.WAIT), refusals.produce(_entries(scan, verdict.refused, verdict.offsets)))
            return
        _refuse_produce(session, header, scan, verdict.refused, verdict.fence, verdict.offsets)
        return
    if parts.keys() - verdict.refused.keys():
        _on_its_way(session, header, scan, verdict.refused)
        split.send(session, header, memoryview(buf)[header.body_at : end], scan, verdict, parts)
        return
    _write(session, header, buf, pos, end, scan, verdict)


def _write(
    session: ConnectionState,
    header: RequestHeader,
    buf: bytearray,
    pos: int,
    end: int,
    scan: ProduceScan,
    verdict: producing.ProduceVerdict,
) -> None:
    frame: bytes | memoryview = memoryview(buf)[pos:end]
    if verdict.refused:
        request = decode(
            ApiKey.PRODUCE,
            header.api_version,
            "request",
            memoryview(buf)[header.body_at : end],
            limits=inline(session.settings.limits),
        )
        kept = producing.without(request, verdict.refused)
        body = encode(ApiKey.PRODUCE, header.api_version, "request", kept)
        frame = encode_request(ApiKey.PRODUCE, header.api_version, header.correlation_id, header.client_id, body)
    _forward(session, header, scan, frame, verdict)


def _forward(
    session: ConnectionState,
    header: RequestHeader,
    scan: ProduceScan,
    frame: bytes | memoryview,
    verdict: producing.ProduceVerdict,
) -> Slot | None:
    """Sends what was not refused; its answer is made anew, in client offsets. None: it has no answer."""
    kept = {p[0] for p in scan.partitions if p[:2] not in verdict.refused}
    _on_its_way(session, header, scan, verdict.refused)
    if scan.acks == 0:
        session.send_silently(_here(session), frame, kept, complete=True)
        if not _TAKEN.issuperset(verdict.refused.values()):
            _leave_unanswered(session)
        return None
    order = [(p[0], p[1]) for p in scan.partitions]
    lane = _here(session)

    def finish(frames: Frames) -> bytes | bytearray:
        whole = frames[lane]
        if whole is not None and not (verdict.refused or verdict.openers):
            answer = whole[4:]
            patch_produce_response(answer, header.api_version, verdict.shifts)
            return whole[:4] + answer
        decoded = answers.decoded(session, header, whole)
        for key in producing.acknowledged(decoded) & verdict.openers.keys():
            session.settings.terms.opened(key, *verdict.openers[key])
        merged = producing.merge(order, decoded, verdict)
        return encode_response(
            ApiKey.PRODUCE,
            header.api_version,
            header.correlation_id,
            encode(ApiKey.PRODUCE, header.api_version, "response", merged),
        )

    slot = _slot(header, Kind.GATHER)
    slot.topics = tuple(kept)
    slot.awaited = {lane}
    slot.finish = finish
    session.enqueue(slot)
    session.forward(slot, lane, frame)
    return slot


def _leave_unanswered(session: ConnectionState) -> None:
    """There is no answer to say it in. A broker that is not the leader of a partition writes the others, and closes the
    connection: what came before is executed and answered."""
    leaving.leave(session, Cause.REFUSED_WITHOUT_ANSWER, "produce with acks=0 to a partition that is elsewhere")


def _refuse_produce(
    session: ConnectionState,
    header: RequestHeader,
    scan: ProduceScan,
    refused: Mapping[producing.Key, ErrorCode],
    fence: str | None,
    offsets: Mapping[producing.Key, int] = _NO_OFFSETS,
) -> None:
    if scan.acks == 0:
        _leave_unanswered(session)
        return
    what = [(topic, partition) for topic, partition, _, _ in scan.partitions]
    answer = refusals.produce(_entries(scan, refused, offsets))
    session.refuse(_slot(header, Kind.WAIT), answer, fence, what)


def _entries(
    scan: ProduceScan, refused: Mapping[producing.Key, ErrorCode], offsets: Mapping[producing.Key, int]
) -> list[tuple[str, int, ErrorCode, int]]:
    return [
        (name.decode("utf-8", "replace"), partition, refused[name, partition], offsets.get((name, partition), -1))
        for name, partition, _, _ in scan.partitions
    ]


def fetch(session: ConnectionState, header: RequestHeader, buf: bytearray, pos: int, end: int) -> None:
    """A whole fetch request."""
    scan = scan_fetch_request(buf, header.body_at, end, header.api_version)
    if scan.replica_id >= 0:
        _refuse_follower(session, header, scan)
        return
    routes = session.routes(header.client_id)
    incremental = scan.session_id != 0 and scan.session_epoch > 0
    if not incremental:
        session.fetch_topics.clear()
        session.fetch_reset = False
    topics = [entry.topic for entry in scan.topics]
    for topic in topics:
        _notice(session, header, topic, "fetch")
    passes = routes.plain or all(routes.topic(topic).fetch is Way.PASS for topic in topics)
    if passes and not session.fetch_reset and not routes.closed:
        if scan.session_epoch >= 0:
            session.fetch_topics.update(topic for topic in topics if len(topic) <= MAX_NAME_BYTES)
            session.fetch_reset = len(session.fetch_topics) > MAX_IN_SESSION
        if scan.rack_bytes:
            # KIP-392: a broker would send this consumer to a replica by its own node id, which is no virtual node.
            buf[scan.rack_at : scan.rack_at + scan.rack_bytes] = b"-" * scan.rack_bytes
        slot = _slot(header, Kind.PASS)
        slot.in_session = scan.session_epoch >= 0
        slot.reads = tuple(session.fetch_topics) if slot.in_session else tuple(topics)
        session.enqueue(slot)
        session.forward(slot, _here(session), memoryview(buf)[pos:end])
        return
    if incremental:
        # KIP-227: the client now sends all its partitions, and the answer switches its session off.
        session.fetch_reset = False
        session.fetch_topics.clear()
        session.reply(
            _slot(header, Kind.WAIT),
            {"error_code": int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND), "session_id": 0, "responses": []},
        )
        return
    request = decode(
        ApiKey.FETCH,
        header.api_version,
        "request",
        memoryview(buf)[header.body_at : end],
        limits=inline(session.settings.limits),
    )
    _read(session, header, request, routes)


def _refuse_follower(session: ConnectionState, header: RequestHeader, scan: FetchScan) -> None:
    """A client that says that it is a broker: to the broker behind it would be the gateway's account that says so.

    It would be shown what is not committed yet, and move high watermarks on for a replica that has nothing. Brokers
    give the same answer to whoever lacks the right to act as one (ClusterAction).
    """
    refused = [
        {
            "topic": entry.topic.decode("utf-8", "replace"),
            "partitions": [
                refusals.fetch_partition(one.partition, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                for one in entry.partitions
            ],
        }
        for entry in scan.topics
    ]
    session.refuse(_slot(header, Kind.WAIT), {"error_code": 0, "session_id": 0, "responses": refused})


def _read(session: ConnectionState, header: RequestHeader, request: dict[str, Any], routes: Routes) -> None:
    plan = fetching.plan(request, routes, session.gaps)
    if not plan.parts:
        delay_s = 0.0 if plan.refused else min(request["max_wait_ms"], 1000) / 1000
        answer, _ = fetching.merge(plan, {}, session.gaps, session.snapshot.view)
        slot = _slot(header, Kind.WAIT)
        if plan.refused:
            session.refuse(slot, answer)
        else:
            slot.ready_at = session.now + delay_s
            session.reply(slot, answer)
        if plan.unreachable:
            session.emit(Refresh())
        return
    opens = any(read.opens for read in plan.reads.values())
    if not plan.closed and not plan.local and not opens and len(plan.parts) == 1:
        _stream(session, header, request, plan)
        return
    most_wait_ms = CROSSING_WAIT_MS if plan.both and len(plan.parts) > 1 else 500
    hurry = plan.refused or (not plan.both and len(plan.parts) > len(plan.closed) > 0)
    # Of all parts together: librdkafka drops a connection with an answer above its receive.message.max.bytes.
    most = min(max(request["max_bytes"] // len(plan.parts), 1), MAX_COLD_BYTES)
    frames: dict[BrokerLane, bytes] = {}
    for lane, topics in plan.parts.items():
        cold = lane in plan.closed
        wait_ms = min(request["max_wait_ms"], most_wait_ms) if cold or not hurry else 0
        part = fetching.upstream_request(request, topics, max_wait_ms=wait_ms, max_bytes=most)
        frames[lane] = _fetch_frame(header, part)
    _gather(session, header, request, plan, frames)


def _fetch_frame(header: RequestHeader, request: dict[str, Any]) -> bytes:
    body = encode(ApiKey.FETCH, header.api_version, "request", request)
    return encode_request(ApiKey.FETCH, header.api_version, header.correlation_id, header.client_id, body)


def _stream(session: ConnectionState, header: RequestHeader, request: dict[str, Any], plan: fetching.FetchPlan) -> None:
    ((lane, topics),) = plan.parts.items()
    part = fetching.upstream_request(
        request, topics, max_wait_ms=request["max_wait_ms"], max_bytes=request["max_bytes"]
    )
    slot = _slot(header, Kind.PATCH)
    slot.shifts = fetching.shifts(plan)
    slot.reads = tuple({topic.encode() for topic in topics})
    session.enqueue(slot)
    session.forward(slot, lane, _fetch_frame(header, part))


def wake_readers(session: ConnectionState, before: View) -> None:
    """Readers that wait in a cluster that their topic has just left are answered, to ask again where it is now.

    They would wait there for `fetch.max.wait.ms` in vain: nothing is appended any more.
    """
    after = session.snapshot.view
    for slot in tuple(session.queue):
        if slot.kind not in (Kind.PASS, Kind.PATCH) or not any(_left(topic, before, after) for topic in slot.reads):
            continue
        error = ErrorCode.FETCH_SESSION_ID_NOT_FOUND if slot.in_session else ErrorCode.NONE
        body = {"error_code": int(error), "session_id": 0, "responses": []}
        encoded = encode(ApiKey.FETCH, slot.api_version, "response", body)
        frame = encode_response(ApiKey.FETCH, slot.api_version, slot.correlation_id, encoded)
        answers.abandon(session, slot, frame)
    session.flush()


def _left(topic: bytes, before: View, after: View) -> bool:
    name = topic.decode("utf-8", "replace")
    now, then = after.topics.get(name), before.topics.get(name)
    if now is then:
        return False
    return now is not None and now.mapped and (then is None or then.partitions != now.partitions)


def _gather(
    session: ConnectionState,
    header: RequestHeader,
    request: dict[str, Any],
    plan: fetching.FetchPlan,
    frames: dict[BrokerLane, bytes],
) -> None:
    slot = _slot(header, Kind.GATHER)
    slot.awaited = set(frames)
    slot.survives_loss = plan.closed.issuperset(frames)

    def finish(found: Frames) -> bytes:
        decoded = {lane: answers.decoded(session, header, frame) for lane, frame in found.items()}
        merged, stale = fetching.merge(plan, decoded, session.gaps, session.snapshot.view)
        log_starts.ask(session, plan)
        if stale:
            session.emit(Refresh())
        if stale or plan.gone:
            slot.delay = 0.1
        elif plan.undecided:
            slot.delay = min(request["max_wait_ms"], 1000) / 1000
        return encode_response(
            ApiKey.FETCH,
            header.api_version,
            header.correlation_id,
            encode(ApiKey.FETCH, header.api_version, "response", merged),
        )

    slot.finish = finish
    session.enqueue(slot)
    unresponsive.watch(session, slot, plan.closed, request["max_wait_ms"])
    for lane, frame in frames.items():
        session.forward(slot, lane, frame)
