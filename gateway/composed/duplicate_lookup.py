"""Looks a batch up in the logs of earlier writer epochs: its producer retries it, and needs its offset.

A retry comes within seconds of its batch, and the records have timestamps: the log is read from the first record of
that time on, up to a number of bytes. If that misses the batch (because of a broker's clock or an application's own
timestamps), earlier records are read as well.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gateway.composed.ask import Ask, Asking, ClusterUnavailableError, Message, OneBroker, ask_once
from gateway.session.produce.duplicate_offsets import EarlierBatch
from ha_core.model import Extent
from ha_core.model.producer import upstream_id
from ha_core.wire.codes import ApiKey, ErrorCode
from ha_core.wire.errors import RemoteProtocolError
from ha_core.wire.own_requests import fetch_partition, fetched_partition, list_offsets
from ha_core.wire.records import Batch, batches

BYTES_PER_FETCH = 1 << 18
"""Bytes whose batch headers are walked at once: 4,000 of the smallest batches take some milliseconds."""
MAX_FETCHES = 64
"""Limit per retry: 16 MB, half a second of a fast network."""
TAIL = 10_000
"""Records before the end of a stay that are read if timestamps do not help."""
ASK_MS = 2_000


def recall(
    wanted: EarlierBatch, earlier_extents: Sequence[Extent], leader: Callable[[str], int | None]
) -> Asking[int | None]:
    """The client offset of the batch's first record; None if it was not found within the bounds.

    :param earlier_extents: extents of the earlier writer epochs, in order; the last one is searched first.
    :param leader: cluster → the broker there that leads the partition.
    :raises ClusterUnavailableError: the result is not known now.
    """
    budget = [MAX_FETCHES]
    tails: list[tuple[_Log, int, int]] = []
    for extent in reversed(earlier_extents):
        end = extent.physical_end
        if extent.ignored or end is None:
            continue
        broker = leader(extent.cluster)
        if broker is None:
            raise ClusterUnavailableError(extent.cluster, "the leader is not known")
        log = _Log(wanted, extent, broker)
        start = yield from log.first_of_its_time()
        start = min(max(start if start >= 0 else end, extent.base), end)
        found = yield from log.walk(start, end, budget)
        if found is not None:
            return found
        tails.append((log, max(extent.base, min(start, end - TAIL)), start))
    for log, start, end in tails:
        found = yield from log.walk(start, end, budget)
        if found is not None:
            return found
    return None


@dataclass(frozen=True, slots=True)
class _Log:
    """One stay, in its cluster's offsets."""

    wanted: EarlierBatch
    extent: Extent
    broker: int

    def first_of_its_time(self) -> Asking[int]:
        wanted = self.wanted
        body = list_offsets([(wanted.topic.decode(), wanted.partition)], wanted.timestamp_ms)
        answer = yield from self._ask(ApiKey.LIST_OFFSETS, body)
        found = [partition for topic in answer["topics"] for partition in topic["partitions"]]
        if len(found) != 1:
            raise ClusterUnavailableError(self.extent.cluster, "it left the partition out of its answer")
        self._demand(found[0]["error_code"])
        return int(found[0]["offset"])

    def walk(self, start: int, stop: int, budget: list[int]) -> Asking[int | None]:
        """The client offset, if the batch begins in `[start, stop)`.

        :param budget: remaining fetches; reduced by those used here.
        """
        at = start
        while at < stop and budget[0] > 0:
            budget[0] -= 1
            request = fetch_partition((self.wanted.topic.decode(), self.wanted.partition), at, BYTES_PER_FETCH)
            code, part = fetched_partition((yield from self._ask(ApiKey.FETCH, request)))
            if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                return None  # retention has removed it
            self._demand(code)
            before, records = at, (part and part["records"]) or b""
            try:
                for batch in batches(records, 0, len(records)):
                    if batch.base_offset >= stop:
                        return None
                    if batch.base_offset >= start and self._is_it(batch):
                        return self.extent.to_client(batch.base_offset)
                    at = max(at, batch.last_offset + 1)
            except RemoteProtocolError:
                return None
            if at == before:
                raise ClusterUnavailableError(self.extent.cluster, "its last records are not replicated yet")
        return None

    def _is_it(self, batch: Batch) -> bool:
        wanted = self.wanted
        producer_id = upstream_id(wanted.producer_id, self.extent.writer_epoch)
        # Compaction removes records from a batch, and keeps its offsets.
        found = (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_offset_delta + 1)
        return found == (producer_id, wanted.epoch, wanted.sequence, wanted.records)

    def _ask(self, api_key: ApiKey, body: Message) -> Asking[Message]:
        reply = yield from ask_once(Ask(self.extent.cluster, OneBroker(self.broker), api_key, body, ASK_MS))
        if isinstance(reply, ClusterUnavailableError):
            raise reply
        return reply

    def _demand(self, code: int) -> None:
        if code:
            raise ClusterUnavailableError(self.extent.cluster, f"error {code}")
