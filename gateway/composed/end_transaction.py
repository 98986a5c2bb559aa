"""END_TXN that is not for its port's broker alone: its user was moved, or a topic has left the coordinator's cluster by
force.

The coordinator that issued the producer's id ends the transaction, wherever its user is by now. A commit that is asked
for again because its answer was lost may have happened before the cut, and a client told that it did not would write
all of its records a second time.

A coordinator knows no maps. Once a topic went on elsewhere by force, what its old cluster holds beyond the copy is in
no extent, so a commit there would acknowledge records that are given to nobody. This is the one place that decides what
a commit means then:

| the coordinator says | commit |
|---|---|
| ongoing, and a partition of it has left by force | is aborted there; the client is told to begin anew |
| ongoing, and a partition of it is about to leave by force | the client asks again |
| ongoing otherwise | is passed on |
| committed, and nothing of it is read behind the cut | the client is told to begin anew: nobody reads what it wrote |
| committed otherwise | is passed on, and confirmed |
| aborted, by this gateway, by another one or by its timeout | the client is told to begin anew |
| nothing, and what it wrote is read in the copy | is confirmed: a copy has committed records only |
| nothing, and all that it wrote has left by force, unread | the client is told to begin anew |
| nothing, and it has told this gateway that it is committed | is confirmed |
| nothing, no commit has been passed on from here, and its user has left | the client is told to begin anew |
| nothing otherwise | the client asks again, or begins anew where operators have masked the cluster |

A move by force asks every gateway to serve its fence before it looks at what was copied, and a gateway under the fence
passes no commit on. One that was passed on before, and that the old cluster carries out later, is *committed* above.
"""

from __future__ import annotations

from collections.abc import Mapping

from gateway.composed import places
from gateway.composed.ask import Ask, Asking, ClusterUnavailableError, Coordinator, Message, ask_once
from gateway.composed.handlers import Context, Handler, handles
from gateway.session.refusal import Refusal
from gateway.session.transaction_writes import TransactionEvidence
from ha_core.model.producer import issuer
from ha_core.wire.apis import APIS
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.sequences import at_or_before

EVIDENCE = "evidence"
"""Key of the `TransactionEvidence` beside the fields of the request."""
_BEGIN_ANEW = Refusal.FOREIGN_PRODUCER.code(APIS[ApiKey.END_TXN])
_AWAY = ErrorCode.COORDINATOR_NOT_AVAILABLE
_AGAIN = ErrorCode.CONCURRENT_TRANSACTIONS
_COORDINATOR_MOVES = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
_FENCED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED})
_COMMITTED = frozenset({"PrepareCommit", "CompleteCommit"})
_ABORTED = frozenset({"PrepareAbort", "CompleteAbort", "PrepareEpochFence"})


@handles(ApiKey.END_TXN)
def end_transaction(context: Context, version: int, request: Message) -> Handler:
    node, own = issuer(request["producer_id"])
    broker = places.real_broker(context, node)
    if broker is None:
        return {"error_code": int(_BEGIN_ANEW)}
    end = _EndRequest(context, broker[0], own, request)
    return {"error_code": int((yield from (end.commit() if request["committed"] else end.abort())))}


class _EndRequest:
    """One request. Its steps return error codes."""

    def __init__(self, context: Context, cluster: str, own: int, request: Message) -> None:
        """:param cluster: whose coordinator knows the producer, as `own`."""
        self._context, self._cluster, self._own = context, cluster, own
        self._name: str = request["transactional_id"]
        self._epoch: int = request["producer_epoch"]
        evidence: TransactionEvidence = request.get(EVIDENCE, TransactionEvidence())
        self._doubted = evidence.doubted
        self._writes = evidence.writes
        self._masked = places.masked(context, cluster)
        self._user_left = places.user_cluster(context) != cluster

    def abort(self) -> Asking[int]:
        """Where the coordinator is away, an abort is granted to a producer that goes on in another cluster: the
        coordinator aborts by itself when the transaction's time is over. One that may go on under the same id asks
        again: its next transaction would be one with this one, and commit what was given up.

        librdkafka takes it for fatal that there is nothing to be aborted: such a producer begins anew.
        """
        code = None if self._masked else (yield from self._ask(committed=False))
        if code is None:
            return ErrorCode.NONE if self._user_left else _AWAY
        return _BEGIN_ANEW if code == ErrorCode.INVALID_TXN_STATE else code

    def commit(self) -> Asking[int]:
        if not self._masked:
            code = yield from (self._judge() if self._doubted else self._ask(committed=True))
            if code is not None:
                return code
        read = self._read()
        if read or (read is None and self._writes is not None and self._writes.committed):
            return ErrorCode.NONE
        never_asked = self._writes is not None and not self._writes.commit_asked and self._user_left
        return _BEGIN_ANEW if read is False or never_asked or self._masked else _AWAY

    def _judge(self) -> Asking[int | None]:
        """None: the coordinator does not answer."""
        if not self._describes():
            return (yield from self._judge_unseen())
        question = {"transactional_ids": [self._name]}
        reply = yield from ask_once(self._to(ApiKey.DESCRIBE_TRANSACTIONS, question))
        if isinstance(reply, ClusterUnavailableError):
            return None
        for state in reply["transaction_states"]:
            if state["error_code"] in _COORDINATOR_MOVES:
                return int(state["error_code"])
            if not state["error_code"]:
                return (yield from self._judge_state(state))
        return (yield from self._ask(committed=True))

    def _judge_state(self, state: Message) -> Asking[int | None]:
        phase = state["transaction_state"]
        if (state["producer_id"], state["producer_epoch"]) != (self._own, self._epoch):
            # Its time was over, and the coordinator has aborted it under the next epoch.
            return _BEGIN_ANEW if self._user_left else (yield from self._ask(committed=True))
        if phase in _ABORTED:
            return _BEGIN_ANEW
        if phase in _COMMITTED:
            return _BEGIN_ANEW if self._read() is False else (yield from self._ask(committed=True))
        named = [(topic["topic"], partition) for topic in state["topics"] for partition in topic["partitions"]]
        if any(self._left(topic, partition) for topic, partition in named):
            return (yield from self._give_up())
        if any(self._leaves(topic) for topic, _ in named):
            return _AGAIN
        return (yield from self._ask(committed=True))

    def _judge_unseen(self) -> Asking[int | None]:
        """Of a coordinator before Kafka 3.0, which does not say what it has."""
        named = None if self._writes is None else self._writes.by_partition
        if named is not None and any(self._leaves(topic) for topic, _ in named):
            return _AGAIN
        if named is None or any(self._left(topic, partition) for topic, partition in named):
            return (yield from self._give_up())
        return (yield from self._ask(committed=True))

    def _give_up(self) -> Asking[int | None]:
        """Aborts in the coordinator's cluster what nobody is going to read there."""
        code = yield from self._ask(committed=False)
        if code == ErrorCode.NONE or code in _FENCED:
            return _BEGIN_ANEW
        # Another gateway's commit came first: the state that it has now is judged when the client asks again.
        return _AGAIN if code == ErrorCode.INVALID_TXN_STATE else code

    def _ask(self, *, committed: bool) -> Asking[int | None]:
        """The coordinator's answer; None: it is away."""
        if committed and self._writes is not None:
            self._writes.commit_asked = True
        fields = {"transactional_id": self._name, "producer_id": self._own, "producer_epoch": self._epoch}
        reply = yield from ask_once(self._to(ApiKey.END_TXN, {**fields, "committed": committed}))
        if isinstance(reply, ClusterUnavailableError):
            return None
        # Fatal in Java since 4.0. There was nothing to be committed.
        unknown = reply["error_code"] == ErrorCode.INVALID_PRODUCER_ID_MAPPING and self._user_left
        return _BEGIN_ANEW if unknown else int(reply["error_code"])

    def _to(self, key: ApiKey, message: Message) -> Ask:
        return Ask(self._cluster, Coordinator("transaction", self._name), key, message)

    def _describes(self) -> bool:
        known = self._context.topology.clusters.get(self._cluster)
        return known is None or not known.api_versions or ApiKey.DESCRIBE_TRANSACTIONS in known.api_versions

    # -- what the maps say ----------------------------------------------------------------------------------------

    def _read(self) -> bool | None:
        """Whether what it wrote is read behind a forced cut; None: not all of it went by one, or nobody knows it."""
        if self._writes is None or not self._writes.last:
            return None
        found = [self._reads(topic, partition, last) for (topic, partition), last in self._writes.by_partition.items()]
        if True in found:
            return True
        return None if None in found else False

    def _reads(self, topic: str, partition: int, last: int) -> bool | None:
        there = self._read_there(topic).get(partition)
        if there is None:
            return False if self._left(topic, partition) else None
        epoch, sequence = there.get(self._own, (-1, -1))
        return epoch > self._epoch or (epoch == self._epoch and at_or_before(last, sequence))

    def _left(self, topic: str, partition: int) -> bool:
        """Whether the partition has left the cluster, and no extent has what the cluster took last."""
        if places.document(self._context, topic).mapped:
            if places.written_in(self._context, topic, partition) in (self._cluster, None):
                return False
            extents = places.extents(self._context, topic, partition)
            if all(one.cluster != self._cluster or one.ignored for one in extents):
                return True
        return partition in self._read_there(topic)

    def _read_there(self, topic: str) -> Mapping[int, Mapping[int, tuple[int, int]]]:
        known = self._context.view.sequences.get(topic)
        return {} if known is None else known.left_by_force.get(self._cluster, {})

    def _leaves(self, topic: str) -> bool:
        fence = places.document(self._context, topic).fence
        return fence is not None and fence.taken_for_dead == self._cluster
