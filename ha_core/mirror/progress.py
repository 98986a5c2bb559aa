"""How far a partition is copied, and how that is known again after any death.

One *copier* at a time appends to the copy of a partition: a producer whose id belongs to a transactional id of the
partition, so that the target's broker knows its *epoch*. Before it appends anything it writes to the *copy log* (a
compacted topic of the target) what it is about to append: an `Intent`. Now and then it writes a `Progress` there, which
says all that the intents up to then came to.

What a copier that takes over does, in this order:

1. INIT_PRODUCER_ID: a higher epoch.
2. An empty aborted transaction over the copy and its part of the copy log. Its marker carries the epoch into both. From
   there on the broker refuses whatever an older copier still sends, however long that one has stood still.
3. Asks for the end of the copy, then reads the copy log to its end, and then in the copy, up to that end, the *data
   end*: where the last record behind the newest progress ends that is still there. A progress of a newer epoch says
   that it was taken over itself; in this order it cannot see records of a newer copier without the progress of it.
4. `recover` (`recovery`), and writes the progress that comes of it, in its own epoch. Only then does it append.

Invariants:

- *What lies in the copy is in an intent.* It was written, and acknowledged by all in-sync replicas, before.
- *Intents are applied in their order, and each batch whole.* One producer epoch appends them, by sequence.
- So the number of records between the progress and the data end, as sequences have it, says which batches of which
  intents are in the copy. The next source offset follows from the copy itself: no checkpoint can disagree with it.
- *What is gone is not counted.* Retention or compaction may have taken what lay behind the data end, and nobody can say
  whether that were records or markers. So the records are copied again, if there were any: the first ones are gone, so
  the copy holds none twice.
- Intents of another epoch than the newest progress's are of a copier that was taken over before it appended them, or
  after: nothing of them is in the copy above the data end. They are ignored.
- *Where a record was acknowledged, no marker lies.* A copy that has lost records (an unclean leader) has lost the last
  one. Its end says so at first, until the markers of those who take over have filled the place; then they say so.
- *Behind the data end there are markers only*, each of a copier that took over and wrote no progress. A marker may come
  twice: its coordinator repeats it until it knows that it was written. So nobody goes on before the coordinator says
  that the transaction is over, and reads to the end of that moment: a second marker lies below the progress as well.

A marker of somebody else may lie between records as well. In a log that was the source before (`reversing`) it may end
a transaction that had taken the partition in and written nothing yet, or be the repetition of one: coordinators know
nothing of mirrors. It holds no record, so it is a hole of one offset; a *record* of somebody else is damage. Which
markers have records of the copier behind them the copy says, and the copier's sequences say that nothing else lay
between them. They also say how many markers are gone from before a batch that is left. Where those lay nobody can say,
so the map may have the records that went with them some offsets too low, where nothing is left either. A copier whose
batch lies further behind than it was to takes itself over to find out.

A fence holds as long as brokers remember it: the coordinator forgets a transactional id that was not used for
`transactional.id.expiration.ms` (7 days) and gives out another producer id then, and a partition forgets a producer
that wrote nothing for `producer.id.expiration.ms` (1 day). So a copier takes its own copy over again long before that.
Partitions judge that by the times of records, and copies have those of their sources: behind older ones the fence ends
at the broker's next look, and so do the sequences. docs/design/mirrors-takeover.md has the rules that take its place.

What producers of the source had in the part that is copied (id, epoch, last sequence) is in the intents as well, so it
is known exactly up to the data end: a producer that repeats a batch after a failover gets the answer that it deserves.
Of more than `MAX_PRODUCERS` only those that wrote last are kept; `forgotten` counts the others.

A progress holds the newest runs only. Older ones are in a `RunPage` each `PAGE_RUNS`, written before the progress that
does not hold them any more: a source with a million gaps costs a copier and a note no more than one with a thousand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from ha_core.model import Run
from ha_core.wire.sequences import MODULUS

PAGE_RUNS = 1000
MAX_PRODUCERS = 2000
"""Whose state a progress has. Brokers forget producers after a day; this bound needs no clock."""


class CopyDamagedError(Exception):
    """The copy or its log holds what no copier can have written. Copying stops there, and nothing is guessed."""


class DisplacedError(Exception):
    """A batch lies further behind than it was to. What lies before it only the copy says: to whoever takes it over."""


class Writer(NamedTuple):
    """A copier, as brokers know it."""

    producer_id: int
    epoch: int

    def is_before(self, other: Writer) -> bool:
        """Whether `other` has surely come later. Where epochs are used up the id is another, and nobody can say."""
        return self.producer_id == other.producer_id and self.epoch < other.epoch


class Copied(NamedTuple):
    """A batch of the copy: `records` that lay from `source` on, without a gap, in the source.

    One without records is what compaction has left of a producer's last batch: nothing is appended for it.
    """

    source: int
    records: int
    producer_id: int = -1
    """In the source; -1: without idempotence."""
    epoch: int = -1
    last_sequence: int = -1

    @property
    def after(self) -> int:
        """The source offset behind its last record."""
        return self.source + self.records


class Intent(NamedTuple):
    """What a copier is about to append."""

    writer: Writer
    number: int
    """Counts the intents of the partition, over all copiers."""
    batches: tuple[Copied, ...]
    leader_epoch: int = -1
    """Of the source, in which all of them were written; -1: it did not say."""


class RunPage(NamedTuple):
    """Runs that no progress holds any more."""

    number: int
    runs: tuple[Run, ...]


class TopicIds(NamedTuple):
    """Of the topic in source and target, in hexadecimal; "": the brokers have none (before 2.8)."""

    source: str = ""
    target: str = ""


_NO_IDS = TopicIds()


Producers = Mapping[int, tuple[int, int]]
"""Producer id in the source → (epoch, last sequence)."""


@dataclass(frozen=True, slots=True)
class Progress:
    """All that is known of a copy up to `target`, where its writer's next record will lie.

    :ivar source: the next source offset to copy.
    :ivar sequence: of the writer's next record.
    :ivar number: of the last intent that is wholly in it, or of which no more will come.
    :ivar leader_epoch: of the source, in which the last record was written.
    :ivar runs: where what lies; oldest first, none touching the next one. Older ones are in pages.
    :ivar pages: how many of them there are.
    :ivar producers: those that wrote last come last.
    :ivar forgotten: how often one was left out because too many others wrote after it.
    :ivar base: what lies below it in the copy and in no run was there before the mirror: no copier brought it.
    :ivar source_base: what lies below it in the source and in no run is not copied: nobody is led to it.
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

    @property
    def last_record(self) -> int:
        """The offset in the copy of the last record that a copier of this mirror has there; -1: there is none.

        Those below `base` are not looked at: between them and the copier's first one may lie all that was not mirrored
        when the copy was a source."""
        last = self.runs[-1] if self.runs else None
        return -1 if last is None or last.target < self.base else last.target + last.records - 1

    def with_batches(self, batches: Iterable[Copied], leader_epoch: int = -1) -> Progress:
        """With these appended.

        :raises CopyDamagedError: one lies below what is copied already.
        """
        account = ProgressBuilder(self)
        for batch in batches:
            account.add(batch, leader_epoch)
        return account.progress()

    def taken_over(self, writer: Writer, end: int) -> Progress:
        """As another copier goes on from it.

        :param end: of the copy, behind the marker of its transaction.
        """
        return replace(self, writer=writer, target=end, sequence=0)


class ProgressBuilder:
    """A progress that grows batch by batch.

    :ivar number: of the last intent that is wholly in it, as whoever adds its batches says.
    """

    def __init__(self, progress: Progress) -> None:
        self.source, self.target, self.number = progress.source, progress.target, progress.number
        self._before = progress
        self._leader_epoch = progress.leader_epoch
        self._runs = list(progress.runs)
        self._producers = dict(progress.producers)
        self._pages, self._forgotten = progress.pages, progress.forgotten
        self._passed = 0

    def add(self, batch: Copied, leader_epoch: int = -1) -> None:
        """:raises CopyDamagedError: it lies below what is copied already."""
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
        """A marker that is no copier's lies where the next record would: a hole of one offset."""
        assert marker == self.target
        self.target += 1
        self._passed += 1

    def newest_runs(self, most: int) -> tuple[Run, ...]:
        """At most so many, in their order."""
        return tuple(self._runs[-most:])

    def progress(self) -> Progress:
        """As of now, with every run that no page has."""
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
            before.source_base,
        )

    def notes(self) -> tuple[tuple[RunPage, ...], Progress]:
        """What is to be written down, in this order; the runs of the pages are held here no more."""
        written = list[RunPage]()
        while len(self._runs) > PAGE_RUNS:  # the last run may still grow, so it is in no page
            written.append(RunPage(self._pages, tuple(self._runs[:PAGE_RUNS])))
            del self._runs[:PAGE_RUNS]
            self._pages += 1
        return tuple(written), self.progress()
