"""A mirror turned round: the copy has become the writer, and what was the source becomes its copy. No I/O.

Where what lies in both logs is known: the runs of the mirror as it was, read the other way. So the new copier begins
with a progress that says all of it, copies what the writer has had since it became one, and nothing twice.

- In the writer everything below its *base*, the first offset that it got as a writer, came from the old source, or is
  its own of an earlier stay that no map leads to, as a lost tail: there is nothing to copy below it
  (`Progress.source_base`).
- In the old source everything below its log's end is its own. What of it no run says (aborted records, a tail that was
  not mirrored) was never copied, is in no map, and stays as it is (`Progress.base`). But a cleaner knows nothing of
  maps: where a topic is compacted, it takes what was mirrored of a key for a later record that was not. So a log with
  such records becomes no copy.

The producers of the progress are those that wrote to the new source since, so there are none yet: what they had before
is in the last sequences of the topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ha_core.mirror.notes import Notes
from ha_core.mirror.partition_diff import LogPart, visible
from ha_core.mirror.progress import CopyDamagedError, Progress, ProgressBuilder, RunPage, TopicIds, Writer
from ha_core.mirror.recovery import data_end, recover
from ha_core.model import Run
from ha_core.wire.copied_batch import CONTROL
from ha_core.wire.records import Batch


def copied_below(notes: Notes, tail: Iterable[Batch], base: int) -> tuple[Progress, tuple[Run, ...]]:
    """How far the copy was that became the writer, and where everything lies.

    :param notes: of its mirror, with the whole map.
    :param tail: the batches of the copy from the newest progress on; those from `base` on are of others.
    :param base: its first own offset: the end of the log when it became the writer.
    :raises CopyDamagedError: the notes do not say what lies below `base`.
    """
    progress = notes.progress
    if progress is None:
        raise CopyDamagedError(f"nobody has noted anything of {notes.copy}")
    before = progress.runs
    older = notes.runs[: len(notes.runs) - len(before)]
    batches = [batch for batch in tail if batch.base_offset < base]
    if progress.target < base:
        progress = recover(progress, notes.intents.values(), data_end(batches, progress, base))
    return progress, (*older, *progress.runs)


def turned_round(
    old: Progress,
    runs: Sequence[Run],
    base: int,
    writer: Writer,
    end: int,
    last: Iterable[Batch] = (),
    cleaned: LogPart | None = None,
) -> tuple[tuple[RunPage, ...], Progress]:
    """What the first copier of the mirror the other way writes down before it copies anything, in this order.

    :param old: how far the mirror was; and all of its `runs`, oldest first.
    :param base: the first offset of the new source that came by no mirror.
    :param writer: the new copier, who has fenced the new copy; behind its marker that ends at `end`.
    :param last: the batch of the old source in which its last mirrored record lies, if it is there; read when it is
        known that the log reaches so far.
    :param cleaned: the old source behind that record, where the topic is compacted.
    :raises CopyDamagedError: the old source has lost records that were mirrored, or its cleaner may take them.
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
    """The offset in the old source of the last record that was copied from there; -1: there is none."""
    return runs[-1].after - 1 if runs else -1


def _require_kept(runs: Sequence[Run], end: int, last: Iterable[Batch]) -> None:
    """Where a record was, no marker lies: what an unclean leader has lost is filled up by the markers of those who
    fence, and by those of transactions that are aborted."""
    at = last_mirrored(runs)
    if at < 0:
        return
    lost = "its brokers have lost records, as an unclean leader does"
    if at >= end - 1:  # the writer's marker is the last
        raise CopyDamagedError(f"the record at offset {at} was mirrored, and the log ended at {end - 1} then: {lost}")
    if any(batch.attributes & CONTROL and batch.base_offset <= at <= batch.last_offset for batch in last):
        raise CopyDamagedError(f"the record at offset {at} was mirrored, and a marker lies there: {lost}")


def _require_no_tail(log: LogPart, mirrored: int) -> None:
    """Aborted records are none: cleaners pass them over."""
    own = next((record.offset for record in visible(log) if record.offset > mirrored), None)
    if own is not None:
        raise CopyDamagedError(
            f"the record at offset {own} was not mirrored, and the topic is compacted: for its sake brokers take "
            "away what was mirrored of its key. Fetch what is needed of the tail, delete the topic there, and link it "
            "anew"
        )
