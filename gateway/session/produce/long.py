"""Produce requests of very many partitions: a worker thread decodes them and cuts them into parts (`preparing`), which
are judged and sent one by one."""

from collections.abc import Generator
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from gateway.model.rights import missing
from gateway.runtime.offload import free
from gateway.session.commands import Cause
from gateway.session.handler import RequestHandler
from gateway.session.pending import (
    Exchange,
    ExchangeAnswer,
    OffloadStep,
    Send,
    StandInLine,
    WaitForState,
)
from gateway.session.produce.judgement import Batches, ProduceJudgement, acknowledged, batch_of_each, notice, repeated
from gateway.session.produce.producer_order import Key, RefusedBatch
from gateway.session.produce.split import batches_at_cuts, decided_by, write_across
from gateway.session.refusal import Refusal
from gateway.session.request import Message, Request, text
from gateway.session.rights import Authorization
from gateway.session.state import ConnectionState
from ha_core.wire import RemoteProtocolError, read_request_header
from ha_core.wire.produce import Entry, ProduceScan, scan_produce
from ha_core.wire.records import IN_TRANSACTION

PARTITIONS_OF_A_PART = 200
"""The event loop judges and sends this many at once, or reads their answer, in some milliseconds."""


class ProducePart(NamedTuple):
    """Some partitions of a long produce request, as a request of their own."""

    request: Request
    scan: ProduceScan
    batches: Batches


class LongProduce:
    """:ivar acks: as the client set it.
    :ivar in_transaction: True if a batch has the transactional flag.
    :ivar topics: all topics of the request.
    :ivar repeated: partitions that the request names more than once. The parts hold one batch of each.
    :ivar left: number of parts that are not taken yet.
    """

    def __init__(self, request: Request) -> None:
        """:raises RemoteProtocolError: it is malformed. None of it has been sent by then."""
        self._request, self._buf = request, request.buf
        self._scan = scan = _scanned(request)
        batches = batch_of_each(request, scan)
        self.acks = scan.acks
        self.in_transaction = any(batch is not None and batch.attributes & IN_TRANSACTION for batch in batches.values())
        self.topics = tuple({entry[0] for entry in scan.partitions})
        try:
            self._names = {name: name.decode() for name in self.topics}
        except UnicodeDecodeError as error:
            raise RemoteProtocolError(f"a produce request names a topic that is not UTF-8: {error}") from None
        self.repeated = repeated(scan, batches)
        entries = scan.partitions
        if self.repeated:  # parts are judged separately, and the client gets one answer per partition
            entries = list({entry[:2]: entry for entry in entries}.values())
        self._entries: list[list[Entry]] = [
            entries[at : at + PARTITIONS_OF_A_PART] for at in range(0, len(entries), PARTITIONS_OF_A_PART)
        ]
        self._entries.reverse()

    @property
    def left(self) -> int:
        return len(self._entries)

    @property
    def timeout_ms(self) -> int:
        return self._scan.timeout_ms

    @property
    def transactional_id(self) -> bytes | None:
        return self._scan.transactional_id

    def next_part(self) -> ProducePart:
        """Call this in a worker thread: it copies the records."""
        whole, entries = self._request, self._entries.pop()
        records = memoryview(self._buf)
        topics = [
            {
                "name": self._names[name],
                "partition_data": [
                    {"index": index, "records": None if size < 0 else bytes(records[at : at + size])}
                    for _, index, at, size in group
                ],
            }
            for name, group in groupby(entries, itemgetter(0))
        ]
        if not self._entries:
            # The session counts the request's bytes until its last part is taken, and the answer may come much later.
            records.release()
            self._buf = bytearray()
        scan, transactional_id = self._scan, self.transactional_id
        body = {
            "transactional_id": None if transactional_id is None else transactional_id.decode(),
            # With acks=0 the gateway closes the client's connection on an error, so it needs the broker's answer.
            "acks": scan.acks or 1,
            "timeout_ms": scan.timeout_ms,
            "topic_data": topics,
        }
        frame = bytearray(whole.rewritten(body))
        header = read_request_header(frame, 4, len(frame))
        assert header is not None
        part = Request(header, frame, 0, len(frame), whole.limits)
        produce_scan = _scanned(part)
        return ProducePart(part, produce_scan, batch_of_each(part, produce_scan))


def _scanned(request: Request) -> ProduceScan:
    start, end = request.start, request.end
    scan = scan_produce(request.buf, start, end, request.api_version, request.body_at, end)
    if scan is None or not scan.complete:
        raise RemoteProtocolError("a produce request ends inside its partitions")
    return scan


class LongProduceRequest(RequestHandler):
    """A produce request of very many partitions, decoded off the event loop: judged and sent part by part, and answered
    as one request.

    Judging a partition uses state that all connections share, so the event loop does it, and serves other connections
    after each part. Each part is judged by the newest state when it is sent. The client's next request waits until the
    last part has been sent, and an operation waits until all parts are answered: for both it is one request. Parts that
    were not sent when an operation fenced a topic of the request are refused, so that the operation does not wait for
    many answers.

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
        session.exchanges.start(request, self._go(), self._long.topics, refused=self.refused)

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
            return ExchangeAnswer(b"", hold_s, promises=self._written)
        frame = yield OffloadStep(partial(_frame, self.request, self._said, self._throttle_time_ms))
        return ExchangeAnswer(frame, hold_s, promises=self._written)

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
            self._audited = self._audited or Authorization(session).audit_denied(request, judgement.local)
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
            Authorization(session).audit(self.request, (denied,))
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
