"""Requests of transactional producers, and the producer ids of those without transactions.

A transaction lives in the cluster whose coordinator issued its producer's id. When the user is moved, what begins after
the cut begins in the target, under an id of the target; what began before can only end, where it began.

Invariant: a request that names such an id reaches the cluster that issued it and no other, under the id by which that
cluster knows it. Elsewhere the same number is another producer: the batch would be taken for a duplicate, appended to
a stranger's transaction, or leave one open for ever. The issuer lies in the id itself (`ha_core.model.producer`), so
this holds with any number of gateways, and through their restarts.

What is refused is answered INVALID_PRODUCER_ID_MAPPING, as by a coordinator that does not know the producer. Java and
librdkafka abort the transaction, ask for a new id and go on (KIP-360); a client without KIP-360 ends its producer.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from gateway.session import exchange
from gateway.session.groups import rename
from gateway.session.pending import Answer, Exchange, Passed, Send
from gateway.session.request import Message, Request
from gateway.session.state import ConnectionState
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


class Refused(NamedTuple):
    error: ErrorCode
    fence: str | None = None
    """Of the operation for whose fence the refusal is held."""


def transaction(session: ConnectionState, request: Request) -> None:
    """A request for a transaction coordinator, or about a transaction's offsets."""
    handler = _Handler(session, request)
    refused = _HANDLERS[request.api_key](handler)
    if refused is not None:
        session.refuse(request, request.refusal(handler.message, refused.error), refused.fence)


class _Handler:
    """One request. What handles it returns the refusal, if it is refused.

    :ivar able: whether anything may be forwarded to the port's broker.
    :ivar ours: whether the port's cluster issued the producer id.
    """

    def __init__(self, session: ConnectionState, request: Request) -> None:
        self.session = session
        self.request = request
        self.message = request.decode()
        self.routes = session.routes(request.client_id)
        self.issued = session.settings.issued(self.message["producer_id"])
        self.ours = self.issued.cluster == session.port.cluster
        self.able = session.leased() and session.here is not None

    def init(self) -> Refused | None:
        return self._init_idempotent() if self.message["transactional_id"] is None else self._init_transactional()

    def _init_idempotent(self) -> Refused | None:
        """Every cluster counts producer ids from 0, so ids come from the gateways' own range.

        A producer that asks to raise its epoch (KIP-360) keeps its id; its sequences start at 0 again.
        """
        producer_id, epoch = self.message["producer_id"], self.message["producer_epoch"] + 1
        if not is_gateway_id(producer_id) or not 0 < epoch <= _MAX_EPOCH:
            producer_id, epoch = self.session.settings.next_producer_id(), 0
        if producer_id is None:
            return Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        self.session.reply(self.request, {"error_code": 0, "producer_id": producer_id, "producer_epoch": epoch})
        return None

    def _init_transactional(self) -> Refused | None:
        """A producer that names an id of another cluster, to have its epoch raised (KIP-360), is new in this one.

        Its coordinator would take it for an older producer of the same transactional id, and answer PRODUCER_FENCED.
        """
        if not self._coordinates():
            return Refused(ErrorCode.NOT_COORDINATOR)
        self.message["producer_id"] = self.issued.own if self.ours else -1
        if not self.ours:
            self.message["producer_epoch"] = -1
        exchange.begin(self.session, self.request, self._initialised())
        return None

    def _initialised(self) -> Exchange:
        answer = yield from self._ask()
        if answer["error_code"] == ErrorCode.NONE:
            answer["producer_id"] = self.session.settings.shown(self.session.broker, answer["producer_id"])
            # What the producer had open, the coordinator has aborted.
            self.session.transactions.ended(self.message["transactional_id"])
        return Answer(self.request.answer(answer))

    def add_partitions(self) -> Refused | None:
        """A transaction takes partitions in: so it begins, for each client that sets out on a new one.

        Under a fence that is answered CONCURRENT_TRANSACTIONS, as while the last transaction's end is still being
        written to the partitions: the only one that says to try the same again soon, to every client.
        """
        refused = self._not_ours()
        if refused is not None:
            return refused
        name, transactions = self.message["transactional_id"], self.session.transactions
        topics = tuple(topic["name"].encode() for topic in self.message["topics"])
        fence = transactions.fence_on(name, topics, self.session.snapshot.view)
        if fence is not None:
            refused = Refused(ErrorCode.CONCURRENT_TRANSACTIONS, fence)
        elif self._written_elsewhere():
            # Taken in, it would get the marker of the transaction's end here: in a copy that is to stay empty until its
            # cut, or after the end of what was left.
            refused = Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if refused is not None:
            transactions.kept_out(name)
            return refused
        exchange.begin(self.session, self.request, self._added(topics), topics)
        return None

    def _added(self, topics: tuple[bytes, ...]) -> Exchange:
        answer = yield from self._ask()
        results = (result for topic in answer["results_by_topic"] for result in topic["results_by_partition"])
        if not any(result["partition_error_code"] for result in results):
            self.session.transactions.begun(self.message["transactional_id"], topics, self.session.now)
        return Answer(self.request.answer(answer))

    def _written_elsewhere(self) -> bool:
        """Whether a partition has its writer in another cluster than the transaction its coordinator."""
        topics = self.session.snapshot.view.topics
        return any(
            topic.written(partition).cluster != self.session.port.cluster
            for asked in self.message["topics"]
            if (topic := topics.get(asked["name"])) is not None and topic.mapped
            for partition in asked["partitions"]
        )

    def add_offsets(self) -> Refused | None:
        """A transaction takes a group's offsets in."""
        refused = self._not_ours()
        if refused is None:
            self._pass()
        return refused

    def end(self) -> Refused | None:
        """A transaction ends where it began, wherever its user is by now.

        Above all a commit that is asked for again because its answer was lost: it may have happened before the cut, and
        whoever is told that it did not would write all of its records a second time.
        """
        name, transactions = self.message["transactional_id"], self.session.transactions
        if not self.session.leased() or not self.session.snapshot.fresh:
            return Refused(ErrorCode.NOT_COORDINATOR)
        if not self.message["committed"] and transactions.never_begun(name):
            # librdkafka aborts what was never begun, and the coordinator's INVALID_TXN_STATE would end its producer.
            transactions.ended(name)
            self.session.reply(self.request, {"error_code": 0})
        elif self.issued.cluster is None:
            return Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        elif self.able and self.ours and not self.routes.closed:
            self.message["producer_id"] = self.issued.own
            exchange.begin(self.session, self.request, self._ended(), transactions.topics(name))
        else:
            self.session.compose(self.request, self.message, ends=name)
        return None

    def _ended(self) -> Exchange:
        answer = yield from self._ask()
        if not stays_open(answer):
            self.session.transactions.ended(self.message["transactional_id"])
        return Answer(self.request.answer(answer))

    def commit_offsets(self) -> Refused | None:
        """Offsets belong to their group's coordinator, which must be in the producer's cluster.

        What belongs to another one's producer is answered ILLEGAL_GENERATION: all clients can abort after that, and
        INVALID_PRODUCER_ID_MAPPING is fatal here.
        """
        name = self.message["group_id"].encode()
        route = self.routes.group(name)
        if not self.able:
            return Refused(ErrorCode.NOT_COORDINATOR)
        if route.group is not None and route.group.fence is not None:
            return Refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, route.group.fence.operation)
        if not route.here:
            return Refused(ErrorCode.NOT_COORDINATOR)
        if not self.ours:
            return Refused(ErrorCode.ILLEGAL_GENERATION)
        self.message["producer_id"] = self.issued.own
        if route.members and route.group is not None:
            rename(route.group, route.members, self.request.api_key, self.message)
        self._pass(name)
        return None

    def _coordinates(self) -> bool:
        """Whether the port's cluster coordinates the client's transactions, and may be sent something."""
        return self.able and self.routes.transactions_here()

    def _not_ours(self) -> Refused | None:
        """None: the port's cluster coordinates the transaction, which is under its own producer id now."""
        if not self._coordinates():
            return Refused(ErrorCode.NOT_COORDINATOR)
        if not self.ours:
            return Refused(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        self.message["producer_id"] = self.issued.own
        return None

    def _pass(self, group: bytes | None = None) -> None:
        frame = self.request.rewritten(self.message)
        self.session.pass_on(Passed(self.request, group=group), self.session.broker, frame)

    def _ask(self) -> Generator[Send, Any, Message]:
        """What the port's broker answers."""
        broker = self.session.broker
        frames = yield Send({broker: self.request.rewritten(self.message)})
        return self.request.decode_answer(frames[broker])


_HANDLERS: dict[int, Callable[[_Handler], Refused | None]] = {
    ApiKey.INIT_PRODUCER_ID: _Handler.init,
    ApiKey.ADD_PARTITIONS_TO_TXN: _Handler.add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: _Handler.add_offsets,
    ApiKey.END_TXN: _Handler.end,
    ApiKey.TXN_OFFSET_COMMIT: _Handler.commit_offsets,
}
