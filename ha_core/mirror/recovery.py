"""Recovers how far a copy is, from its contents above the newest progress and from the intents. No I/O.

`ha_core.mirror.progress` explains why that suffices.
"""

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from ha_core.mirror.progress import CopyDamagedError, Intent, Progress, ProgressBuilder
from ha_core.wire.copied_batch import CONTROL
from ha_core.wire.records import Batch
from ha_core.wire.sequences import MODULUS


class AboveProgress(NamedTuple):
    """Contents of a copy above a progress.

    :ivar last: end of the last record found of the progress's writer.
    :ivar passed: offsets below it with markers of other producers.
    :ivar markers: markers above it.
    :ivar foreign: the first batch that cannot be the writer's; reading stopped there.
    """

    last: int
    passed: tuple[int, ...]
    markers: tuple[Batch, ...]
    foreign: Batch | None = None


def above_progress(tail: Iterable[Batch], progress: Progress) -> AboveProgress:
    """
    :param tail: the batches of the copy from the progress or earlier, as far as retention and compaction have left
        them.
    :raises CopyDamagedError: offsets of the writer's batches contradict their sequences.
    """
    writer, last, passed, markers = progress.writer, progress.target, list[int](), list[Batch]()
    for batch in tail:
        if batch.last_offset < progress.target:
            continue
        if batch.attributes & CONTROL:
            markers.append(batch)
            continue
        fenced = any(marker.producer_id == writer.producer_id for marker in markers)
        if fenced or (batch.producer_id, batch.producer_epoch) != writer:
            return AboveProgress(last, tuple(passed), tuple(markers), batch)
        seen = [at for marker in markers for at in range(marker.base_offset, marker.last_offset + 1)]
        records = (batch.base_sequence - progress.sequence) % MODULUS
        # Records and markers before it may be gone, and its sequence gives the number of each. Their order does not
        # matter, because none of them can be read: the markers are taken for the last ones.
        first = seen[0] if seen else batch.base_offset
        gone = batch.base_offset - progress.target - records - len(passed) - len(seen)
        if not 0 <= gone <= first - last:
            raise CopyDamagedError(
                f"the batch at offset {batch.base_offset} has {records} records of its copier before it, from offset "
                f"{progress.target} on, and {len(passed) + len(seen)} markers: the rest of these offsets is unknown"
            )
        passed += (*range(first - gone, first), *seen)
        markers.clear()
        last = batch.last_offset + 1
    return AboveProgress(last, tuple(passed), tuple(markers))


class DataEnd(NamedTuple):
    """End of the data that copiers have appended, and the `passed` offsets below it with markers of other producers."""

    offset: int
    passed: tuple[int, ...] = ()


def data_end(tail: Iterable[Batch], progress: Progress, end: int) -> DataEnd:
    """End of the remaining data that copiers have appended.

    :param tail: the batches of the copy from the last record of the progress on, as far as retention and compaction
        have left them.
    :param end: end of the copy; below the progress if it has lost records, see `recover`.
    :raises CopyDamagedError: another producer has written to it, or it has lost records.
    """
    found_batches = list(tail)
    _require_last_record(found_batches, progress)
    found, writer = above_progress(found_batches, progress), progress.writer
    if (foreign := found.foreign) is not None:
        where = f"the batch at offset {foreign.base_offset}"
        if any(marker.producer_id == writer.producer_id for marker in found.markers):
            raise CopyDamagedError(
                f"{where} (producer {foreign.producer_id}, epoch {foreign.producer_epoch}) is above the marker of a "
                "copier that wrote down no progress: another producer writes to the copy"
            )
        raise CopyDamagedError(
            f"{where} was written by producer {foreign.producer_id}, epoch {foreign.producer_epoch}, and not by the "
            f"copier ({writer.producer_id}, epoch {writer.epoch}): another producer writes to the copy"
        )
    return DataEnd(min(found.last, end), found.passed)


def _require_last_record(tail: Iterable[Batch], progress: Progress) -> None:
    """:raises CopyDamagedError: the last record of the progress is lost."""
    last = progress.last_record
    for batch in tail:
        if batch.attributes & CONTROL and batch.base_offset <= last <= batch.last_offset:
            raise CopyDamagedError(
                f"a record was acknowledged at offset {last}, and the marker of a later copier lies there: its brokers "
                "have lost records, as an unclean leader does"
            )


def good_part(progress: Progress, intents: Iterable[Intent], tail: Iterable[Batch], end: int) -> Progress | None:
    """How far a damaged copy is known to match its source: up to the first batch that no copier wrote.

    :return: None: its brokers have lost records, so the origin of the rest is unknown.
    """
    batches = list(tail)
    try:
        _require_last_record(batches, progress)
        if end < progress.target:
            return None
    except CopyDamagedError:
        return None
    try:
        good = above_progress(batches, progress)
        return recover(progress, intents, DataEnd(good.last, good.passed))
    except CopyDamagedError:
        return progress


def recover(progress: Progress, intents: Iterable[Intent], found: DataEnd) -> Progress:
    """How far the copy is.

    :param progress: the newest one in the copy log.
    :param intents: all intents of the copy log, in any order.
    :param found: end of its data.
    :raises CopyDamagedError: the data do not end with a batch, or the copy has lost records.
    """
    end, passed = found.offset, deque(found.passed)
    if end < progress.target:
        raise CopyDamagedError(
            f"the copy ends at {end}, and records up to {progress.target} were acknowledged there: its brokers have "
            "lost them, as an unclean leader does"
        )
    mine = {one.number: one for one in intents if one.writer == progress.writer and one.number > progress.number}
    account = ProgressBuilder(progress)
    while account.target < end:
        intent = mine.get(account.number + 1)
        if intent is None:
            raise CopyDamagedError(
                f"the copy holds records up to {end}, and what was to be appended is known up to {account.target}"
            )
        account.number = intent.number
        # A progress may have been written in the middle of the intent after its number.
        for batch in (copied for copied in intent.batches if copied.source >= account.source):
            while passed and passed[0] == account.target:
                account.pass_over(passed.popleft())
            if account.target == end:
                break
            limit, what = (passed[0], "a marker lies") if passed else (end, "the copy ends")
            if batch.records > limit - account.target:
                raise CopyDamagedError(f"{what} at {limit}, inside the batch that was appended at {account.target}")
            account.add(batch, intent.leader_epoch)
    return account.progress()
