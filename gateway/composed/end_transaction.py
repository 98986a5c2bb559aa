"""END_TXN that is not only for its port's broker: its user was moved, or a topic has left the coordinator's cluster by
force.

The coordinator that issued the producer's id ends the transaction, wherever its user is now. A commit that is retried
because its answer was lost may have succeeded before the cut, and a client that hears that it failed would write all of
its records a second time.

A coordinator knows no maps. Once a topic was moved by force, the records of its old cluster above the copy are in no
extent, so a commit there would acknowledge records that no reader gets. This module alone decides what a commit means
then:

| the coordinator says | commit |
|---|---|
| ongoing, and a partition of it has left by force | is aborted there; the client begins a new producer |
| ongoing, and a partition of it is about to leave by force | the client retries |
| ongoing otherwise | is forwarded |
| committed, and no record of it is read after the forced cut | the client begins a new producer: its records are lost |
| committed otherwise | is forwarded, and confirmed |
| aborted, by this gateway, by another one or by its timeout | the client begins a new producer |
| nothing, and its records are read in the copy | is confirmed: a copy has only committed records |
| nothing, and all its records have left by force, unread | the client begins a new producer |
| nothing, and it has reported the commit to this gateway before | is confirmed |
| nothing, this gateway has forwarded no commit, and its user has left | the client begins a new producer |
| nothing otherwise | the client retries, or begins a new producer if operators have masked the cluster |

A forced move asks every gateway to serve its fence before it examines the copy, and a gateway under the fence forwards
no commit. One that was forwarded before, and that the old cluster executes later, is *committed* above.
"""

from collections.abc import Mapping

from gateway.composed import lookups
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
    broker = lookups.real_broker(context, node)
    if broker is None:
        return {"error_code": int(_BEGIN_ANEW)}
    end = _EndRequest(context, broker[0], own, request)
    return {"error_code": int((yield from (end.commit() if request["committed"] else end.abort())))}


class _EndRequest:
    """One request. Its steps return error codes."""

    def __init__(self, context: Context, cluster: str, own: int, request: Message) -> None:
        """:param cluster: the cluster whose coordinator knows the producer, by the id `own`."""
        self._context, self._cluster, self._own = context, cluster, own
        self._name: str = request["transactional_id"]
        self._epoch: int = request["producer_epoch"]
        evidence: TransactionEvidence = request.get(EVIDENCE, TransactionEvidence())
        self._doubted = evidence.doubted
        self._writes = evidence.writes
        self._masked = lookups.masked(context, cluster)
        self._user_left = lookups.user_cluster(context) != cluster

    def abort(self) -> Asking[int]:
        """Confirms an abort without the coordinator if the producer continues in another cluster: the coordinator
        aborts by itself at the transaction's timeout. A producer that may continue under the same id has to retry: its
        next transaction would join this one, and commit the records that it gave up.

        If there is nothing to abort, which librdkafka takes for fatal, the client begins a new producer.
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
            # It timed out, and the coordinator has aborted it under the next epoch.
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
        """Judges at a coordinator before Kafka 3.0, which does not describe its transactions."""
        named = None if self._writes is None else self._writes.by_partition
        if named is not None and any(self._leaves(topic) for topic, _ in named):
            return _AGAIN
        if named is None or any(self._left(topic, partition) for topic, partition in named):
            return (yield from self._give_up())
        return (yield from self._ask(committed=True))

    def _give_up(self) -> Asking[int | None]:
        """Aborts a transaction in the coordinator's cluster whose records no reader will get there."""
        code = yield from self._ask(committed=False)
        if code == ErrorCode.NONE or code in _FENCED:
            return _BEGIN_ANEW
        # Another gateway's commit came first: the state is judged again when the client retries.
        return _AGAIN if code == ErrorCode.INVALID_TXN_STATE else code

    def _ask(self, *, committed: bool) -> Asking[int | None]:
        """The coordinator's answer; None: it is unavailable."""
        if committed and self._writes is not None:
            self._writes.commit_asked = True
        fields = {"transactional_id": self._name, "producer_id": self._own, "producer_epoch": self._epoch}
        reply = yield from ask_once(self._to(ApiKey.END_TXN, {**fields, "committed": committed}))
        if isinstance(reply, ClusterUnavailableError):
            return None
        # Fatal in Java since 4.0. There was nothing to commit.
        unknown = reply["error_code"] == ErrorCode.INVALID_PRODUCER_ID_MAPPING and self._user_left
        return _BEGIN_ANEW if unknown else int(reply["error_code"])

    def _to(self, key: ApiKey, message: Message) -> Ask:
        return Ask(self._cluster, Coordinator("transaction", self._name), key, message)

    def _describes(self) -> bool:
        topology = self._context.topology.clusters.get(self._cluster)
        return topology is None or not topology.api_versions or ApiKey.DESCRIBE_TRANSACTIONS in topology.api_versions

    # -- what the maps say ----------------------------------------------------------------------------------------

    def _read(self) -> bool | None:
        """True if its records are read after a forced cut; None: some did not move by one, or they are unknown."""
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
        """True if the partition has left the cluster, and no extent has the cluster's last records."""
        if lookups.document(self._context, topic).mapped:
            if lookups.written_in(self._context, topic, partition) in (self._cluster, None):
                return False
            extents = lookups.extents(self._context, topic, partition)
            if all(extent.cluster != self._cluster or extent.ignored for extent in extents):
                return True
        return partition in self._read_there(topic)

    def _read_there(self, topic: str) -> Mapping[int, Mapping[int, tuple[int, int]]]:
        sequences = self._context.view.sequences.get(topic)
        return {} if sequences is None else sequences.left_by_force.get(self._cluster, {})

    def _leaves(self, topic: str) -> bool:
        fence = lookups.document(self._context, topic).fence
        return fence is not None and fence.taken_for_dead == self._cluster
