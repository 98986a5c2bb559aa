"""Handles produce requests: forwarded unchanged where possible, else judged, and split at a cut ahead."""

from __future__ import annotations

from gateway.model.rights import missing
from gateway.session import exchange, rights, streaming
from gateway.session.commands import Cause
from gateway.session.fast.cached_decision import CachedDecision, with_decision
from gateway.session.fast.produce_patch import SettledTopic
from gateway.session.lease_guard import basis, leased
from gateway.session.pending import Exchange, InFlight, Passed, QueuedAnswer, Send, Shifted
from gateway.session.produce import parts
from gateway.session.produce.judgement import ProduceJudgement, judge_head, notice
from gateway.session.produce.long import LongProduce
from gateway.session.produce.split import batches_at_cuts, split
from gateway.session.readiness import HalfSent
from gateway.session.refusing import answer_refused
from gateway.session.request import NeedsPreparingError, Request, text
from gateway.session.state import ConnectionState
from ha_core.wire import RemoteProtocolError
from ha_core.wire.errors import TooManyElementsError
from ha_core.wire.limits import PARTITIONS_AT_ONCE
from ha_core.wire.produce import ProduceScan, scan_produce
from ha_core.wire.records import IN_TRANSACTION
from ha_core.wire.templates import ProduceTemplate


def produce(session: ConnectionState, request: Request) -> None:
    """Handles a complete request."""
    found = None if request.prepared is None else request.prepared.found
    if isinstance(found, LongProduce):
        parts.begin(session, request, found)
        return
    try:
        scan = _scan(request)
    except TooManyElementsError:
        raise NeedsPreparingError from None
    if scan is None or not scan.complete:
        raise RemoteProtocolError("a produce request ends inside its partitions")
    routes = session.routes(request.client_id)
    transactional = scan.transactional_id is not None
    if scan.transactional_id is not None and not _may_write_in(session, request, scan, scan.transactional_id):
        return
    topics = {entry[0] for entry in scan.partitions}
    ordinary = leased(session) and not transactional and not session.producer_order.watches(topics, session.now)
    if ordinary and routes.writes(topics):
        _pass(session, request, scan, topics)
        return
    verdict = ProduceJudgement.of(session, request, scan)
    at_cuts = batches_at_cuts(request, verdict.batches, transactional, routes)
    verdict.judge(routes, transactional)
    rights.audit_denied(session, request, verdict.local)
    crossing = {key: sent for key, sent in at_cuts.items() if key not in verdict.local}
    if len(verdict.local) == len(verdict.batches):
        _answer(verdict, scan)
    elif crossing:
        notice(session, request, scan, verdict.local)
        session.throttling.wrote(request, scan, session.now)
        exchange.begin(session, request, split(verdict, scan, crossing), verdict.topics, refused=verdict.refused)
    else:
        _write(verdict, scan)


def _may_write_in(session: ConnectionState, request: Request, scan: ProduceScan, transactional_id: bytes) -> bool:
    """True if the client may write in the transaction that it names; otherwise it is answered.

    Like a broker, the gateway demands the right only if a batch has the transactional flag.
    """
    verdicts, message = session.verdicts, {"transactional_id": text(transactional_id)}
    if verdicts is None or (denied := missing(verdicts, request.api.asks.needs, message)) is None:
        return True
    verdict = ProduceJudgement.of(session, request, scan)
    if not any(batch is not None and batch.attributes & IN_TRANSACTION for batch in verdict.batches.values()):
        return True
    rights.audit(session, request, (denied,))
    verdict.deny()
    _answer(verdict, scan)
    return False


def stream_produce(session: ConnectionState, request: Request) -> bool:
    """Forwards the beginning of a request whose rest has not arrived, if all of it certainly passes."""
    try:
        scan = _scan(request)
    except TooManyElementsError:
        return False
    routes = session.routes(request.client_id)
    if scan is None or scan.transactional_id is not None or not leased(session):
        return False
    if not scan.complete and session.throttling.needs_all_topics(request, session.now):
        return False
    topics = {entry[0] for entry in scan.partitions}
    in_order = not session.producer_order.watches(topics if scan.complete else None, session.now)
    if in_order and (routes.plain or scan.complete) and routes.writes(topics):
        pending = _pass(session, request, scan, topics)
    elif scan.complete and len(scan.partitions) == 1:
        verdict = judge_head(session, request, scan, routes)
        if verdict is None:
            return False
        pending = _write(verdict, scan)
    else:
        return False
    size, writes = len(request.frame) + request.missing, tuple(topics) if scan.complete else None
    half = session.reading = HalfSent(session.broker, request.missing, size, pending, writes, basis(session))
    session.upstreams[session.broker].begin(half)
    return True


def _scan(request: Request) -> ProduceScan | None:
    """:raises TooManyElementsError: it names more partitions than are judged at once."""
    start, end, version, body_at = request.start, request.end, request.api_version, request.body_at
    return scan_produce(request.buf, start, end, version, body_at, end + request.missing, PARTITIONS_AT_ONCE)


def _pass(session: ConnectionState, request: Request, scan: ProduceScan, topics: set[bytes]) -> InFlight | None:
    """Forwards the request unchanged. None: it has no answer."""
    notice(session, request, scan)
    session.throttling.wrote(request, scan, session.now)
    if scan.acks == 0:
        session.send_unacknowledged(session.broker, request.frame, topics, scan.complete)
        return None
    if (like := _template(session, request, scan)) is not None:
        decision = CachedDecision(like, request, session.entry)
        session.flows = with_decision(session.flows, decision, session.fetch_session)
    pending = Passed(request, tuple(topics) if scan.complete else None)
    session.pass_on(pending, session.broker, request.frame)
    return pending


def _write(verdict: ProduceJudgement, scan: ProduceScan) -> InFlight | None:
    """Forwards the partitions that are not answered here; the answer is rebuilt in client offsets. None: no answer."""
    session, request = verdict.session, verdict.request
    notice(session, request, scan, verdict.local)
    session.throttling.wrote(request, scan, session.now)
    if scan.acks != 0 and (verdict.local or verdict.openers):
        return exchange.begin(session, request, _written(verdict), verdict.topics, refused=verdict.refused)
    if scan.acks != 0:
        settled = None
        like = _template(session, request, scan) if len(verdict.topics) == 1 else None
        if like is not None:
            settled = SettledTopic(verdict.topics[0], session.routes(request.client_id), request.api_version)
            decision = CachedDecision(like, request, session.entry, {verdict.topics[0]: settled})
            session.flows = with_decision(session.flows, decision, session.fetch_session)
        pending = Shifted(request, verdict.topics, shifts=verdict.shifts, like=settled.like if settled else None)
        session.pass_on(pending, session.broker, verdict.frame())
        return pending
    session.send_unacknowledged(session.broker, verdict.frame(), verdict.topics, complete=True)
    if verdict.refusals:
        _leave_unanswered(verdict)
    return None


def _written(verdict: ProduceJudgement) -> Exchange:
    lane = verdict.session.broker
    frame = (yield Send({lane: verdict.frame()}))[lane]
    return QueuedAnswer(verdict.request.answer(verdict.merged(frame)))


def _template(session: ConnectionState, request: Request, scan: ProduceScan) -> ProduceTemplate | None:
    """Template of requests that are treated alike; None if each has to be examined."""
    if not session.unlimited(request):
        return None
    start, end, version = request.start, request.end, request.api_version
    return ProduceTemplate.of(request.buf, start, request.body_at, end, end + request.missing, version, scan)


def _answer(verdict: ProduceJudgement, scan: ProduceScan) -> None:
    """Answers a request without forwarding: refused, or held by earlier writer epochs."""
    session, request, refusals = verdict.session, verdict.request, verdict.refusals
    if scan.acks == 0 and refusals:
        _leave_unanswered(verdict)
    elif refusals:
        answer_refused(session, request, verdict.answer({}), refusals, verdict.batches, verdict.fence, verdict.refused)
    elif scan.acks != 0:
        session.reply(request, verdict.answer({}))


def _leave_unanswered(verdict: ProduceJudgement) -> None:
    """Ends the session, since no answer can carry the refusal. A broker that is not the leader of a partition writes
    the others, and closes the connection: earlier requests are executed and answered."""
    session, why = verdict.session, verdict.refusals[0].words
    session.producer_order.delivered(verdict.refused, session.now)
    streaming.leave(session, Cause.REFUSED_WITHOUT_ANSWER, f"produce with acks=0 was refused: {why}")
