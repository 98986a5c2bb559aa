"""Produce requests of very many partitions: judged and sent part by part, and answered as one request.

Judging a partition uses state that all connections share, so the event loop does it, and serves other connections after
each part. Each part is judged by the newest state when it is sent. The client's next request waits until the last part
has been sent, and an operation waits until all parts are answered: for both it is one request. Parts that were not sent
when an operation fenced a topic of the request are refused, so that the operation does not wait for many answers.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import partial
from typing import Any

from gateway.model.rights import missing
from gateway.runtime.offload import free
from gateway.session.commands import Cause
from gateway.session.handler import RequestHandler
from gateway.session.pending import Exchange, OffloadStep, QueuedAnswer, Send, StandInLine, WaitForState
from gateway.session.produce.judgement import ProduceJudgement, acknowledged, notice
from gateway.session.produce.long import LongProduce, ProducePart
from gateway.session.produce.producer_order import Key, RefusedBatch
from gateway.session.produce.split import batches_at_cuts, decided_by, write_across
from gateway.session.refusal import Refusal
from gateway.session.request import Message, Request, text
from gateway.session.state import ConnectionState


class LongProduceRequest(RequestHandler):
    """A produce request that was decoded off the event loop.

    :ivar refused: batches that their producers must send again before later ones.
    """

    def __init__(self, session: ConnectionState, request: Request, long: LongProduce) -> None:
        super().__init__(session, request)
        self._long = long
        self._topics = frozenset(long.topics)
        self._revision = session.context.snapshot.view.revision
        """The revision at which the request began."""
        self._until = decided_by(session.context.now, long.timeout_ms)
        self.refused: list[RefusedBatch] = []
        self._said: dict[str, list[Message]] = {}
        """The answer so far: topic → partition responses."""
        self._throttle_time_ms = 0
        self._refusals: set[Refusal] = set()
        self._first: tuple[Key, ...] = ()
        """Partitions of the first part that was refused as a whole."""
        self._audited = False
        self._sent = self._written = self._failed = False
        """True if any partition was sent, was written, or failed."""

    def handle(self) -> None:
        session, request = self.session, self.request
        session.intake.preparing = request
        session.intake.count_held(request.end - request.start)
        session.exchanges.begin(request, self._go(), self._long.topics, refused=self.refused)

    def _go(self) -> Exchange:
        session, long = self.session, self._long
        while long.left:
            part: ProducePart = yield OffloadStep(long.next_part)
            if not long.left:
                session.intake.preparing = None  # the client's next request is sent after this part
                session.intake.let_go()
            self._take_over((yield from self._handle_part(part)))
        hold_s = self._hold_s()
        if long.acks == 0:
            if self._failed:
                session.intake.leave(Cause.REFUSED_WITHOUT_ANSWER, "produce with acks=0 was refused")
            return QueuedAnswer(b"", hold_s, promises=self._written)
        frame = yield OffloadStep(partial(_frame, self.request, self._said, self._throttle_time_ms))
        return QueuedAnswer(frame, hold_s, promises=self._written)

    def _handle_part(
        self, part: ProducePart
    ) -> Generator[Send | OffloadStep | StandInLine | WaitForState, Any, Message]:
        """Sends the batches of a part that are not refused here. Returns the part's answer."""
        session, request = self.session, self.request
        routes, transactional = session.client.routes(request.client_id), self._long.transactional_id is not None
        judgement = ProduceJudgement(session, part.request, part.batches, self._long.repeated, refused=self.refused)
        at_cuts = batches_at_cuts(part.request, part.batches, transactional, routes)
        if self._denied():
            judgement.deny()
        else:
            judgement.judge(routes, transactional, Refusal.FENCE if self._holds_up_a_fence() else None)
            self._audited = self._audited or session.authorization.audit_denied(request, judgement.local)
        self._refusals.update(judgement.refusals)
        if len(judgement.local) == len(judgement.batches):
            self._first = self._first or tuple(judgement.batches)
            return judgement.answer({})
        self._sent = True
        notice(session, request, part.scan, judgement.local)
        session.throttling.wrote(part.request, part.scan, session.context.now)
        request.throttle_ms = max(request.throttle_ms, part.request.throttle_ms)
        request.held_until = max(request.held_until, part.request.held_until)
        crossing = {key: sent for key, sent in at_cuts.items() if key not in judgement.local}
        if crossing:
            return (yield from write_across(judgement, part.scan.timeout_ms, crossing, self._until))
        frames = yield Send({session.context.broker: judgement.frame()})
        return judgement.merged(frames[session.context.broker])

    def _holds_up_a_fence(self) -> bool:
        """True if an operation that began after the request waits for it."""
        seen = self.session.context.snapshot
        return seen.view.revision > self._revision and any(
            not scope.topics.isdisjoint(self._topics) for scope in seen.fences.scopes.values()
        )

    def _hold_s(self) -> float:
        """Hold time for a long request that is refused as a whole, as for a short one."""
        if self._sent or not self._refusals:
            return 0.0
        return max(why.hold_s for why in self._refusals) or self.session.in_flight.retry_backoff.refused(self._first)

    def _denied(self) -> bool:
        """True if the user may not write with the request's transactional id."""
        session, long, verdicts = self.session, self._long, self.session.client.verdicts
        if long.transactional_id is None or not long.in_transaction or verdicts is None:
            return False
        message = {"transactional_id": text(long.transactional_id)}
        denied = missing(verdicts, self.request.api.asks.needs, message)
        if denied is not None and not self._audited:
            self._audited = True
            session.authorization.audit(self.request, (denied,))
        return denied is not None

    def _take_over(self, answer: Message) -> None:
        self._written = self._written or bool(acknowledged(answer))
        self._throttle_time_ms = max(self._throttle_time_ms, answer["throttle_time_ms"])
        for topic in answer["responses"]:
            entries = topic["partition_responses"]
            self._failed = self._failed or any(entry["error_code"] for entry in entries)
            self._said.setdefault(topic["name"], []).extend(entries)


def _frame(request: Request, answered: dict[str, list[Message]], throttle_time_ms: int) -> bytes:
    """Encodes the whole answer. Called in a worker thread, which also frees the parts."""
    responses: list[Message] = [{"name": name, "partition_responses": entries} for name, entries in answered.items()]
    answered.clear()
    frame = request.answer({"throttle_time_ms": throttle_time_ms, "responses": responses})
    free(responses)
    return frame
