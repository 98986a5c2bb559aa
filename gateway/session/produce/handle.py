"""Handles produce requests: forwarded unchanged where possible, else judged, and split at a cut ahead."""

from gateway.model.rights import missing
from gateway.session.commands import Cause
from gateway.session.fast.cached_decision import CachedDecision
from gateway.session.fast.produce_patch import SettledTopic
from gateway.session.handler import RequestHandler
from gateway.session.pending import (
    Exchange,
    ExchangeAnswer,
    InFlight,
    Passed,
    Send,
    Shifted,
)
from gateway.session.produce.duplicate_offsets import find_held
from gateway.session.produce.judgement import ProduceJudgement, notice
from gateway.session.produce.long import LongProduce, LongProduceRequest
from gateway.session.produce.split import batches_at_cuts, split
from gateway.session.readiness import HalfSent
from gateway.session.request import NeedsPreparingError, Request, text
from gateway.session.rights import Authorization
from gateway.session.routes import Routes
from ha_core.wire import RemoteProtocolError
from ha_core.wire.errors import TooManyElementsError
from ha_core.wire.limits import PARTITIONS_AT_ONCE
from ha_core.wire.produce import ProduceScan, scan_produce
from ha_core.wire.records import IN_TRANSACTION, first_batch
from ha_core.wire.templates import ProduceTemplate


class ProduceRequest(RequestHandler):
    """A produce request, complete or beginning to arrive."""

    __slots__ = ()

    def handle(self) -> None:
        """Handles a complete request."""
        session, context, request = self.session, self.context, self.request
        found = None if request.prepared is None else request.prepared.found
        if isinstance(found, LongProduce):
            LongProduceRequest(session, request, found).handle()
            return
        try:
            scan = _scan(request)
        except TooManyElementsError:
            raise NeedsPreparingError from None
        if scan is None or not scan.complete:
            raise RemoteProtocolError("a produce request ends inside its partitions")
        routes = session.client.routes(request.client_id)
        transactional = scan.transactional_id is not None
        if scan.transactional_id is not None and not self._may_write_in(scan, scan.transactional_id):
            return
        topics = {entry[0] for entry in scan.partitions}
        ordinary = (
            context.leased() and not transactional and not session.client.producer_order.watches(topics, context.now)
        )
        if ordinary and routes.writes(topics):
            self._pass(scan, topics)
            return
        judgement = ProduceJudgement.of(session, request, scan)
        at_cuts = batches_at_cuts(request, judgement.batches, transactional, routes)
        judgement.judge(routes, transactional)
        Authorization(session).audit_denied(request, judgement.local)
        crossing = {key: sent for key, sent in at_cuts.items() if key not in judgement.local}
        if len(judgement.local) == len(judgement.batches):
            self._answer(judgement, scan)
        elif crossing:
            notice(session, request, scan, judgement.local)
            session.throttling.wrote(request, scan, context.now)
            session.exchanges.start(
                request, split(judgement, scan, crossing), judgement.topics, refused=judgement.refused
            )
        else:
            self._write(judgement, scan)

    def _may_write_in(self, scan: ProduceScan, transactional_id: bytes) -> bool:
        """True if the client may write in the transaction that it names; otherwise it is answered.

        Like a broker, the gateway demands the right only if a batch has the transactional flag.
        """
        session, request = self.session, self.request
        verdicts, message = session.client.verdicts, {"transactional_id": text(transactional_id)}
        if verdicts is None or (denied := missing(verdicts, request.api.asks.needs, message)) is None:
            return True
        judgement = ProduceJudgement.of(session, request, scan)
        if not any(batch is not None and batch.attributes & IN_TRANSACTION for batch in judgement.batches.values()):
            return True
        Authorization(session).audit(request, (denied,))
        judgement.deny()
        self._answer(judgement, scan)
        return False

    def stream(self) -> bool:
        """Forwards the beginning of a request whose rest has not arrived, if all of it certainly passes."""
        session, context, request = self.session, self.context, self.request
        try:
            scan = _scan(request)
        except TooManyElementsError:
            return False
        routes = session.client.routes(request.client_id)
        if scan is None or scan.transactional_id is not None or not context.leased():
            return False
        if not scan.complete and session.throttling.needs_all_topics(request, context.now):
            return False
        topics = {entry[0] for entry in scan.partitions}
        in_order = not session.client.producer_order.watches(topics if scan.complete else None, context.now)
        if in_order and (routes.plain or scan.complete) and routes.writes(topics):
            pending = self._pass(scan, topics)
        elif scan.complete and len(scan.partitions) == 1:
            judgement = self._judge_head(scan, routes)
            if judgement is None:
                return False
            pending = self._write(judgement, scan)
        else:
            return False
        size, writes = len(request.frame) + request.missing, tuple(topics) if scan.complete else None
        half = session.intake.reading = HalfSent(
            context.broker, request.missing, size, pending, writes, context.basis()
        )
        session.upstreams[context.broker].begin(half)
        return True

    def _judge_head(self, scan: ProduceScan, routes: Routes) -> ProduceJudgement | None:
        """Judges a request of one partition and one batch of which only the beginning has arrived.

        None if that is not enough to decide, or if it is refused: then the whole request has to be read first.
        """
        request = self.request
        topic, partition, at, length = scan.partitions[0]
        route = routes.topic(topic)
        batch = first_batch(request.buf, at, request.end, at + length) if length > 0 else None
        if (
            batch is None
            or route.no_produce is not None
            or find_held(route.sequences, (topic, partition), batch)  # a look-up's time limit starts with the first try
            or (route.topic is not None and route.topic.crosses(partition))
        ):
            return None
        judgement = ProduceJudgement(self.session, request, {(topic, partition): batch})
        return judgement if judgement.judge_batch(routes, (topic, partition), batch) is None else None

    def _pass(self, scan: ProduceScan, topics: set[bytes]) -> InFlight | None:
        """Forwards the request unchanged. None: it has no answer."""
        session, context, request = self.session, self.context, self.request
        notice(session, request, scan)
        session.throttling.wrote(request, scan, context.now)
        if scan.acks == 0:
            session.upstreams.send_unacknowledged(context.broker, request.frame, topics, scan.complete)
            return None
        if (template := self._template(scan)) is not None:
            decision = CachedDecision(template, request, session.client.auth_state)
            session.decisions.remember(decision, session.fetching.fetch_session)
        pending = Passed(request, tuple(topics) if scan.complete else None)
        session.in_flight.pass_on(pending, context.broker, request.frame)
        return pending

    def _write(self, judgement: ProduceJudgement, scan: ProduceScan) -> InFlight | None:
        """Forwards the partitions that are not answered here; the answer is rebuilt in client offsets. None: no
        answer."""
        session, context, request = self.session, self.context, self.request
        notice(session, request, scan, judgement.local)
        session.throttling.wrote(request, scan, context.now)
        if scan.acks != 0 and (judgement.local or judgement.openers):
            return session.exchanges.start(request, _written(judgement), judgement.topics, refused=judgement.refused)
        if scan.acks != 0:
            settled = None
            template = self._template(scan) if len(judgement.topics) == 1 else None
            if template is not None:
                settled = SettledTopic(
                    judgement.topics[0], session.client.routes(request.client_id), request.api_version
                )
                decision = CachedDecision(template, request, session.client.auth_state, {judgement.topics[0]: settled})
                session.decisions.remember(decision, session.fetching.fetch_session)
            pending = Shifted(
                request,
                judgement.topics,
                shifts=judgement.shifts,
                answer_template=settled.answer_template if settled else None,
            )
            session.in_flight.pass_on(pending, context.broker, judgement.frame())
            return pending
        session.upstreams.send_unacknowledged(context.broker, judgement.frame(), judgement.topics, complete=True)
        if judgement.refusals:
            self._leave_unanswered(judgement)
        return None

    def _template(self, scan: ProduceScan) -> ProduceTemplate | None:
        """Template of requests that are treated alike; None if each has to be examined."""
        request = self.request
        if not self.session.throttling.unlimited(request, self.context.now):
            return None
        start, end, version = request.start, request.end, request.api_version
        return ProduceTemplate.of(request.buf, start, request.body_at, end, end + request.missing, version, scan)

    def _answer(self, judgement: ProduceJudgement, scan: ProduceScan) -> None:
        """Answers a request without forwarding: refused, or held by earlier writer epochs."""
        refusals = judgement.refusals
        if scan.acks == 0 and refusals:
            self._leave_unanswered(judgement)
        elif refusals:
            self.session.in_flight.answer_refused(
                self.request, judgement.answer({}), refusals, judgement.batches, judgement.fence, judgement.refused
            )
        elif scan.acks != 0:
            self.session.in_flight.reply(self.request, judgement.answer({}))

    def _leave_unanswered(self, judgement: ProduceJudgement) -> None:
        """Ends the session, since no answer can carry the refusal. A broker that is not the leader of a partition
        writes the others, and closes the connection: earlier requests are executed and answered."""
        why = judgement.refusals[0].words
        self.session.client.producer_order.delivered(judgement.refused, self.context.now)
        self.session.intake.leave(Cause.REFUSED_WITHOUT_ANSWER, f"produce with acks=0 was refused: {why}")


def _scan(request: Request) -> ProduceScan | None:
    """:raises TooManyElementsError: it names more partitions than are judged at once."""
    start, end, version, body_at = request.start, request.end, request.api_version, request.body_at
    return scan_produce(request.buf, start, end, version, body_at, end + request.missing, PARTITIONS_AT_ONCE)


def _written(judgement: ProduceJudgement) -> Exchange:
    lane = judgement.session.context.broker
    frame = (yield Send({lane: judgement.frame()}))[lane]
    return ExchangeAnswer(judgement.request.answer(judgement.merged(frame)))
