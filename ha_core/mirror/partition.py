"""State of copying one partition: what to fetch next, what may be appended, what is acknowledged. No I/O.

    for intent in copy.fetched(answer): ...   # written to the copy log; when all in-sync replicas have one:
    for batch in copy.noted(): ...            # appended in this order, each acknowledged in its turn:
        copy.appended(offset)
    if copy.due:
        for note in copy.notes(): ...         # written to the copy log; when the last, the progress, is acknowledged:
        copy.recorded(progress)

Records in flight are bounded twice: in bytes, and in intents not covered by a written progress. The slots of intents in
the copy log are reused, so one more would overwrite an intent that a successor needs. If an answer needs more slots
than are free, the rest of it is fetched again.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from struct import Struct
from typing import NamedTuple

from ha_core.mirror.progress import Copied, CopyDamagedError, DisplacedError, Intent, Progress, ProgressBuilder, RunPage
from ha_core.mirror.split import split
from ha_core.model import Run
from ha_core.wire.copied_batch import CONTROL, TRANSACTIONAL, claim, raw
from ha_core.wire.records import HEADER_BYTES, Batch, batches
from ha_core.wire.sequences import MODULUS, last_sequence
from ha_core.wire.varint import read_varlong

SLOTS = 64
"""Intents per partition in the copy log. A progress is written after half as many."""
MAX_BATCHES = 1000
"""Per intent, which is then below 100 kB: the copy log takes a megabyte by default."""
PROGRESS_EVERY_BYTES = 64 << 20
"""Limit of the bytes that a successor reads in the copy to find the end of its data."""
_ABORT = 0
_LEADER_EPOCH_AT, _LARGEST_MS_AT = 12, 35
_INT, _LONG = Struct(">i"), Struct(">q")


class Aborted(NamedTuple):
    """An aborted transaction, as reported in a fetch of committed records. Other fetches report none."""

    producer_id: int
    first_offset: int


class Claimed(NamedTuple):
    """A batch to append, in the form that the target's broker accepts."""

    copied: tuple[Copied, ...]
    """The last one has records; those before it have none."""
    data: memoryview
    newest_ms: int
    """Largest timestamp in the batch."""


class _Noting(NamedTuple):
    intent: Intent
    claimed: tuple[Claimed, ...]


class _Appending(NamedTuple):
    number: int
    leader_epoch: int
    claimed: Claimed
    last: bool
    """True for the last batch of its intent."""


class _Kept(NamedTuple):
    """An answer that is still needed in part."""

    claims: int
    """Number of batches claimed up to its end."""
    size: int
    """Bytes held for it: the whole answer if any batch is appended from its buffer, and all batches made from it."""
    buffer: bytearray | None
    """Buffer of the answer, maybe shared with other partitions; None: nothing is appended from it."""
    made: int
    """Bytes of batches made from it (`split`), which are outside of the buffer."""


class PartitionCopy:
    """
    :ivar writer: the producer that appends.
    :ivar next_offset: the source offset to fetch next, above skipped ones (aborted and control batches).
    :ivar next_epoch: leader epoch of the source of the last batch below `next_offset`; -1: unknown.
    :ivar copied_ms: largest timestamp of the last appended batch; -1: none was.
    :ivar seen_ms: largest timestamp of the last fetched batch; -1: none was.
    """

    def __init__(self, progress: Progress) -> None:
        self.writer = progress.writer
        self.next_offset, self.next_epoch = progress.source, progress.leader_epoch
        self.copied_ms = self.seen_ms = -1
        self._account = ProgressBuilder(progress)
        self._sequence = progress.sequence
        self._number = progress.number
        self._recorded = progress.number
        self._bytes = 0
        self._held = self._made = 0
        self._bytes_since = 0
        self._claims = self._appends = 0
        self._answers: deque[_Kept] = deque()
        self._without_records: list[Copied] = []
        self._pages: dict[int, RunPage] = {}
        self._noting: deque[_Noting] = deque()
        self._appending: deque[_Appending] = deque()

    @property
    def progress(self) -> Progress:
        """Everything that the target has acknowledged."""
        return self._account.progress()

    @property
    def pages(self) -> Mapping[int, RunPage]:
        """Pages of the map that may be missing in the copy log."""
        return self._pages

    @property
    def source(self) -> int:
        """The source offset after the last record that the target has acknowledged, or after skipped ones."""
        return self.next_offset if self.idle else self._account.source

    @property
    def target(self) -> int:
        """The offset of the copy after the last record that the target has acknowledged."""
        return self._account.target

    def newest_runs(self, count: int) -> tuple[Run, ...]:
        """The newest runs that the target has acknowledged."""
        return self._account.newest_runs(count)

    @property
    def last_run(self) -> Run | None:
        """See `ProgressBuilder`."""
        return self._account.last_run

    @property
    def source_base(self) -> int:
        """See `Progress`."""
        return self._account.source_base

    @property
    def overtaken(self) -> int:
        """Source offsets in all that were deleted before they were copied, see `pass_overtaken`."""
        return self._account.overtaken

    @property
    def bytes(self) -> int:
        """Bytes in flight."""
        return self._bytes

    @property
    def held(self) -> int:
        """Bytes of the answers that are kept, each in full until its last batch is appended, and of batches made from
        them."""
        return self._held

    @property
    def buffers(self) -> Iterator[bytearray]:
        """Buffers of these answers, which may contain records of other partitions too."""
        return (kept.buffer for kept in self._answers if kept.buffer is not None)

    @property
    def made(self) -> int:
        """Bytes of `held` outside of these buffers."""
        return self._made

    @property
    def has_slots(self) -> bool:
        """True if another intent fits."""
        return self._number - self._recorded < SLOTS - 1

    @property
    def idle(self) -> bool:
        """True if everything fetched is appended."""
        return not self._noting and not self._appending

    @property
    def due(self) -> bool:
        """True if the progress should be written."""
        done = self._account.number - self._recorded
        return done >= SLOTS // 2 or (done > 0 and self._bytes_since >= PROGRESS_EVERY_BYTES)

    @property
    def unrecorded(self) -> bool:
        """True if the target has acknowledged more than the last written progress covers."""
        return self._account.number > self._recorded

    def fetched(self, records: bytearray | memoryview, aborted: Iterable[Aborted] = ()) -> list[Intent]:
        """Takes an answer to a fetch at `next_offset`. Batches stay in its buffer, which must not be changed by others
        from now on.

        :param aborted: transactions whose records are not copied; without any, aborted and open ones are copied as
            plain records (`Isolation.UNCOMMITTED`).
        :return: intents to write to the copy log before any of the batches is appended.
        :raises RemoteProtocolError: a batch cannot be read.
        """
        claims = self._claims
        intents = self._claim(records, aborted)
        if self._claims > claims:
            buffer = records.obj if isinstance(records, memoryview) else records
            assert isinstance(buffer, bytearray)
            kept = _kept(self._claims, len(records), buffer, islice(reversed(self._noting), len(intents)))
            self._held += kept.size
            self._made += kept.made
            self._answers.append(kept)
        return intents

    def _claim(self, records: bytearray | memoryview, aborted: Iterable[Aborted]) -> list[Intent]:
        intents = list[Intent]()
        claimed, epoch = list[Claimed](), -1
        for batch, committed in judged(records, aborted):
            if batch.last_offset < self.next_offset:
                continue
            its_epoch = _INT.unpack_from(records, batch.at + _LEADER_EPOCH_AT)[0] if batch.magic == 2 else -1
            for copied, data in _parts(records, batch, self.next_offset) if committed else ():
                if not copied.records:
                    self._without_records.append(copied)
                    continue
                if claimed and (its_epoch != epoch or len(claimed) >= MAX_BATCHES):
                    intents.append(self._intent(claimed, epoch))
                    claimed = []
                if not claimed and not self.has_slots:
                    return intents
                epoch = its_epoch
                claimed.append(self._claimed(copied, data))
                self.next_offset, self.next_epoch = copied.after, its_epoch
            self.next_offset, self.next_epoch = batch.last_offset + 1, its_epoch
        if claimed:
            intents.append(self._intent(claimed, epoch))
        return intents

    def _claimed(self, copied: Copied, data: memoryview) -> Claimed:
        claim(data, 0, *self.writer, self._sequence)
        self._sequence = (self._sequence + copied.records) % MODULUS
        (self.seen_ms,) = _LONG.unpack_from(data, _LARGEST_MS_AT)
        claimed = Claimed((*self._without_records, copied), data, self.seen_ms)
        self._without_records.clear()
        self._claims += 1
        return claimed

    def _intent(self, claimed: list[Claimed], leader_epoch: int) -> Intent:
        self._number += 1
        batches_ = tuple(copied for one in claimed for copied in one.copied)
        intent = Intent(self.writer, self._number, batches_, leader_epoch)
        self._noting.append(_Noting(intent, tuple(claimed)))
        self._bytes += sum(len(one.data) for one in claimed)
        return intent

    def noted(self) -> tuple[Claimed, ...]:
        """The oldest intent is in the copy log: its batches may be appended after those of earlier ones."""
        intent, claimed = self._noting.popleft()
        last = len(claimed) - 1
        for index, one in enumerate(claimed):
            self._appending.append(_Appending(intent.number, intent.leader_epoch, one, index == last))
        return claimed

    def appended(self, offset: int) -> None:
        """The target has acknowledged the oldest batch in flight.

        :param offset: its offset in the copy.
        :raises CopyDamagedError: other records were at this offset.
        :raises DisplacedError: the offset is higher than expected.
        """
        number, leader_epoch, claimed, last = self._appending.popleft()
        account = self._account
        what = f"a batch was appended at offset {offset}, and {account.target} comes next"
        if offset > account.target:
            raise DisplacedError(f"{what}: a marker is between them, or another producer writes to the copy")
        if offset < account.target:
            raise CopyDamagedError(f"{what}: its brokers have lost records, or its topic was deleted and re-created")
        for copied in claimed.copied:
            account.add(copied, leader_epoch)
        if last:
            account.number = number
        self.copied_ms = claimed.newest_ms
        self._bytes -= len(claimed.data)
        self._bytes_since += len(claimed.data)
        self._appends += 1
        while self._answers and self._answers[0].claims <= self._appends:
            kept = self._answers.popleft()
            self._held -= kept.size
            self._made -= kept.made

    def pass_overtaken(self, start: int) -> None:
        """Continues at `start`, where the source's log begins now: retention has deleted what came next.

        Call it while idle only, and write `notes` before any later intent. Then a successor continues there as well,
        and no copier counts these offsets twice.
        """
        assert self.idle
        self._account.pass_overtaken(self._without_records, self.next_offset, start)
        self._without_records.clear()
        # No batch below the log start shows its leader epoch any more.
        self.next_offset, self.next_epoch = start, -1

    def notes(self) -> tuple[RunPage | Progress, ...]:
        """Notes to write now, in this order; the progress comes last."""
        pages, progress = self._account.notes()
        self._pages |= {page.number: page for page in pages}
        return (*pages, progress)

    def recorded(self, progress: Progress) -> None:
        """Records that the copy log has this progress."""
        self._recorded = progress.number
        self._bytes_since = 0
        self._pages = {number: page for number, page in self._pages.items() if number >= progress.pages}


def _kept(claims: int, size: int, buffer: bytearray, noting: Iterable[_Noting]) -> _Kept:
    """:param noting: all intents claimed from the answer."""
    made, in_place = 0, False
    for claimed in (one for noted in noting for one in noted.claimed):
        if claimed.data.obj is buffer:
            in_place = True
        else:
            made += len(claimed.data)
    return _Kept(claims, size + made, buffer, made) if in_place else _Kept(claims, made, None, made)


def _parts(records: bytearray | memoryview, batch: Batch, start: int) -> Iterator[tuple[Copied, memoryview]]:
    """Batches to append for a batch of the source, from offset `start` on."""
    if batch.magic == 2 and not batch.records_count:
        last = last_sequence(batch.base_sequence, batch.last_offset_delta + 1) if batch.producer_id >= 0 else -1
        yield Copied(batch.last_offset + 1, 0, batch.producer_id, batch.producer_epoch, last), memoryview(b"")
    elif batch.base_offset < start or not raw(batch):
        yield from split(records, batch, start)
    else:
        last = last_sequence(batch.base_sequence, batch.records_count) if batch.producer_id >= 0 else -1
        copied = Copied(batch.base_offset, batch.records_count, batch.producer_id, batch.producer_epoch, last)
        yield copied, memoryview(records)[batch.at : batch.end]


def judged(records: bytearray | memoryview, aborted: Iterable[Aborted]) -> Iterator[tuple[Batch, bool]]:
    """Every batch, and True if it has records for a reader that knows of these aborted transactions."""
    waiting = deque(sorted(aborted, key=lambda one: one.first_offset))
    open_ids: set[int] = set()
    for batch in batches(records, 0, len(records)):
        while waiting and waiting[0].first_offset <= batch.last_offset:
            open_ids.add(waiting.popleft().producer_id)
        if batch.attributes & CONTROL:
            if _control_type(records, batch) == _ABORT:
                open_ids.discard(batch.producer_id)
            yield batch, False
        else:
            yield batch, not (batch.attributes & TRANSACTIONAL and batch.producer_id in open_ids)


def _control_type(records: bytearray | memoryview, batch: Batch) -> int:
    """0: abort, 1: commit; -1: empty after compaction, as the last batch of a producer that has not written since.

    A control batch has one record, whose key is a version and a type, two bytes each.
    """
    if not batch.records_count:
        return -1
    at = batch.at + HEADER_BYTES
    _, at = read_varlong(records, at)  # length
    at += 1  # attributes
    for _ in range(3):  # timestamp and offset deltas, length of the key
        _, at = read_varlong(records, at)
    return int.from_bytes(records[at + 2 : at + 4], "big")
