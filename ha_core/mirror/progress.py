"""Progress of copying a partition, and how a successor recovers it after any crash.

One *copier* at a time appends to the copy of a partition: a producer with a transactional id of the partition, so that
the target's broker knows its *epoch*. Before it appends batches it writes an `Intent` that lists them to the *copy log*
(a compacted topic of the target). Now and then it writes a `Progress` there, which sums up all intents so far.

A copier that takes over does the following, in this order:

1. INIT_PRODUCER_ID: a higher epoch.
2. An empty aborted transaction over the copy and its partition of the copy log. Its marker carries the epoch into both.
   From then on the broker refuses everything that an older copier still sends, however long that one has stood still.
3. Requests the end of the copy, then reads the copy log to its end, and then reads the copy up to that end to find the
   *data end*: the end of the last remaining record above the newest progress. A progress of a newer epoch means that
   this copier was taken over itself; in this order it cannot see records of a newer copier without its progress.
4. `recover` (`recovery`), and writes the recovered progress in its own epoch. Only then does it append.

Invariants:

- *Every record of the copy is in an intent*, written and acknowledged by all in-sync replicas before.
- *Intents are applied in their order, and each batch whole.* One producer epoch appends them, by sequence.
- So the number of records between the progress and the data end, counted by sequences, tells which batches of which
  intents are in the copy. The next source offset follows from the copy itself: no checkpoint can disagree with it.
- *Missing records are not counted.* Retention or compaction may have removed records above the data end, and these
  cannot be told from markers. So the records, if any, are copied again: the first ones are gone, so the copy holds none
  twice.
- Intents of another epoch than the newest progress's are of a copier that was taken over before it appended them, or
  after: none of their records is in the copy above the data end. They are ignored.
- *At the offset of an acknowledged record there is no marker.* A copy that has lost records (an unclean leader) has
  lost the last one. At first its end shows that, then the markers of later copiers at those offsets.
- *Above the data end there are only markers*, each of a copier that took over and wrote no progress. A marker may be
  written twice: its coordinator repeats it until it knows that it was written. So a copier waits until the coordinator
  reports the end of the transaction, and reads up to the end at that moment: then even a second marker is below its
  progress.

Markers of other producers may be between records as well. In a log that was the source before (`reversing`) such a
marker may end a transaction that had added the partition and written nothing yet, or repeat another marker:
coordinators know nothing of mirrors. It is no record, so it is a hole of one offset; a *record* of another producer is
damage. The copy shows which markers are followed by records of the copier, whose sequences show that nothing else was
between them, and how many markers are gone from before a remaining batch. Their offsets cannot be known, so the map may
have the records that went with them some offsets too low, where nothing is left either. A copier whose batch is at a
higher offset than expected takes itself over to find out.

A fence lasts as long as brokers remember it: the coordinator forgets an unused transactional id after
`transactional.id.expiration.ms` (7 days) and then assigns another producer id, and a partition forgets a producer that
has not written for `producer.id.expiration.ms` (1 day). So a copier takes its own copy over again long before that.
Partitions judge that by the timestamps of records, and copies have those of their sources: after old records the fence
ends at the broker's next check, and so do the sequences. docs/design/mirrors-takeover.md has the rules that take its
place.

Intents also contain the state of the source's producers in the copied part (id, epoch, last sequence), so it is known
exactly up to the data end: a producer that repeats a batch after a failover gets the correct answer. At most
`MAX_PRODUCERS` are kept, those that wrote last; `forgotten` counts the others.

A progress holds the newest runs only. Older ones are in `RunPage`s of `PAGE_RUNS` each, written before the progress
that no longer holds them: a source with a million gaps costs a copier and a note no more than one with a thousand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ha_core.model import Run
from ha_core.wire.sequences import MODULUS

PAGE_RUNS = 1000
MAX_PRODUCERS = 2000
"""Most producers in a progress. Brokers forget producers after a day; this bound needs no clock."""


class CopyDamagedError(Exception):
    """The copy or its log contains something that no copier can have written. Copying stops there, without guessing."""


class ForeignRecordsError(CopyDamagedError):
    """The copy has records, and its copiers have no notes: another program wrote them, or a copier of another link."""


class DisplacedError(Exception):
    """The batch was appended at a higher offset than expected. Only a takeover, which rereads the copy, can tell what
    precedes it."""


class Writer(NamedTuple):
    """A copier, as brokers know it."""

    producer_id: int
    epoch: int

    def is_before(self, other: Writer) -> bool:
        """True if `other` surely came later. After the last epoch the id is another one, and the order is unknown."""
        return self.producer_id == other.producer_id and self.epoch < other.epoch


class Copied(NamedTuple):
    """A batch of the copy: `records` consecutive records of the source, from offset `source` on.

    One without records is an empty batch that compaction keeps for a producer: nothing is appended for it.
    """

    source: int
    records: int
    producer_id: int = -1
    """In the source; -1: not idempotent."""
    epoch: int = -1
    last_sequence: int = -1

    @property
    def after(self) -> int:
        """The source offset after its last record."""
        return self.source + self.records


class Intent(NamedTuple):
    """Batches that a copier is about to append."""

    writer: Writer
    number: int
    """Counts the intents of the partition, over all copiers."""
    batches: tuple[Copied, ...]
    leader_epoch: int = -1
    """Leader epoch of the source in which all of them were written; -1: unknown."""


class RunPage(NamedTuple):
    """Runs that no progress holds any more."""

    number: int
    runs: tuple[Run, ...]


class TopicIds(NamedTuple):
    """Ids of the topic in source and target, in hexadecimal; "": the brokers have none (before 2.8)."""

    source: str = ""
    target: str = ""


_NO_IDS = TopicIds()


Producers = Mapping[int, tuple[int, int]]
"""Producer id in the source → (epoch, last sequence)."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Everything that is known of a copy up to `target`, the offset of its writer's next record.

    :ivar source: the next source offset to copy.
    :ivar sequence: sequence of the writer's next record.
    :ivar number: number of the last intent that it covers or whose rest will never be appended.
    :ivar leader_epoch: leader epoch of the source in which the last record was written.
    :ivar runs: the newest runs, oldest first, none adjacent to the next one. Older ones are in pages.
    :ivar pages: number of pages.
    :ivar producers: in the order of their last writes.
    :ivar forgotten: number of producers left out because too many others wrote later.
    :ivar base: records of the copy below it and outside of all runs date from before the mirror: no copier wrote them.
    :ivar source_base: records of the source below it and outside of all runs are not copied: no reader is led to them.
    :ivar overtaken: source offsets that retention deleted before they were copied, and that a copier passed.
    """

    writer: Writer
    source: int
    target: int
    sequence: int = 0
    number: int = -1
    leader_epoch: int = -1
    runs: tuple[Run, ...] = ()
    producers: Producers = field(default_factory=dict)
    pages: int = 0
    forgotten: int = 0
    topics: TopicIds = _NO_IDS
    base: int = 0
    source_base: int = 0
    overtaken: int = 0

    @property
    def last_record(self) -> int:
        """The offset in the copy of the last record written by a copier of this mirror; -1: none.

        Records below `base` do not count: between them and the copier's first one there may be anything that was not
        mirrored when the copy was a source."""
        last = self.runs[-1] if self.runs else None
        return -1 if last is None or last.target < self.base else last.target + last.records - 1

    def with_batches(self, batches: Iterable[Copied], leader_epoch: int = -1) -> Progress:
        """The progress after these batches.

        :raises CopyDamagedError: one is below the copied end.
        """
        account = ProgressBuilder(self)
        for batch in batches:
            account.add(batch, leader_epoch)
        return account.progress()

    def taken_over(self, writer: Writer, end: int) -> Progress:
        """The progress for a copier that takes over.

        :param end: end of the copy, after the marker of its transaction.
        """
        return replace(self, writer=writer, target=end, sequence=0)


class ProgressBuilder:
    """A progress that grows batch by batch.

    :ivar number: number of the last intent that it covers, set by the caller.
    :ivar overtaken: see `Progress.overtaken`; likewise `source_base`.
    """

    def __init__(self, progress: Progress) -> None:
        self.source, self.target, self.number = progress.source, progress.target, progress.number
        self._before = progress
        self._leader_epoch = progress.leader_epoch
        self._runs = list(progress.runs)
        self._producers = dict(progress.producers)
        self._pages, self._forgotten = progress.pages, progress.forgotten
        self.overtaken = progress.overtaken
        self.source_base = progress.source_base
        self._passed = 0

    def add(self, batch: Copied, leader_epoch: int = -1) -> None:
        """:raises CopyDamagedError: it is below the copied end."""
        if batch.source < self.source or batch.records < 0:
            raise CopyDamagedError(f"{batch.records} records from {batch.source} on, after those up to {self.source}")
        if batch.records:
            last = self._runs[-1] if self._runs else None
            if last is not None and (last.after, last.target + last.records) == (batch.source, self.target):
                self._runs[-1] = Run(last.source, last.target, last.records + batch.records)
            else:
                self._runs.append(Run(batch.source, self.target, batch.records))
        if batch.producer_id >= 0:
            self._producers.pop(batch.producer_id, None)
            self._producers[batch.producer_id] = (batch.epoch, batch.last_sequence)
            if len(self._producers) > MAX_PRODUCERS:
                del self._producers[next(iter(self._producers))]
                self._forgotten += 1
        self.source = batch.after
        self.target += batch.records
        self._leader_epoch = max(self._leader_epoch, leader_epoch)

    def pass_over(self, marker: int) -> None:
        """Another producer's marker is at the offset of the next record: a hole of one offset."""
        assert marker == self.target
        self.target += 1
        self._passed += 1

    def pass_overtaken(self, before: Iterable[Copied], at: int, start: int) -> None:
        """
        :param before: batches without records up to `at`.
        :param at: the offset that was to be copied next.
        :param start: log start of the source, above it.
        """
        for copied in before:
            self.add(copied)
        self.source, self.overtaken, self._leader_epoch = start, self.overtaken + start - at, -1

    @property
    def last_run(self) -> Run | None:
        """The newest run; None: no copier of this mirror has written a record, see `Progress.last_record`."""
        last = self._runs[-1] if self._runs else None
        return None if last is None or last.target < self._before.base else last

    def newest_runs(self, count: int) -> tuple[Run, ...]:
        """At most `count` runs, oldest first."""
        return tuple(self._runs[-count:])

    def progress(self) -> Progress:
        """The current progress, with all runs that are in no page."""
        before = self._before
        return Progress(
            before.writer,
            self.source,
            self.target,
            (before.sequence + self.target - self._passed - before.target) % MODULUS,
            self.number,
            self._leader_epoch,
            tuple(self._runs),
            dict(self._producers),
            self._pages,
            self._forgotten,
            before.topics,
            before.base,
            self.source_base,
            self.overtaken,
        )

    def notes(self) -> tuple[tuple[RunPage, ...], Progress]:
        """Notes to write, in this order; the runs of the pages are dropped here."""
        written = list[RunPage]()
        while len(self._runs) > PAGE_RUNS:  # the last run may still grow, so it is in no page
            written.append(RunPage(self._pages, tuple(self._runs[:PAGE_RUNS])))
            del self._runs[:PAGE_RUNS]
            self._pages += 1
        return tuple(written), self.progress()
