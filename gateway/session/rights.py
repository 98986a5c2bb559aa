"""Authorization: requests for coordinators and brokers are judged here, topics of the data path by `Routes`."""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TypeVar

from gateway.model.rights import MAX_TOLD, Denied, Gate, allows, objection
from gateway.session.commands import AuditDenial, BrokerLane, Cause
from gateway.session.context import SessionContext
from gateway.session.exchange import ask_broker, is_long
from gateway.session.fetch.fetch_session import empty_answer, once_each
from gateway.session.pending import Exchange, ExchangeAnswer, OffloadStep, Passed
from gateway.session.readiness import HalfSent
from gateway.session.refusal import FOR_GOOD, Refusal, refusal_frame
from gateway.session.request import Message, NeedsPreparingError, Request, text
from gateway.session.snapshot import Snapshot
from gateway.session.state import ConnectionState
from ha_core.plan.access.rights import Verdicts
from ha_core.wire import APIS, ApiKey
from ha_core.wire.rights import Each

K = TypeVar("K", tuple[bytes, int], tuple[str, int])

(_READS,) = APIS[ApiKey.FETCH].asks.each
(_WRITES,) = APIS[ApiKey.PRODUCE].asks.each


class Authorization:
    """Judges the requests of one client, except topics of the data path, which `Routes` judges."""

    __slots__ = ("_client", "_context", "_in_flight", "_session")

    def __init__(self, session: ConnectionState) -> None:
        self._session = session
        self._context, self._client, self._in_flight = session.context, session.client, session.in_flight

    def gate(self, request: Request, message: Message) -> Gate | None:
        """The allowed part of a request; None: all of it, and the broker's answer goes to the client. If nothing is
        allowed, the client is answered here."""
        verdicts, prepared = self._client.routes(request.client_id).verdicts, request.prepared
        if verdicts is None:
            return None
        if prepared is not None and prepared.verdicts is not verdicts:
            raise NeedsPreparingError
        found = prepared.gate if prepared is not None else Gate(verdicts, request.api, request.api_version, message)
        if found is None:
            return None
        if found.denied:
            self.audit(request, found.denied)
            self._context.count_refused(Refusal.DENIED for _ in found.denied)
        if found.answer is not None:
            self._in_flight.answer_refused(request, found.answer, (Refusal.DENIED,), (request.api_key,))
        return found if found.answer is not None or found.amends else None

    def member(self, request: Request, group: bytes) -> bool:
        """True if the client may send a request that needs only its group; otherwise it is answered."""
        verdicts, needs = self._client.verdicts, request.api.asks.needs
        if verdicts is None or all(allows(verdicts, need.operation, need.resource, text(group)) for need in needs):
            return True
        self.gate(request, request.read())
        return False

    def audit(self, request: Request, denied: Iterable[Denied]) -> None:
        self._context.emit(AuditDenial(request.api_key, tuple(dict.fromkeys(denied))))

    def audit_denied(self, request: Request, refused: Mapping[K, object]) -> bool:
        """Audits the denied topics of a produce or fetch request. Returns True if there were any."""
        topics: dict[bytes | str, None] = {}
        for key, why in refused.items():
            if why in FOR_GOOD:
                topics[key[0]] = None
                if len(topics) == MAX_TOLD:
                    break
        if topics:
            self.audit(request, [self._denied(request, topic) for topic in topics])
        return bool(topics)

    def _denied(self, request: Request, topic: bytes | str) -> Denied:
        (each,), verdicts = request.api.asks.each, self._client.routes(request.client_id).verdicts
        right = each.operation, each.resource, topic if isinstance(topic, str) else text(topic)
        return Denied(*right, "" if verdicts is None else objection(verdicts, *right))

    def follow(self, before: Snapshot) -> None:
        """Applies new rights and remote topics: fetches that wait for topics that are denied now are answered, so that
        the client retries, and the rest of a produce to topics that are denied now is not taken.

        A broker judges a request when it is complete: the client could choose the remaining bytes after it lost the
        right.
        """
        verdicts, now = self._client.verdicts, self._context.snapshot
        if verdicts is None or (now.rights is before.rights and now.remote_topics is before.remote_topics):
            return
        half = self._session.intake.reading
        if isinstance(half, HalfSent) and not (
            verdicts.everything if half.writes is None else _may(verdicts, _WRITES, half.writes)
        ):
            self._session.intake.leave(
                Cause.RIGHT_LOST, "the client lost the right to write in the middle of a request"
            )
        reads = once_each(lambda topics: _may(verdicts, _READS, topics), unseen=False)
        for pending in tuple(self._in_flight.queue):
            if isinstance(pending, Passed) and not reads(pending.reads):
                self._in_flight.abandon(pending, pending.request.answer(empty_answer(pending.in_session)))
        fetch_session = self._session.fetching.fetch_session
        if fetch_session is not None and not reads(fetch_session.topics):
            fetch_session.ends = True
        self._in_flight.flush()


def amended(context: SessionContext, request: Request, gate: Gate, lane: BrokerLane) -> Exchange:
    """Sends the allowed part of a request, and adds the denied part to the answer."""
    answered = yield from ask_broker(context, request, gate.request, lane)
    if answered is None:
        context.count_refused((Refusal.LEASE,))
        refused = yield OffloadStep(partial(refusal_frame, request, gate.request, Refusal.LEASE, gate.amend))
        return ExchangeAnswer(refused, promises=False)
    if is_long(request, answered):
        return ExchangeAnswer((yield OffloadStep(partial(_amended, request, gate, answered))))
    return ExchangeAnswer(_amended(request, gate, answered))


def _amended(request: Request, gate: Gate, answered: bytearray) -> bytes:
    return request.answer(gate.amend(request.decode_answer(answered)))


def _may(verdicts: Verdicts, need: Each, topics: Iterable[bytes]) -> bool:
    return all(allows(verdicts, need.operation, need.resource, text(topic)) for topic in topics)
