"""Handles produce requests: passed where nothing needs a look, else judged, and split where a cut lies ahead."""

from __future__ import annotations

from collections.abc import Collection

from gateway.session import exchange, streaming
from gateway.session.commands import Cause, Inquire, LookUp
from gateway.session.pending import Answer, Exchange, InFlight, Passed, Send
from gateway.session.produce.split import batches_at_cuts, split
from gateway.session.produce.verdict import (
    TAKEN,
    Key,
    Verdict,
    batch_of_each,
    judge,
    judge_head,
    judge_issuers,
    merged,
    note_refused,
    passes,
    without,
)
from gateway.session.request import Request, text
from gateway.session.state import ConnectionState
from ha_core.wire import ErrorCode, RemoteProtocolError
from ha_core.wire.produce import ProduceScan, patch_produce_response, scan_produce


def produce(session: ConnectionState, request: Request) -> None:
    """A whole request."""
    scan = _scan(request)
    if scan is None or not scan.complete:
        raise RemoteProtocolError("a produce request ends inside its partitions")
    routes = session.routes(request.client_id)
    if not session.leased():
        batches = batch_of_each(request, scan)
        verdict = Verdict(batches)
        verdict.refused = dict.fromkeys(batches, ErrorCode.NOT_LEADER_OR_FOLLOWER)
        note_refused(session, batches, verdict.refused)
        _refuse(session, request, scan, verdict)
        return
    ordinary = scan.transactional_id is None and not session.settings.producer_order.watches(session.now)
    if ordinary and passes(scan, routes):
        _pass(session, request, scan)
        return
    batches = batch_of_each(request, scan)
    at_cuts = batches_at_cuts(request, batches, scan.transactional_id is not None, routes)
    verdict = judge(session, request, batches, routes)
    if scan.transactional_id is not None:
        judge_issuers(session, request, batches, verdict)
    for wanted in verdict.look_up:
        session.emit(LookUp(wanted))
    for topic, partition in verdict.early:
        session.emit(Inquire(session.broker.cluster, text(topic), partition))
    if len(verdict.refused) == len(batches):
        _refuse(session, request, scan, verdict)
        return
    crossing = {key: sent for key, sent in at_cuts.items() if key not in verdict.refused}
    if not crossing:
        _write(session, request, scan, verdict)
        return
    _notice(session, request, scan, verdict.refused)
    exchange.begin(session, request, split(session, request, scan, verdict, crossing), verdict.topics)


def stream_produce(session: ConnectionState, request: Request) -> bool:
    """Forwards the beginning of a request whose rest has not arrived, if it is certain that all of it passes."""
    scan = _scan(request)
    routes = session.routes(request.client_id)
    if scan is None or scan.transactional_id is not None or not session.leased():
        return False
    in_order = not session.settings.producer_order.watches(session.now)
    if in_order and (routes.plain or scan.complete) and passes(scan, routes):
        pending = _pass(session, request, scan)
    elif scan.complete and len(scan.partitions) == 1:
        verdict = judge_head(session, request, scan, routes)
        if verdict is None:
            return False
        pending = _write(session, request, scan, verdict)
    else:
        return False
    streaming.begin(session, session.broker, request.missing, pending)
    return True


def _scan(request: Request) -> ProduceScan | None:
    start, end = request.start, request.end
    return scan_produce(request.buf, start, end, request.api_version, request.body_at, end + request.missing)


def _pass(session: ConnectionState, request: Request, scan: ProduceScan) -> InFlight | None:
    """Sends it as it is. None: it has no answer."""
    _notice(session, request, scan)
    topics = {partition[0] for partition in scan.partitions}
    if scan.acks == 0:
        session.send_unacknowledged(session.broker, request.frame, topics, scan.complete)
        return None
    pending = Passed(request, tuple(topics) if scan.complete else None)
    session.pass_on(pending, session.broker, request.frame)
    return pending


def _write(session: ConnectionState, request: Request, scan: ProduceScan, verdict: Verdict) -> InFlight | None:
    """Sends what was not refused; its answer is made anew, in client offsets. None: it has no answer."""
    _notice(session, request, scan, verdict.refused)
    if scan.acks != 0:
        return exchange.begin(session, request, _written(session, request, verdict), verdict.topics)
    session.send_unacknowledged(session.broker, without(request, verdict), verdict.topics, complete=True)
    if not TAKEN.issuperset(verdict.refused.values()):
        _leave_unanswered(session)
    return None


def _written(session: ConnectionState, request: Request, verdict: Verdict) -> Exchange:
    lane = session.broker
    frames = yield Send({lane: without(request, verdict)})
    frame = frames[lane]
    if verdict.refused or verdict.openers:
        return Answer(request.answer(merged(session, request, verdict, frame)))
    answer = frame[4:]
    patch_produce_response(answer, request.api_version, verdict.shifts)
    return Answer(frame[:4] + answer)


def _notice(session: ConnectionState, request: Request, scan: ProduceScan, refused: Collection[Key] = ()) -> None:
    for topic, partition, _, _ in scan.partitions:
        if (topic, partition) not in refused:
            session.notice(request, "topic", topic, "produce")
            session.damping.forwarded((topic, partition))


def _refuse(session: ConnectionState, request: Request, scan: ProduceScan, verdict: Verdict) -> None:
    """Answers a request of which nothing is forwarded: refused, or held by earlier terms."""
    if scan.acks == 0:
        _leave_unanswered(session)
    elif TAKEN.issuperset(verdict.refused.values()):
        session.reply(request, verdict.answer({}))
    else:
        session.refuse(request, verdict.answer({}), verdict.fence, verdict.keys)


def _leave_unanswered(session: ConnectionState) -> None:
    """There is no answer to say it in. A broker that is not the leader of a partition writes the others, and closes the
    connection: what came before is executed and answered."""
    streaming.leave(session, Cause.REFUSED_WITHOUT_ANSWER, "produce with acks=0 to a partition that is elsewhere")
