"""Reverses a mirror: the copy has become the writer, and the old source becomes its copy. No I/O.

The records that both logs have are known: they are the runs of the old mirror, read in the other direction. So the new
copier begins with a progress that lists them, copies what was written since the switch, and nothing twice.

- In the writer everything below its *base*, the first offset that it wrote itself, came from the old source, or is its
  own of an earlier stay that no map leads to, such as a lost tail: nothing below it is copied
  (`Progress.source_base`).
- In the old source everything below its log end is its own. Records outside of all runs (aborted records, a tail that
  was not mirrored) were never copied, are in no map, and stay (`Progress.base`). But the log cleaner does not know
  maps: in a compacted topic it removes mirrored records in favour of later unmirrored ones of their keys. So a log with
  such records cannot become a copy.

The producers of the progress are those that wrote to the new source since, so there are none yet: their earlier state
is in the last sequences of the topic.
"""

from collections.abc import Iterable, Sequence

from ha_core.mirror.notes import Notes
from ha_core.mirror.partition_diff import LogPart, visible
from ha_core.mirror.progress import CopyDamagedError, Progress, ProgressBuilder, RunPage, TopicIds, Writer
from ha_core.mirror.recovery import data_end, recover
from ha_core.model import Run
from ha_core.wire.copied_batch import CONTROL
from ha_core.wire.records import Batch


def copied_below(notes: Notes, tail: Iterable[Batch], base: int) -> tuple[Progress, tuple[Run, ...]]:
    """How far the copy was that became the writer, and all its runs.

    :param notes: notes of its mirror, with the whole map.
    :param tail: the batches of the copy from the newest progress on; those from `base` on have other writers.
    :param base: its first own offset: the log end when it became the writer.
    :raises CopyDamagedError: the notes do not cover everything below `base`.
    """
    progress = notes.progress
    if progress is None:
        raise CopyDamagedError(f"there are no notes of {notes.copy}")
    before = progress.runs
    older = notes.runs[: len(notes.runs) - len(before)]
    batches = [batch for batch in tail if batch.base_offset < base]
    if progress.target < base:
        progress = recover(progress, notes.intents.values(), data_end(batches, progress, base))
    return progress, (*older, *progress.runs)


def reversed_notes(
    old: Progress,
    runs: Sequence[Run],
    base: int,
    writer: Writer,
    end: int,
    last: Iterable[Batch] = (),
    cleaned: LogPart | None = None,
) -> tuple[tuple[RunPage, ...], Progress]:
    """The first notes of the reversed mirror's copier, in this order, before it copies anything.

    :param old: progress of the old mirror; likewise all of its `runs`, oldest first.
    :param base: the first offset of the new source that came by no mirror.
    :param writer: the new copier, which has fenced the new copy; its marker is just below `end`.
    :param last: the batch of the old source with its last mirrored record, if it exists; read when the log is known to
        reach that far.
    :param cleaned: the old source above that record, if the topic is compacted.
    :raises CopyDamagedError: the old source has lost mirrored records, or its cleaner may remove them.
    """
    _require_kept(runs, end, last)
    if cleaned is not None:
        _require_no_tail(cleaned, last_mirrored(runs))
    progress = Progress(
        writer,
        source=base,
        target=end,
        runs=tuple(run.reversed for run in runs),
        topics=TopicIds(old.topics.target, old.topics.source),
        base=end,
        source_base=base,
    )
    return ProgressBuilder(progress).notes()


def last_mirrored(runs: Sequence[Run]) -> int:
    """The offset in the old source of the last record copied from there; -1: none."""
    return runs[-1].after - 1 if runs else -1


def _require_kept(runs: Sequence[Run], end: int, last: Iterable[Batch]) -> None:
    """No marker may be at the offset of a record: offsets that an unclean leader has lost are filled with markers of
    fences and of aborted transactions."""
    at = last_mirrored(runs)
    if at < 0:
        return
    lost = "its brokers have lost records, as an unclean leader does"
    if at >= end - 1:  # the writer's marker is the last
        raise CopyDamagedError(f"the record at offset {at} was mirrored, and the log ended at {end - 1} then: {lost}")
    if any(batch.attributes & CONTROL and batch.base_offset <= at <= batch.last_offset for batch in last):
        raise CopyDamagedError(f"the record at offset {at} was mirrored, and a marker lies there: {lost}")


def _require_no_tail(log: LogPart, mirrored: int) -> None:
    """Ignores aborted records, as the log cleaner does."""
    own = next((record.offset for record in visible(log) if record.offset > mirrored), None)
    if own is not None:
        raise CopyDamagedError(
            f"the record at offset {own} was not mirrored, and the topic is compacted: for its sake brokers take "
            "away what was mirrored of its key. Fetch what is needed of the tail, delete the topic there, and link it "
            "anew"
        )
