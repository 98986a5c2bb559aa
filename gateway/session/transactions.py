"""Requests of transactional producers, and INIT_PRODUCER_ID of those without transactions.

A transaction stays in the cluster whose coordinator issued its producer id. When the user is moved, transactions that
begin after the cut begin in the target, under an id of the target; earlier ones can only end where they began.

Invariant: a request that names such an id reaches only the cluster that issued it, under the id by which that cluster
knows it. In another cluster the same number is another producer: the batch would be taken for a duplicate, appended to
a stranger's transaction, or leave a transaction open for good. The id itself names its issuer
(`ha_core.model.producer`), so this holds with any number of gateways, and through their restarts.

A request that names another cluster's producer is answered UNKNOWN_PRODUCER_ID (`BEGIN_ANEW`). Java, librdkafka and
franz-go abort the transaction, ask for a new id and continue (KIP-360); a client without KIP-360 closes its producer.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from gateway.model.handler_registry import declare
from gateway.model.rights import Gate
from gateway.session.context import SessionContext
from gateway.session.exchange import ask_broker, is_long
from gateway.session.handler import RequestHandler
from gateway.session.pending import EndedTransaction, Exchange, ExchangeAnswer, OffloadStep, Passed
from gateway.session.refusal import Refusal, refusal_frame
from gateway.session.request import Message, Request
from gateway.session.rights import Authorization, amended
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
"""Answers that leave the transaction open."""


def stays_open(answer: dict[str, Any]) -> bool:
    """True if a transaction is still open after this answer to END_TXN."""
    return answer["error_code"] in _TRY_AGAIN


def settle_end(context: SessionContext, ends: EndedTransaction, answer: dict[str, Any]) -> None:
    """Adjusts the answer to END_TXN before it goes to the client.

    A commit in flight while a topic left its cluster by force may cover records that no client reads: the client
    retries, and the commit is judged.
    """
    committed = ends.commits and answer["error_code"] == ErrorCode.NONE
    if not stays_open(answer):
        context.shared.written.ended(ends.producer_id, committed=committed)
    if committed and not ends.doubted and ends.cluster in context.snapshot.fences.doubted:
        answer["error_code"] = int(ErrorCode.CONCURRENT_TRANSACTIONS)


Method = Callable[["Transactional"], Refusal | None]
HANDLERS: dict[int, Method] = {}


def handles(api_key: ApiKey) -> Callable[[Method], Method]:
    """Declares a method as the handler of an API whose row has the route `TRANSACTION`."""
    return lambda method: declare(HANDLERS, api_key, method)


class Transactional(RequestHandler):
    """One request. The handler of its API returns the refusal, if it is refused.

    :ivar ours: True if the port's cluster issued the producer id.
    :ivar unable: reason for which nothing may be forwarded to the port's broker.
    :ivar fence: the operation whose fence covers the topics or group of the request.
    """

    def __init__(self, session: ConnectionState, request: Request) -> None:
        super().__init__(session, request)
        self.message = dict(request.read())
        self.open = session.client.transactions
        self.name: str = self.message["transactional_id"] or ""
        self.routes = session.client.routes(request.client_id)
        self.shown: int = self.message["producer_id"]
        self.issued = session.context.shared.issued(self.shown)
        self.ours = self.issued.cluster == session.context.port.cluster
        broker = None if session.context.here is not None else Refusal.NO_BROKER
        self.unable = broker if session.context.leased() else Refusal.LEASE
        self.fence: str | None = None
        self.ends: EndedTransaction
        """Set for END_TXN."""
        self.gate: Gate | None = None
        """Set if a part of the request was denied, or has to be hidden from the client."""

    def handle(self) -> None:
        session, request = self.session, self.request
        if self.routes.verdicts is not None:
            self.gate = Authorization(session).gate(request, self.message)
            if self.gate is not None:
                if self.gate.answer is not None:
                    return
                self.message = self.gate.request
        refusal = Refusal.INVALID if self.invalid else HANDLERS[request.api_key](self)
        if refusal is not None:
            amend = None if self.gate is None else self.gate.amend
            session.in_flight.refuse(request, self.message, refusal, self.fence, amend)

    @property
    def invalid(self) -> bool:
        """True if every broker refuses the request as invalid. A group's coordinator ignores the transactional id."""
        if self.request.api_key == ApiKey.INIT_PRODUCER_ID and (self.shown < 0) != (self.message["producer_epoch"] < 0):
            return True
        return self.message["transactional_id"] == "" and self.request.api_key != ApiKey.TXN_OFFSET_COMMIT

    @handles(ApiKey.INIT_PRODUCER_ID)
    def init(self) -> Refusal | None:
        """Issues an id from the gateways' own range, since every cluster counts producer ids from 0.

        A producer that asks to raise its epoch (KIP-360) keeps its id; its sequences start at 0 again.
        """
        if self.message["transactional_id"] is not None:
            return self._init_transactional()
        producer_id, epoch = self.message["producer_id"], self.message["producer_epoch"] + 1
        if not is_gateway_id(producer_id) or not 0 < epoch <= _MAX_EPOCH:
            producer_id, epoch = self.context.shared.next_producer_id(), 0
        if producer_id is None:
            return Refusal.NO_PRODUCER_ID
        self.session.in_flight.reply(
            self.request, {"error_code": 0, "producer_id": producer_id, "producer_epoch": epoch}
        )
        return None

    def _init_transactional(self) -> Refusal | None:
        """Initialises a producer that names another cluster's id, to raise its epoch (KIP-360), as a new producer.

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
            answer["producer_id"] = self.context.shared.shown(self.context.broker, answer["producer_id"])
            # The coordinator has aborted the producer's open transaction.
            self.open.ended(self.name)

    @handles(ApiKey.ADD_PARTITIONS_TO_TXN)
    def add_partitions(self) -> Refusal | None:
        """Adds partitions to a transaction; the first of these requests begins it."""
        refusal = self._not_ours(self.routes.transactions())
        if refusal is not None:
            return refusal
        topics = tuple(topic["name"].encode() for topic in self.message["topics"])
        self.fence = self.open.fence_on(self.name, topics, self.context.snapshot.view, self.context.now)
        if self.fence is not None:
            refusal = Refusal.FENCE
        elif self._concealed():
            refusal = Refusal.CONCEALED
        elif self._written_elsewhere():
            # Once added, the partition would get the transaction's end marker in this cluster: in a copy that has to
            # stay empty until its cut, or above the end of the extent that was left.
            refusal = Refusal.WRITTEN_ELSEWHERE
        if refusal is None:
            self.context.shared.written.begins(self.shown)
            self._ask(self._added, topics)
            return None
        self.context.out += self.open.refused(self.name, refusal is Refusal.FENCE, self.context.now)
        return refusal

    def _added(self, answer: Message) -> None:
        results = [result for topic in answer["results_by_topic"] for result in topic["results_by_partition"]]
        if not any(result["partition_error_code"] for result in results):
            topics = [topic["name"].encode() for topic in self.message["topics"]]
            self.open.begun(self.name, topics, self.context.now)

    def _concealed(self) -> bool:
        """True if the request adds a topic that clients do not see. The end marker would be written there."""
        concealed = self.context.snapshot.view.concealed
        return any(concealed(topic["name"]) for topic in self.message["topics"])

    def _written_elsewhere(self) -> bool:
        """True if another cluster than the transaction's coordinator has a partition's writer, or none has."""
        return any(self._is_elsewhere(topic["name"], topic["partitions"]) for topic in self.message["topics"])

    def _is_elsewhere(self, name: str, partitions: list[int]) -> bool:
        """True if the topic's writer is in another cluster than the coordinator. A topic that never moved is written in
        the cluster that has it. If a move left it in another cluster, the coordinator's brokers would answer
        UNKNOWN_TOPIC_OR_PARTITION, and clients would retry endlessly."""
        topic = self.context.snapshot.view.topics.get(name)
        if topic is not None and topic.mapped:
            return any(isinstance(self.routes.writer(topic, partition), Refusal) for partition in partitions)
        holders = self.context.snapshot.topology.existing(name)
        return bool(holders) and self.context.port.cluster not in holders

    @handles(ApiKey.ADD_OFFSETS_TO_TXN)
    def add_offsets(self) -> Refusal | None:
        """Adds a group's offsets to a transaction."""
        direct = self.context.snapshot.view.direct(self.message["group_id"]) is not None
        refusal = self._not_ours(Refusal.DIRECT if direct else self.routes.transactions())
        if refusal is None:
            self.context.shared.written.begins(self.shown)
            self._pass()
        return refusal

    @handles(ApiKey.END_TXN)
    def end(self) -> Refusal | None:
        """Ends a transaction where it began, wherever its user is now.

        A commit that is retried because its answer was lost matters most: it may have succeeded before the cut, and a
        client that hears that it failed would write all of its records a second time.
        """
        if not self.context.leased():
            return Refusal.LEASE
        if not self.context.snapshot.fresh:
            return Refusal.STARTING
        if self.issued.cluster is None:
            return Refusal.FOREIGN_PRODUCER
        epoch, commits = self.message["producer_epoch"], self.message["committed"]
        self.ends = EndedTransaction(self.issued.cluster, self.name, self.shown, commits, self._doubted)
        if self.ends_here:
            self.message["producer_id"] = self.issued.own
            if commits:
                self.context.shared.written.commit_goes_on(self.shown, epoch)
            self._ask(self._ended, self.open.topics(self.name))
        else:
            evidence = TransactionEvidence(self._doubted, self.context.shared.written.of(self.shown, epoch))
            self.session.in_flight.compose(self.request, {**self.message, "evidence": evidence}, ends=self.ends)
        return None

    @property
    def ends_here(self) -> bool:
        """False for a commit in a cluster that a topic has left by force: it is judged first."""
        commit_in_doubt = self._doubted and self.message["committed"]
        return not self.unable and self.ours and not self.routes.refusal and not commit_in_doubt

    @property
    def _doubted(self) -> bool:
        return self.issued.cluster in self.context.snapshot.fences.doubted

    def _ended(self, answer: Message) -> None:
        """Confirms the abort of a transaction that was refused before it began.

        librdkafka aborts such a transaction, too, and INVALID_TXN_STATE would stop its producer. Only the coordinator
        knows that there is none: the transaction may have begun on a connection that broke, or through another gateway.
        If the gateway confirmed the abort by itself, the client would continue in that transaction and commit what it
        has aborted.
        """
        kept_out = not self.message["committed"] and self.open.kept_out(self.name)
        if kept_out and answer["error_code"] == ErrorCode.INVALID_TXN_STATE:
            answer["error_code"] = ErrorCode.NONE
        settle_end(self.context, self.ends, answer)
        if not stays_open(answer):
            self.open.ended(self.name)

    @handles(ApiKey.TXN_OFFSET_COMMIT)
    def commit_offsets(self) -> Refusal | None:
        """Offsets belong to their group's coordinator, which must be in the producer's cluster."""
        name = self.message["group_id"].encode()
        route = self.routes.group(name)
        elsewhere = None if route.coordinator == self.context.here else Refusal.ELSEWHERE
        refusal, self.fence = self._not_ours(route.refusal or elsewhere), route.fence
        if refusal is not None:
            return refusal
        if route.aliases is not None:
            route.aliases.rename(self.request.api_key, self.message)
        self._pass(name)
        return None

    def _not_ours(self, away: Refusal | None) -> Refusal | None:
        """None if the port's cluster issued the producer id; the request then names the id that this cluster knows.

        :param away: reason for which another cluster coordinates the request.
        """
        refusal = self.unable or away or (None if self.ours else Refusal.FOREIGN_PRODUCER)
        if refusal is None:
            self.message["producer_id"] = self.issued.own
        return refusal

    def _pass(self, group: bytes | None = None) -> None:
        if self.gate is not None:
            self.gate.request = self.message
            made = amended(self.session.context, self.request, self.gate, self.context.broker)
            self.session.exchanges.start(self.request, made, group=group)
            return
        if self.request.prepared is not None:
            self.session.exchanges.start(self.request, self._exchange(), group=group)
            return
        frame = self.request.rewritten(self.message)
        self.session.in_flight.pass_on(Passed(self.request, group=group), self.context.broker, frame)

    def _ask(self, answered: Callable[[Message], None], topics: tuple[bytes, ...] = ()) -> None:
        """Asks the port's broker; `answered` turns its answer into the client's.

        :param topics: topics to whose logs the request may write.
        """
        self.session.exchanges.start(self.request, self._exchange(answered), topics)

    def _exchange(self, answered: Callable[[Message], None] | None = None) -> Exchange:
        """:param answered: turns the broker's answer into the client's; None: it is the client's."""
        request, session = self.request, self.session
        frame = yield from ask_broker(
            session.context, request, self.message, session.context.broker, survives_loss=True
        )
        if frame is None:
            # The client looks for a coordinator again, and resends its request (`answers.lost`).
            refusal = Refusal.NO_LEADER if session.context.leased() else Refusal.LEASE
            session.context.count_refused((refusal,))
            amend = None if self.gate is None else self.gate.amend
            refused = yield OffloadStep(partial(refusal_frame, request, self.message, refusal, amend))
            return ExchangeAnswer(refused, promises=False)
        if answered is None:
            return ExchangeAnswer(frame)
        if not is_long(request, frame):
            answer = request.decode_answer(frame)
            answered(answer)
            return ExchangeAnswer(request.answer(answer))
        answer = yield OffloadStep(partial(request.decode_answer, frame))
        answered(answer)
        return ExchangeAnswer((yield OffloadStep(partial(request.answer, answer))))
