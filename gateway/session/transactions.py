"""Requests of transactional producers, and the producer ids of those without transactions.

A transaction lives in the cluster whose coordinator issued its producer's id. When the user is moved, what begins after
the cut begins in the target, under an id of the target; what began before can only end, where it began.

Invariant: a request that names such an id reaches the cluster that issued it and no other, under the id by which that
cluster knows it. Elsewhere the same number is another producer: the batch would be taken for a duplicate, appended to
a stranger's transaction, or leave one open for ever. The issuer lies in the id itself (`ha_core.model.producer`), so
this holds with any number of gateways, and through their restarts.

A request that names another cluster's producer is answered UNKNOWN_PRODUCER_ID (`BEGIN_ANEW`). Java, librdkafka and
franz-go abort the transaction, ask for a new id and go on (KIP-360); a client without KIP-360 ends its producer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from gateway.model.handler_registry import declare
from gateway.model.rights import Gate
from gateway.session import exchange, offloading, rights
from gateway.session.lease_guard import leased
from gateway.session.pending import EndedTransaction, Exchange, OffloadStep, Passed, QueuedAnswer
from gateway.session.refusal import Refusal
from gateway.session.refusing import refusal_frame, refuse
from gateway.session.request import Message, Request
from gateway.session.state import ConnectionState
from gateway.session.transaction_writes import TransactionEvidence
from ha_core.model.producer import is_gateway_id
from ha_core.wire import ApiKey, ErrorCode

_MAX_EPOCH = 32_766
_TRY_AGAIN = frozenset(
    {
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.CONCURRENT_TRANSACTIONS,
    }
)
"""Answers after which a transaction is still open."""


def stays_open(answer: dict[str, Any]) -> bool:
    """Whether a transaction is still open after this answer to END_TXN."""
    return answer["error_code"] in _TRY_AGAIN


def told(session: ConnectionState, ends: EndedTransaction, answer: dict[str, Any]) -> None:
    """What the client is told of the end of its transaction.

    A commit that was on its way while a topic left its cluster by force may be of records that nobody reads: the client
    asks again, and it is judged.
    """
    committed = ends.commits and answer["error_code"] == ErrorCode.NONE
    if not stays_open(answer):
        session.shared.written.ended(ends.producer_id, committed=committed)
    if committed and not ends.doubted and ends.cluster in session.snapshot.fences.doubted:
        answer["error_code"] = int(ErrorCode.CONCURRENT_TRANSACTIONS)


Method = Callable[["Transactional"], Refusal | None]
HANDLERS: dict[int, Method] = {}


def handles(api_key: ApiKey) -> Callable[[Method], Method]:
    """Declares a method as the handler of an API whose row has the route `TRANSACTION`."""
    return lambda method: declare(HANDLERS, api_key, method)


def transaction(session: ConnectionState, request: Request) -> None:
    handler = Transactional(session, request)
    if session.verdicts is not None:
        handler.gate = rights.gate(session, request, handler.message)
        if handler.gate is not None:
            if handler.gate.answer is not None:
                return
            handler.message = handler.gate.request
    refusal = Refusal.INVALID if handler.invalid else HANDLERS[request.api_key](handler)
    if refusal is not None:
        amend = None if handler.gate is None else handler.gate.amend
        refuse(session, request, handler.message, refusal, handler.fence, amend)


def ends_here(session: ConnectionState, request: Request) -> bool:
    """Whether an END_TXN goes to the port's broker, and to no other."""
    return Transactional(session, request).ends_here


class Transactional:
    """One request. What handles it returns the refusal, if it is refused.

    :ivar ours: whether the port's cluster issued the producer id.
    :ivar unable: why nothing may be forwarded to the port's broker.
    :ivar fence: the operation whose fence stands on what the request is about.
    """

    def __init__(self, session: ConnectionState, request: Request) -> None:
        self.session = session
        self.request = request
        self.message = dict(request.read())
        self.open = session.transactions
        self.name: str = self.message["transactional_id"] or ""
        self.routes = session.routes(request.client_id)
        self.shown: int = self.message["producer_id"]
        self.issued = session.shared.issued(self.shown)
        self.ours = self.issued.cluster == session.port.cluster
        broker = None if session.here is not None else Refusal.NO_BROKER
        self.unable = broker if leased(session) else Refusal.LEASE
        self.fence: str | None = None
        self.ends: EndedTransaction
        """Of END_TXN."""
        self.gate: Gate | None = None
        """Where something of it was denied, or has to be kept from the client."""

    @property
    def invalid(self) -> bool:
        """Whether every broker says so. A group's coordinator does not look at the transactional id."""
        if self.request.api_key == ApiKey.INIT_PRODUCER_ID and (self.shown < 0) != (self.message["producer_epoch"] < 0):
            return True
        return self.message["transactional_id"] == "" and self.request.api_key != ApiKey.TXN_OFFSET_COMMIT

    @handles(ApiKey.INIT_PRODUCER_ID)
    def init(self) -> Refusal | None:
        """Every cluster counts producer ids from 0, so ids come from the gateways' own range.

        A producer that asks to raise its epoch (KIP-360) keeps its id; its sequences start at 0 again.
        """
        if self.message["transactional_id"] is not None:
            return self._init_transactional()
        producer_id, epoch = self.message["producer_id"], self.message["producer_epoch"] + 1
        if not is_gateway_id(producer_id) or not 0 < epoch <= _MAX_EPOCH:
            producer_id, epoch = self.session.shared.next_producer_id(), 0
        if producer_id is None:
            return Refusal.NO_PRODUCER_ID
        self.session.reply(self.request, {"error_code": 0, "producer_id": producer_id, "producer_epoch": epoch})
        return None

    def _init_transactional(self) -> Refusal | None:
        """A producer that names an id of another cluster, to have its epoch raised (KIP-360), is new in this one.

        Its coordinator would take it for an older producer of the same transactional id, and answer PRODUCER_FENCED.
        """
        refusal = self.unable or self.routes.transactions()
        if refusal is not None:
            return refusal
        self.message["producer_id"] = self.issued.own if self.ours else -1
        if not self.ours:
            self.message["producer_epoch"] = -1
        self._ask(self._initialised)
        return None

    def _initialised(self, answer: Message) -> None:
        if answer["error_code"] == ErrorCode.NONE:
            answer["producer_id"] = self.session.shared.shown(self.session.broker, answer["producer_id"])
            # What the producer had open, the coordinator has aborted.
            self.open.ended(self.name)

    @handles(ApiKey.ADD_PARTITIONS_TO_TXN)
    def add_partitions(self) -> Refusal | None:
        """A transaction takes partitions in: so it begins, for each client that sets out on a new one."""
        refusal = self._not_ours(self.routes.transactions())
        if refusal is not None:
            return refusal
        topics = tuple(topic["name"].encode() for topic in self.message["topics"])
        self.fence = self.open.fence_on(self.name, topics, self.session.snapshot.view, self.session.now)
        if self.fence is not None:
            refusal = Refusal.FENCE
        elif self._concealed():
            refusal = Refusal.CONCEALED
        elif self._written_elsewhere():
            # Taken in, it would get the marker of the transaction's end here: in a copy that is to stay empty until its
            # cut, or after the end of what was left.
            refusal = Refusal.WRITTEN_ELSEWHERE
        if refusal is None:
            self.session.shared.written.begins(self.shown)
            self._ask(self._added, topics)
            return None
        self.session.out += self.open.refused(self.name, refusal is Refusal.FENCE, self.session.now)
        return refusal

    def _added(self, answer: Message) -> None:
        results = [result for topic in answer["results_by_topic"] for result in topic["results_by_partition"]]
        if not any(result["partition_error_code"] for result in results):
            topics = [topic["name"].encode() for topic in self.message["topics"]]
            self.open.begun(self.name, topics, self.session.now)

    def _concealed(self) -> bool:
        """Whether it is to take in a topic that clients do not see. Its end would be written there."""
        concealed = self.session.snapshot.view.concealed
        return any(concealed(asked["name"]) for asked in self.message["topics"])

    def _written_elsewhere(self) -> bool:
        """Whether a partition has its writer in another cluster than the transaction its coordinator, or none."""
        return any(self._is_elsewhere(asked["name"], asked["partitions"]) for asked in self.message["topics"])

    def _is_elsewhere(self, name: str, partitions: list[int]) -> bool:
        """Whether the topic's writer is in another cluster than the coordinator. A topic that never moved is written in
        the cluster that has it. If a move of its user left it behind, the coordinator's brokers would answer
        UNKNOWN_TOPIC_OR_PARTITION, and clients would retry for ever."""
        topic = self.session.snapshot.view.topics.get(name)
        if topic is not None and topic.mapped:
            return any(isinstance(self.routes.writer(topic, partition), Refusal) for partition in partitions)
        holders = self.session.snapshot.topology.existing(name)
        return bool(holders) and self.session.port.cluster not in holders

    @handles(ApiKey.ADD_OFFSETS_TO_TXN)
    def add_offsets(self) -> Refusal | None:
        """A transaction takes a group's offsets in."""
        refusal = self._not_ours(self.routes.transactions())
        if refusal is None:
            self.session.shared.written.begins(self.shown)
            self._pass()
        return refusal

    @handles(ApiKey.END_TXN)
    def end(self) -> Refusal | None:
        """A transaction ends where it began, wherever its user is by now.

        Above all a commit that is asked for again because its answer was lost: it may have happened before the cut, and
        whoever is told that it did not would write all of its records a second time.
        """
        if not leased(self.session):
            return Refusal.LEASE
        if not self.session.snapshot.fresh:
            return Refusal.STARTING
        if self.issued.cluster is None:
            return Refusal.FOREIGN_PRODUCER
        epoch, commits = self.message["producer_epoch"], self.message["committed"]
        self.ends = EndedTransaction(self.issued.cluster, self.name, self.shown, commits, self._doubted)
        if self.ends_here:
            self.message["producer_id"] = self.issued.own
            if commits:
                self.session.shared.written.commit_goes_on(self.shown, epoch)
            self._ask(self._ended, self.open.topics(self.name))
        else:
            evidence = TransactionEvidence(self._doubted, self.session.shared.written.of(self.shown, epoch))
            self.session.compose(self.request, {**self.message, "evidence": evidence}, ends=self.ends)
        return None

    @property
    def ends_here(self) -> bool:
        """A commit in a cluster that a topic has left by force is judged first."""
        commit_in_doubt = self._doubted and self.message["committed"]
        return not self.unable and self.ours and not self.routes.closed and not commit_in_doubt

    @property
    def _doubted(self) -> bool:
        return self.issued.cluster in self.session.snapshot.fences.doubted

    def _ended(self, answer: Message) -> None:
        """librdkafka aborts what was kept from beginning, too, and INVALID_TXN_STATE would end its producer.

        Only the coordinator knows that there is nothing: what was refused here may have begun on a connection that
        broke, or through another gateway. Told that it is aborted, its client would go on in that transaction, and
        commit what it has given up.
        """
        kept_out = not self.message["committed"] and self.open.kept_out(self.name)
        if kept_out and answer["error_code"] == ErrorCode.INVALID_TXN_STATE:
            answer["error_code"] = ErrorCode.NONE
        told(self.session, self.ends, answer)
        if not stays_open(answer):
            self.open.ended(self.name)

    @handles(ApiKey.TXN_OFFSET_COMMIT)
    def commit_offsets(self) -> Refusal | None:
        """Offsets belong to their group's coordinator, which must be in the producer's cluster."""
        name = self.message["group_id"].encode()
        route = self.routes.group(name)
        elsewhere = None if route.coordinator == self.session.here else Refusal.ELSEWHERE
        refusal, self.fence = self._not_ours(route.refusal or elsewhere), route.fence
        if refusal is not None:
            return refusal
        if route.carried is not None:
            route.carried.rename(self.request.api_key, self.message)
        self._pass(name)
        return None

    def _not_ours(self, away: Refusal | None) -> Refusal | None:
        """None: the port's cluster has issued the producer's id, by which the request names it now.

        :param away: why another cluster coordinates what the request is about.
        """
        refusal = self.unable or away or (None if self.ours else Refusal.FOREIGN_PRODUCER)
        if refusal is None:
            self.message["producer_id"] = self.issued.own
        return refusal

    def _pass(self, group: bytes | None = None) -> None:
        if self.gate is not None:
            self.gate.request = self.message
            made = rights.amended(self.session, self.request, self.gate, self.session.broker)
            exchange.begin(self.session, self.request, made, group=group)
            return
        if self.request.prepared is not None:
            exchange.begin(self.session, self.request, self._exchange(), group=group)
            return
        frame = self.request.rewritten(self.message)
        self.session.pass_on(Passed(self.request, group=group), self.session.broker, frame)

    def _ask(self, answered: Callable[[Message], None], topics: tuple[bytes, ...] = ()) -> None:
        """Asks the port's broker; `answered` makes its answer the client's.

        :param topics: in whose logs the request may leave traces.
        """
        exchange.begin(self.session, self.request, self._exchange(answered), topics)

    def _exchange(self, answered: Callable[[Message], None] | None = None) -> Exchange:
        """:param answered: makes the broker's answer the client's; None: it is."""
        request, session = self.request, self.session
        frame = yield from offloading.ask(session, request, self.message, session.broker, survives_loss=True)
        if frame is None:
            # The client looks for a coordinator that is gone, and sends its request again (`answers.lost`).
            refusal = Refusal.NO_LEADER if leased(session) else Refusal.LEASE
            session.count_refused((refusal,))
            amend = None if self.gate is None else self.gate.amend
            refused = yield OffloadStep(partial(refusal_frame, request, self.message, refusal, amend))
            return QueuedAnswer(refused, promises=False)
        if answered is None:
            return QueuedAnswer(frame)
        if not offloading.is_long(request, frame):
            answer = request.decode_answer(frame)
            answered(answer)
            return QueuedAnswer(request.answer(answer))
        answer = yield OffloadStep(partial(request.decode_answer, frame))
        answered(answer)
        return QueuedAnswer((yield OffloadStep(partial(request.answer, answer))))
