"""Judges produce requests to mapped, fenced or moved topics.

Invariant: a batch is forwarded only to the cluster that the map names as the writer, under the producer id of that
writer epoch; a batch that an earlier writer epoch holds is answered as a duplicate, and never forwarded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from gateway.session.commands import FindDuplicateOffset, FindProducers
from gateway.session.produce.duplicate_offsets import UNKNOWN_OFFSET, Missing, find_held, is_outlived, last_of
from gateway.session.produce.producer_order import Key, RefusedBatch
from gateway.session.produce.writer_epochs import opens
from gateway.session.refusal import FOR_GOOD, Refusal
from gateway.session.request import Message, Request, text
from gateway.session.routes import Routes
from gateway.session.state import ConnectionState
from ha_core.model.producer import is_gateway_id, upstream_id
from ha_core.wire import ErrorCode, RemoteProtocolError
from ha_core.wire.produce import ProduceScan, patch_produce_response
from ha_core.wire.records import Batch, first_batch, rewrite_producer_id

Batches = Mapping[Key, Batch | None]
"""Batches of a whole request by partition; None if a partition has no records."""
LOGGED = frozenset({ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER})
"""Error codes of a broker that has the batch in its log."""


def batch_of_each(request: Request, scan: ProduceScan) -> Batches:
    """The batch of each partition of a whole request.

    Brokers demand one batch each from version 3 on. All are judged, and a hundred megabytes hold a million empty ones.
    A partition that the request repeats has its last batch here (`repeated` names it).

    :raises RemoteProtocolError: a partition has several batches, or none that is complete.
    """
    batches: dict[Key, Batch | None] = {}
    for topic, partition, at, length in scan.partitions:
        batch = first_batch(request.buf, at, at + length, at + length) if length > 0 else None
        if length > 0 and (batch is None or batch.records_count < 0 or batch.last_offset_delta < 0):
            raise RemoteProtocolError("a produce request without exactly one complete batch in a partition")
        batches[topic, partition] = batch
    return batches


def repeated(scan: ProduceScan, batches: Batches) -> frozenset[Key]:
    """Partitions that the request names more than once.

    Brokers keep batches in a map by partition (`KafkaApis.handleProduceRequest`; until 2.7
    `ProduceRequest.partitionRecords`): they append the last batch of a partition, drop the earlier ones, and answer the
    partition once, without an error (seen with 3.9.2 and 4.3.1). So the producer takes the earlier records for written.
    The gateway appends none of them and says so (`Refusal.REPEATED`).
    """
    if len(batches) == len(scan.partitions):
        return frozenset()
    times = Counter((topic, partition) for topic, partition, _, _ in scan.partitions)
    return frozenset(key for key, count in times.items() if count > 1)


def notice(session: ConnectionState, request: Request, scan: ProduceScan, local: Collection[Key] = ()) -> None:
    """Reports the use of topics whose batches are forwarded.

    :param local: partitions that the gateway answers itself.
    """
    for topic, partition, _, _ in scan.partitions:
        if (topic, partition) not in local:
            session.seen_uses.notice(request, "topic", topic, "produce")
            session.in_flight.retry_backoff.forwarded((topic, partition))


_BY_A_FENCE = (Refusal.FENCE, Refusal.ORDER)


class Duplicate(NamedTuple):
    """An earlier writer epoch holds the batch: the answer that its broker would give."""

    error: ErrorCode
    base_offset: int


@dataclass(slots=True, eq=False)
class ProduceJudgement:
    """Decisions on the partitions of a request; partitions without one are forwarded unchanged.

    :ivar repeated: partitions that the request names more than once.
    :ivar local: partitions that are answered here, not forwarded, with the reason.
    :ivar shifts: forwarded partitions → difference from the broker's offsets to client offsets.
    :ivar openers: forwarded partitions whose (writer epoch, producer) is opened once the broker acknowledges.
    :ivar fence: operation whose fence refused a partition.
    :ivar refused: batches that have to come again before later ones of their producers.
    """

    session: ConnectionState
    request: Request
    batches: Batches
    repeated: frozenset[Key] = frozenset()
    local: dict[Key, Refusal | Duplicate] = field(default_factory=dict)
    shifts: dict[Key, int] = field(default_factory=dict)
    openers: dict[Key, tuple[int, int]] = field(default_factory=dict)
    fence: str | None = None
    refused: list[RefusedBatch] = field(default_factory=list)

    @classmethod
    def of(cls, session: ConnectionState, request: Request, scan: ProduceScan) -> ProduceJudgement:
        """Judgement of a whole request.

        :raises RemoteProtocolError: as `batch_of_each`.
        """
        batches = batch_of_each(request, scan)
        return cls(session, request, batches, repeated(scan, batches))

    @property
    def topics(self) -> tuple[bytes, ...]:
        """Topics with forwarded partitions."""
        return tuple({key[0] for key in self.batches if key not in self.local})

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        return tuple(outcome for outcome in self.local.values() if isinstance(outcome, Refusal))

    # -- judging ------------------------------------------------------------------------------------------------

    def judge(self, routes: Routes, transactional: bool, refusal: Refusal | None = None) -> None:
        """Decides on each partition of a whole request, and rewrites the producer ids of forwarded batches in place.
        Without the lease no batch is forwarded.

        :param refusal: a reason to refuse every batch.
        """
        refusal_of_all = refusal if self.session.context.leased() else Refusal.LEASE
        for key, batch in self.batches.items():
            # Denial comes first: the answer reveals nothing else about a denied topic, and its batches do not count.
            # Neither do those that come through a port without a broker, from which nothing is ever forwarded.
            refusal = routes.topic(key[0]).no_produce
            if refusal in FOR_GOOD or (refusal is not None and self.session.context.here is None):
                self.local[key] = refusal
                continue
            if key in self.repeated:
                # The client does not send these batches again, so no later batch waits for them.
                self.local[key] = Refusal.REPEATED
                continue
            outcome = self.judge_batch(routes, key, batch) if refusal_of_all is None else refusal_of_all
            if batch is not None and isinstance(outcome, Refusal):
                if outcome is not Refusal.OUTLIVED:
                    self.has_to_come_first(key, batch)
            elif batch is not None and outcome is None and transactional:
                outcome = self._judge_issuer(key, batch)
            if outcome is not None:
                self.local[key] = outcome
        self.session.context.count_refused(self.refusals)
        # A batch behind one that the fence has refused is refused for its order, and costs its client as much.
        standing = {routes.topic(key[0]).fence for key, why in self.local.items() if why in _BY_A_FENCE}
        for operation in standing:
            if operation is not None:
                self.session.client.fenced(operation, self.request.client_id)

    def has_to_come_first(self, key: Key, batch: Batch) -> None:
        """Notes a refused batch: its client knows once the request's answer has gone."""
        order, now = self.session.client.producer_order, self.session.context.now
        refused = order.refused(key, batch, now)
        if refused is not None:
            self.refused.append(refused)
            if not self.session.context.life.connected:
                order.delivered((refused,), now)  # it is gone, and retries over another connection

    def judge_batch(self, routes: Routes, key: Key, batch: Batch | None) -> Refusal | Duplicate | None:
        """Why the partition is not forwarded; None: it is."""
        shared, now = self.session.context.shared, self.session.context.now
        order, duplicate_offsets = self.session.client.producer_order, shared.duplicate_offsets
        name, partition = key
        route = routes.topic(name)
        topic, sequences = route.topic, route.sequences
        held = None if batch is None else find_held(sequences, key, batch)
        if batch is not None and not order.admit(key, batch, now):
            if held is not None and duplicate_offsets.offset(held, now) is Missing.NOT_YET:
                self.session.context.emit(FindDuplicateOffset(held))  # look it up while it waits
            return Refusal.ORDER
        if route.no_produce is not None or topic is None:
            self.fence = route.fence or self.fence
            return route.no_produce
        extent = routes.writer(topic, partition)
        if isinstance(extent, Refusal):
            return extent
        if batch is not None and not topic.crosses(partition) and not order.admit_to_target(key, batch, now):
            return Refusal.ORDER
        if batch is not None and extent.writer_epoch > 0 and is_gateway_id(batch.producer_id):
            if held is not None:
                offset = duplicate_offsets.offset(held, now)
                if offset is Missing.NOT_YET:
                    self.session.context.emit(FindDuplicateOffset(held))
                    return Refusal.LOOK_UP
                if offset is Missing.NEVER:
                    return Duplicate(ErrorCode.DUPLICATE_SEQUENCE_NUMBER, UNKNOWN_OFFSET)
                return Duplicate(ErrorCode.NONE, offset)
            if is_outlived(sequences, partition, batch):
                return Refusal.OUTLIVED
            # If the origin could not be asked for its last sequences, the gateway does not know which batch has to come
            # first.
            must_open = sequences is not None and sequences.terms.get(partition) == extent.writer_epoch
            if must_open and shared.writer_epochs.watched(key, extent.writer_epoch, batch.producer_id, now):
                if not opens(batch, last_of(sequences, partition, batch)):
                    self.session.context.emit(FindProducers(extent.cluster, text(name), partition))
                    return Refusal.NEW_TERM
                self.openers[key] = (extent.writer_epoch, batch.producer_id)
            rewrite_producer_id(self.request.buf, batch.at, upstream_id(batch.producer_id, extent.writer_epoch))
        if extent.shift:
            self.shifts[key] = extent.shift
        return None

    def _judge_issuer(self, key: Key, batch: Batch) -> Refusal | None:
        """Replaces the producer id by the port's cluster's; refuses a batch of another cluster's producer. A batch that
        is refused already keeps its answer: the client has to find the leader first."""
        if batch.producer_id >= 0 and not is_gateway_id(batch.producer_id):
            issued = self.session.context.shared.issued(batch.producer_id)
            if issued.cluster != self.session.context.port.cluster:
                return Refusal.FOREIGN_PRODUCER
            self.session.context.shared.written.wrote(batch.producer_id, key, batch)
            rewrite_producer_id(self.request.buf, batch.at, issued.own)
        return None

    def deny(self) -> None:
        """Refuses all of it: the user has no right to the transactional id."""
        self.local |= dict.fromkeys(self.batches, Refusal.DENIED_TRANSACTION)
        self.session.context.count_refused(self.refusals)

    # -- forwarding and answering -------------------------------------------------------------------------------

    def frame(self, **changed: Any) -> bytes | memoryview:
        """The request without the partitions that are answered here.

        :param changed: fields that the broker gets in place of the client's.
        """
        if not self.local and not changed:
            return self.request.frame
        message = self.request.decode() | changed
        topics = message["topic_data"]
        for topic in topics:
            name = topic["name"].encode()
            topic["partition_data"] = [p for p in topic["partition_data"] if (name, p["index"]) not in self.local]
        message["topic_data"] = [topic for topic in topics if topic["partition_data"]]
        return self.request.rewritten(message)

    def merged(self, frame: bytearray) -> Message:
        """One answer from the broker's, in client offsets, and from the partitions that are answered here."""
        if self.shifts:
            patch_produce_response(frame, self.request.api_version, self.shifts, 4)
        answer = self.request.decode_answer(frame)
        for key in acknowledged(answer) & self.openers.keys():
            self.session.context.shared.writer_epochs.opened(key, *self.openers[key])
        return self.answer(dict(entries(answer)), answer["throttle_time_ms"])

    def answer(self, answered: Mapping[Key, Message], throttle_time_ms: int = 0) -> Message:
        topics: dict[bytes, list[Message]] = {}
        for key in self.batches:
            topics.setdefault(key[0], []).append(answered.get(key) or self._answer_here(key))
        responses = [{"name": text(name), "partition_responses": entries} for name, entries in topics.items()]
        return {"throttle_time_ms": throttle_time_ms, "responses": responses}

    def _answer_here(self, key: Key) -> Message:
        outcome = self.local.get(key, Refusal.NO_LEADER)  # the broker left it out
        error, offset = (outcome.code(self.request.api), -1) if isinstance(outcome, Refusal) else outcome
        return {"index": key[1], "error_code": int(error), "base_offset": offset}


def acknowledged(answer: Message) -> set[Key]:
    """Partitions of a decoded answer whose batch is in the log."""
    return {key for key, entry in entries(answer) if entry["error_code"] in LOGGED}


def entries(answer: Message) -> list[tuple[Key, Message]]:
    """The partitions of a decoded answer."""
    return [
        ((topic["name"].encode(), entry["index"]), entry)
        for topic in answer["responses"]
        for entry in topic["partition_responses"]
    ]
