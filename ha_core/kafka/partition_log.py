"""Reads the log of one partition, batch by batch, from its leader."""

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any, NamedTuple

from ha_core.kafka.brokers import Again, Answers, Brokers
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.offsets import Leaders, ends, fetched
from ha_core.mirror.partition import Aborted, judged
from ha_core.mirror.partition_diff import Piece
from ha_core.plan.facts.clusters import Partition
from ha_core.wire.codes import ErrorCode, name_of
from ha_core.wire.copied_batch import CONTROL
from ha_core.wire.records import batches

_BYTES = 4 << 20


class _Fetched(NamedTuple):
    pieces: tuple[Piece, ...]
    after: int
    """Offset of the next fetch."""


class PartitionLog:
    """The batches of a partition that overlap `[start, end)`; the next ones are fetched while the caller works."""

    def __init__(self, brokers: Brokers, key: Partition, start: int, end: int, committed: bool = False) -> None:
        """:param committed: judge transactions; `end` is then at most the last stable offset."""
        self.log_start = 0
        self._brokers, self._key = brokers, key
        self._at, self._end, self._committed = start, end, committed
        self._leader: tuple[int, int] | None = None

    def __iter__(self) -> Iterator[Piece]:
        at = self._at
        coming: Future[_Fetched] | None = None
        while at < self._end:
            fetched_batches = coming.result() if coming is not None else self._fetch(at)
            at = fetched_batches.after
            coming = self._brokers.pool.submit(self._fetch, at) if at < self._end else None
            yield from fetched_batches.pieces

    def _fetch(self, at: int) -> _Fetched:
        asking = self._brokers.asking()
        leaders = Leaders(asking)
        what = f"read {self._key[0]}-{self._key[1]} from offset {at}"

        def locate(wanted: set[Partition]) -> Answers[Partition, int]:
            if self._leader is None:
                for key, node in leaders.locate(wanted):
                    if isinstance(node, Again):
                        yield key, node
                        return
                    self._leader = node, leaders.epochs[key]
            assert self._leader is not None
            yield self._key, self._leader[0]

        def ask(node: int, _: list[Partition]) -> Answers[Partition, _Fetched]:
            assert self._leader is not None
            leader, self._leader = self._leader, None
            code, part = fetched(asking, node, self._key, at, leader[1], _BYTES, self._committed)
            if code == ErrorCode.OFFSET_OUT_OF_RANGE:
                start = ends(asking, [self._key])[self._key].start  # not part of the broker's error
                self.log_start = max(self.log_start, start)
                # Otherwise a new leader lags the previous one.
                yield self._key, _Fetched((), start) if start > at else Again(name_of(code))
                return
            if again := asking.again(what, code):
                yield self._key, again
                return
            self._leader = leader
            yield self._key, Again("it was held back by a quota") if part is None else self._taken(at, part)

        return asking.rounds(what, [self._key], locate, ask)[self._key]

    def _taken(self, at: int, part: dict[str, Any]) -> _Fetched | Again:
        self.log_start = max(self.log_start, part["log_start_offset"])
        buf = bytes(part["records"] or b"")
        if not buf:
            readable_end = part["last_stable_offset"] if self._committed else part["high_watermark"]
            if readable_end >= self._end:
                return _Fetched((), self._end)  # the rest was compacted away
            return Again(f"it ends at {readable_end}, before {self._end}")
        if self._committed:
            aborted = [Aborted(one["producer_id"], one["first_offset"]) for one in part["aborted_transactions"] or ()]
            pieces = [Piece(batch, buf, committed) for batch, committed in judged(memoryview(buf), aborted)]
        else:
            found = batches(buf, 0, len(buf))
            pieces = [Piece(batch, buf, not batch.attributes & CONTROL) for batch in found]
        if not pieces:
            raise KafkaAdminError(
                self._brokers.cluster.name, f"{self._key[0]}-{self._key[1]}: the batch at offset {at} does not end."
            )
        wanted = tuple(piece for piece in pieces if piece.batch.base_offset < self._end or piece.batch.magic < 2)
        return _Fetched(wanted, pieces[-1].batch.last_offset + 1)
