"""The fast path: requests like a forwarded one are treated like it, and answers are passed on as they come.

It carries nearly all traffic, so it decodes no request, makes no command and looks nothing up: the decision of the slow
path (`requests`, `answers`) is cached, and requests are compared with it as bytes.

Invariant: the fast path leaves the session, the counts and the sockets as the slow path would have. In any doubt the
slow path decides: the functions here then change nothing, and report that they used no bytes.
"""

from struct import Struct

from gateway.model.latencies import LAST_TIMED
from gateway.session.fast.cached_decision import CachedDecision, RequestPatch
from gateway.session.fast.fetch_patch import patch, patch_one
from gateway.session.fetch.fetch_session import FetchSession
from gateway.session.lifecycle import Open
from gateway.session.pending import Discarded, Passed, Patched, Pending, Shifted, Streaming
from gateway.session.readiness import HalfSent
from gateway.session.requests import MAX_REQUESTS
from gateway.session.state import ConnectionState
from gateway.session.upstream import BETWEEN, Upstream
from ha_core.wire import ApiKey, RemoteProtocolError
from ha_core.wire.fetch_answer import SESSION_ID_BYTES, USUAL_VERSION, FetchPatcher, patch_usual, session_id_of
from ha_core.wire.templates import FetchTemplate, ProduceTemplate

_HEAD, _HEAD_BYTES = Struct(">ihhi").unpack_from, 12
_ANSWER, _ANSWER_BYTES = Struct(">ii").unpack_from, 8
_PRODUCE, _FETCH = int(ApiKey.PRODUCE), int(ApiKey.FETCH)
_IN_ORDER = frozenset((Passed, Patched, Shifted))
"""Kinds whose answers go when they come, and that nothing has to follow."""


# -- requests ---------------------------------------------------------------------------------------------------------


def requests(session: ConnectionState, buf: bytearray, end: int, now: float) -> int:
    """Client bytes `buf[:end]`, while the session carries none: returns how many go to the port's broker as they
    are."""
    intake = session.intake
    if type(session.context.life) is not Open or intake.waits_for is not None or now >= session.seen_uses.until:
        return 0
    pos, reading = 0, intake.reading
    if reading is not None:
        pos = min(rest(session, now), end)
        if pos == 0:
            return 0
        rest_went(session, pos, now)
        if intake.reading is not None:
            return pos
    for _ in range(MAX_REQUESTS):
        if end - pos < _HEAD_BYTES:
            break
        size, api_key, _, correlation_id = _HEAD(buf, pos)
        frame_end = pos + 4 + size
        if api_key == _PRODUCE:
            found = _like_produce(session, buf, pos, end, frame_end, now)
        elif api_key == _FETCH and frame_end <= end:
            found = _like_fetch(session, buf, pos, frame_end)
        else:
            break
        if found is None or not _pass(session, found, size, correlation_id, frame_end - end, now):
            break
        decision, _, _, change = found
        if change is not None:
            change.write(buf)
        rack_at, rack_bytes = decision.rack
        if rack_bytes:
            buf[frame_end - rack_at : frame_end - rack_at + rack_bytes] = b"-" * rack_bytes
        if frame_end >= end:
            return end
        pos = frame_end
    return pos


def rest(session: ConnectionState, now: float) -> int:
    """Missing bytes of a request whose beginning was sent: this many may follow as they come, unseen. 0: there is no
    such request, or they may not."""
    context, intake = session.context, session.intake
    half, context.now = intake.reading, now
    if (
        type(half) is not HalfSent
        or type(context.life) is not Open
        or intake.waits_for is not None
        or session.upstreams.unacknowledged
        or half.later
        or half.lane is not context.here
        or now >= session.client.auth_state.expires_at
        or not context.still_valid(half.basis)
    ):
        return 0
    return half.missing


def rest_went(session: ConnectionState, count: int, now: float) -> None:
    """This many of its missing bytes were sent."""
    half = session.intake.reading
    assert isinstance(half, HalfSent)
    session.context.now = now
    half.missing -= count
    if not half.missing:
        session.intake.reading = None
        session.upstreams[half.lane].complete(half, now)


_Found = tuple[CachedDecision, tuple[bytes, ...], FetchSession | None, RequestPatch | None]
"""The decision for a request, the topics that it names, the fetch session that it belongs to or begins, and its
patch. It is no named tuple: to make one takes each request 0.2 µs more."""


def _like_produce(
    session: ConnectionState, buf: bytearray, at: int, end: int, frame_end: int, now: float
) -> _Found | None:
    for decision in session.decisions.newest_first:
        template = decision.template
        if type(template) is ProduceTemplate and (match := template.match(buf, at, end, frame_end)) is not None:
            topics, spans = match
            break
    else:
        return None
    in_flight, order = session.in_flight, session.client.producer_order
    if not in_flight.only_produce and (in_flight.queue or session.upstreams.unacknowledged):
        return None
    waited_for = order.topics
    if waited_for and not waited_for.keys().isdisjoint(topics):
        return None  # the slow path knows whether any of them still counts
    if decision.mapped is None:
        return decision, topics, None, None
    topic = decision.mapped.get(topics[0]) if len(topics) == 1 else None
    if topic is None:
        return None
    change = topic.settles(buf, spans, end, session.context.shared, order, now)
    return None if change is None else (decision, topics, None, change)


def _like_fetch(session: ConnectionState, buf: bytearray, at: int, frame_end: int) -> _Found | None:
    if session.upstreams.unacknowledged:
        return None
    queue, here, fetching = session.in_flight.queue, session.context.here, session.fetching
    for pending in queue:
        if (type(pending) is not Passed and type(pending) is not Shifted) or pending.lane is not here:
            return None
    for decision in session.decisions.newest_first:
        template = decision.template
        if type(template) is FetchTemplate and (match := template.match(buf, at, frame_end)) is not None:
            topics, entries = match
            break
    else:
        return None
    fetch_session, routes = fetching.fetch_session, decision.routes
    if decision.begins is not None:
        fetch_session = FetchSession(topics if routes is None else (), decision.begins)
        if routes is not None:
            fetch_session.add(topics, routes)
    elif decision.fetch_session is not fetch_session:
        return None
    if fetch_session is not None and (fetch_session.ends or fetch_session.mapped is (routes is None)):
        return None
    if routes is None:
        return decision, topics, fetch_session, None
    if queue:
        return None  # `pipelining` decides whether it may overtake requests in flight
    version, gaps, change = decision.request.api_version, fetching.gaps, None
    if len(entries) == 1 and entries[0][1] == 1:
        change = patch_one(buf, at + template.body_at, version, topics, entries[0][0], routes, gaps, fetch_session)
    if change is None:
        change = patch(buf, at + template.body_at, version, topics, entries, routes, gaps, fetch_session)
    return None if change is None else (decision, topics, fetch_session, change)


def _pass(session: ConnectionState, found: _Found, size: int, correlation_id: int, missing: int, now: float) -> bool:
    """Records it as sent to the port's broker. False: the slow path has to handle it."""
    decision, topics, fetch_session, change = found
    context, in_flight = session.context, session.in_flight
    shared, lane, queue = context.shared, context.here, in_flight.queue
    auth_state, lease = session.client.auth_state, shared.lease
    upstream = session.upstreams.get(lane) if lane is not None else None
    if (
        upstream is None
        or upstream.writing is not BETWEEN
        or auth_state is not decision.auth_state
        or now >= auth_state.expires_at
        or now >= lease.valid_until
        or now < session.throttling.muted_until
        or in_flight.retry_backoff.counts
        or len(queue) >= shared.max_in_flight
        or size > shared.limits.max_request_bytes
    ):
        return False
    context.now = now
    intake = session.intake
    intake.headers_read += 1
    request, revision = decision.request.again(correlation_id), context.snapshot.view.revision
    if request.api_key == _PRODUCE:
        pending = Passed(request, topics) if change is None else change.pending(request)
        in_flight.only_produce = True
        pending.basis = lease.generation, revision
        if missing > 0:
            intake.reading = upstream.writing = HalfSent(
                upstream.lane, missing, 4 + size, pending, topics, pending.basis
            )
    else:
        reads = topics if fetch_session is None else fetch_session.topics
        pending = Passed(request, reads=reads) if change is None else change.pending(request)
        in_flight.only_produce = False
        pending.in_session, pending.waits_ms = fetch_session is not None, decision.waits_ms
        if decision.begins is not None:
            session.fetching.leave_session()
            session.fetching.fetch_session = pending.begins = fetch_session
    request.came_at = now
    pending.lane = lane
    pending.revision = revision
    queue.append(pending)
    upstream.queue.append(pending)
    shared.counts.requests[request.api_key, pending.outcome] += 1
    return True


# -- answers ----------------------------------------------------------------------------------------------------------


def _answers_pass(session: ConnectionState) -> bool:
    """True if the client is connected, and neither its bytes nor another broker's answer waits for an answer to go."""
    life, upstreams = session.context.life, session.upstreams
    return (
        type(life) is Open
        and life.connected
        and session.intake.waits_for is None
        and (len(upstreams) == 1 or not any(one.blocked for one in upstreams.values()))
    )


def rest_of_answer(session: ConnectionState, upstream: Upstream, now: float) -> int:
    """Missing bytes of an answer that has begun to go to the client: this many may follow, unseen. 0: there is none, or
    they may not, or another answer may have to follow it."""
    context, queue = session.context, session.in_flight.queue
    answer, context.now = upstream.answer, now
    if (
        type(answer) is not Streaming
        or not _answers_pass(session)
        or (len(queue) > 1 and type(queue[1]) not in _IN_ORDER)
        or not (answer.basis is None or context.still_valid(answer.basis))
    ):
        return 0
    return answer.missing


def rest_of_answer_went(session: ConnectionState, upstream: Upstream, count: int, now: float) -> None:
    answer = upstream.answer
    assert isinstance(answer, Streaming)
    session.context.now = now
    answer.missing -= count
    if not answer.missing:
        upstream.answer = None
        upstream.queue.popleft()
        del session.in_flight.queue[0]


def answers(session: ConnectionState, upstream: Upstream, buf: bytearray, end: int, now: float) -> int:
    """Bytes `buf[:end]` of a broker, while `upstream` carries none: returns how many go to the client as they are."""
    pos = 0
    if upstream.answer is not None:
        pos = min(rest_of_answer(session, upstream, now), end)
        if pos == 0:
            return 0
        rest_of_answer_went(session, upstream, pos, now)
        if pos == end:
            return end
    if not _answers_pass(session):
        return pos
    context, queue, owed = session.context, session.in_flight.queue, upstream.queue
    shared, quotas = context.shared, session.throttling.quotas
    context.now = now
    while end - pos >= _ANSWER_BYTES and owed:
        size, correlation_id = _ANSWER(buf, pos)
        pending, after = owed[0], pos + 4 + size
        request = pending.request
        if (
            type(pending) not in _IN_ORDER
            or queue[0] is not pending
            or request.correlation_id != correlation_id
            or not 4 <= size <= shared.limits.max_response_bytes
            or pending.due_at > now
            or now >= shared.lease.valid_until
            or not (pending.basis is None or context.still_valid(pending.basis))
            or (quotas is not None and (request.throttle_ms or session.throttling.charges(request, now) is not None))
        ):
            break
        if pending.begins is not None:
            if after > end and end - pos < SESSION_ID_BYTES:
                break
            pending.begins.id = session_id_of(buf, pos, 4 + size, request.api_version)
        if after > end:
            if type(pending) is not Passed:
                break
            upstream.answer = Streaming(after - end, pending.basis)
            if request.api_key <= LAST_TIMED:
                shared.counts.latencies.passed(request.api_key, request.came_at, pending.sent_at, now)
            return end
        if len(queue) > 1 and type(queue[1]) not in _IN_ORDER:
            break
        if type(pending) is not Passed and not _patch(pending, buf, pos, after):
            break
        if request.api_key <= LAST_TIMED:
            shared.counts.latencies.passed(request.api_key, request.came_at, pending.sent_at, now)
        owed.popleft()
        del queue[0]
        pos = after
    return pos


def _patch(pending: Pending | Discarded, buf: bytearray, at: int, end: int) -> bool:
    """Patches a complete answer. False: the slow path handles it, or reports its damage. (A damaged one may be half
    patched by then. The damage is still there, and ends the connection; no byte of it has gone out.)"""
    if type(pending) is Shifted:
        return pending.answer_template is not None and pending.answer_template.shift(buf, at, end, pending.shifts)
    if type(pending) is Patched:
        version, reads = pending.request.api_version, pending.reads
        usual = version == USUAL_VERSION and len(reads) == 1
        try:
            if usual and patch_usual(buf, at, end, reads[0], pending.shifts):
                return True
            patcher = FetchPatcher(version, end - at - 4, pending.shifts)
            return patcher.feed(buf, at + 4, end) == end
        except RemoteProtocolError:
            return False
    return False
