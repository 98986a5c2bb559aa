"""Mapped partitions whose decision is settled: a batch is treated like the one before it.

`ProduceJudgement` decides. This module only recognises batches for which it would decide the same: no earlier writer
epoch holds them, they do not open one, and no other batch has to come first. All others have to be judged.
"""

from collections.abc import Mapping, Sequence
from struct import Struct
from typing import NamedTuple

from gateway.session.pending import Shifted
from gateway.session.produce.duplicate_offsets import find_held, last_of
from gateway.session.produce.producer_order import Key, ProducerOrder
from gateway.session.request import Request
from gateway.session.routes import Routes
from gateway.session.shared import Shared
from ha_core.model import Extent, LastSequences
from ha_core.model.producer import is_gateway_id, upstream_id
from ha_core.plan.routing.bounded_cache import BoundedCache, CacheBudget
from ha_core.wire.records import Batch, first_batch, rewrite_producer_id
from ha_core.wire.templates import PartitionSpan, ProduceAnswerTemplate

_INT = Struct(">i").unpack_from


class Settled(NamedTuple):
    """A partition that is written through the port's broker, and has no cut ahead.

    :ivar answer_template: template of answers.
    :ivar shifts: added to offsets in them.
    :ivar sequences: last sequences of earlier writer epochs of its topic.
    :ivar must_open: True if the origin gave its last sequences at the start of the writer epoch: producers have to open
        it then.
    """

    key: Key
    writer_epoch: int
    answer_template: ProduceAnswerTemplate | None
    shifts: Mapping[Key, int]
    sequences: LastSequences | None
    must_open: bool

    def producer_id(self, batch: Batch, shared: Shared, now: float) -> int | None:
        """Producer id for the batch in the broker's cluster; None: the batch has to be judged."""
        producer_id, writer_epoch = batch.producer_id, self.writer_epoch
        if writer_epoch == 0 or not is_gateway_id(producer_id):
            return producer_id
        sequences, key = self.sequences, self.key
        last = last_of(sequences, key[1], batch)
        if last is not None and (batch.producer_epoch < last[0] or find_held(sequences, key, batch) is not None):
            return None
        if self.must_open and shared.writer_epochs.watched(key, writer_epoch, producer_id, now):
            return None
        return upstream_id(producer_id, writer_epoch)


class BatchPatch(NamedTuple):
    """Patch of one batch.

    :ivar producer_id: its producer id in the broker's cluster.
    """

    settled: Settled
    batch: Batch
    producer_id: int

    def pending(self, request: Request) -> Shifted:
        settled = self.settled
        return Shifted(request, (settled.key[0],), shifts=settled.shifts, answer_template=settled.answer_template)

    def write(self, buf: bytearray) -> None:
        if self.producer_id != self.batch.producer_id:
            rewrite_producer_id(buf, self.batch.at, self.producer_id)


class BatchesPatch(NamedTuple):
    """Patch of batches to several partitions, in one request to one topic."""

    name: bytes
    answer_template: ProduceAnswerTemplate | None
    each: Mapping[int, tuple[Settled, Batch, int]]
    """By partition, as in `BatchPatch`."""

    def pending(self, request: Request) -> Shifted:
        shifts: dict[Key, int] = {}
        for settled, _, _ in self.each.values():
            shifts |= settled.shifts
        return Shifted(request, (self.name,), shifts=shifts, answer_template=self.answer_template)

    def write(self, buf: bytearray) -> None:
        for _, batch, producer_id in self.each.values():
            if producer_id != batch.producer_id:
                rewrite_producer_id(buf, batch.at, producer_id)


class SettledTopic:
    """Partitions of a mapped topic, through one port, on one snapshot."""

    __slots__ = ("_name", "_partitions", "_routes", "answer_template")

    def __init__(self, name: bytes, routes: Routes, version: int) -> None:
        self._name, self._routes = name, routes
        self._partitions: BoundedCache[int, Settled] = BoundedCache()
        self.answer_template = ProduceAnswerTemplate.of(name, version)

    def settles(
        self,
        buf: bytearray,
        spans: Sequence[PartitionSpan],
        end: int,
        shared: Shared,
        order: ProducerOrder,
        now: float,
    ) -> BatchPatch | BatchesPatch | None:
        """The patch for the batches of all these partitions; bytes before `end` have come. None: they have to be
        judged."""
        each: dict[int, tuple[Settled, Batch, int]] = {}
        alone = len(spans) == 1
        for number_at, at, stop in spans:
            (partition,) = _INT(buf, number_at)
            settled = self._partitions.get(partition) or self._find(partition, shared.remembered)
            if settled is None or partition in each:
                return None
            batch = first_batch(buf, at, end if end < stop else stop, stop)
            if batch is None or batch.records_count < 0 or batch.last_offset_delta < 0:
                return None
            if (settled.key, batch.producer_id) in order.under_way:
                return None
            producer_id = settled.producer_id(batch, shared, now)
            if producer_id is None:
                return None
            if alone:
                return BatchPatch(settled, batch, producer_id)
            each[partition] = settled, batch, producer_id
        return BatchesPatch(self._name, self.answer_template, each)

    def _find(self, partition: int, room: CacheBudget) -> Settled | None:
        routes, name = self._routes, self._name
        route = routes.topic(name)
        if route.no_produce is not None or route.topic is None or route.topic.crosses(partition):
            return None
        extent = routes.writer(route.topic, partition)
        if not isinstance(extent, Extent):
            return None
        key, sequences = (name, partition), route.sequences
        must_open = sequences is not None and sequences.terms.get(partition) == extent.writer_epoch
        shifts = {key: extent.shift} if extent.shift else {}
        settled = Settled(key, extent.writer_epoch, self.answer_template, shifts, sequences, must_open)
        room.keep(self._partitions, name, partition, settled)
        return settled
