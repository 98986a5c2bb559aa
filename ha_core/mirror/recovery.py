"""How far a copy is, by what lies in it behind its newest progress and by what was to be appended. No I/O.

Why these say it says `ha_core.mirror.progress`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import NamedTuple

from ha_core.mirror.progress import CopyDamagedError, Intent, Progress, ProgressBuilder
from ha_core.wire.copied_batch import CONTROL
from ha_core.wire.records import Batch
from ha_core.wire.sequences import MODULUS


class AboveProgress(NamedTuple):
    """What lies in a copy behind a progress.

    :ivar last: where the last record of the progress's writer that was found ends.
    :ivar passed: the offsets below it of markers that are no copier's.
    :ivar markers: those behind it.
    :ivar foreign: the first batch that cannot be the writer's; nothing behind it was looked at.
    """

    last: int
    passed: tuple[int, ...]
    markers: tuple[Batch, ...]
    foreign: Batch | None = None


def behind(tail: Iterable[Batch], progress: Progress) -> AboveProgress:
    """
    :param tail: the batches of the copy from the progress on or before, as far as retention and compaction have left
        them.
    :raises CopyDamagedError: batches of the writer do not lie where their sequences say.
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
        # What is gone before it were records and markers, and its sequence says how many of each. Which lay where does
        # not matter, as nobody can read any of them: the markers are taken for the last ones.
        first = seen[0] if seen else batch.base_offset
        gone = batch.base_offset - progress.target - records - len(passed) - len(seen)
        if not 0 <= gone <= first - last:
            raise CopyDamagedError(
                f"the batch at offset {batch.base_offset} has {records} records of its copier before it, from offset "
                f"{progress.target} on, and {len(passed) + len(seen)} markers: nobody can say what else lay there"
            )
        passed += (*range(first - gone, first), *seen)
        markers.clear()
        last = batch.last_offset + 1
    return AboveProgress(last, tuple(passed), tuple(markers))


class DataEnd(NamedTuple):
    """Where what copiers have appended ends, and the `passed` offsets below it of markers that are no copier's."""

    offset: int
    passed: tuple[int, ...] = ()


def data_end(tail: Iterable[Batch], progress: Progress, end: int) -> DataEnd:
    """Where what copiers have appended ends, as far as it is still there.

    :param tail: the batches of the copy from the last record of the progress on, as far as retention and compaction
        have left them.
    :param end: of the copy; below the progress where it has lost records, as `recover` says.
    :raises CopyDamagedError: somebody else has written to it, or it has lost records.
    """
    found_batches = list(tail)
    _require_last_record(found_batches, progress)
    found, writer = behind(found_batches, progress), progress.writer
    if (foreign := found.foreign) is not None:
        where = f"the batch at offset {foreign.base_offset}"
        if any(marker.producer_id == writer.producer_id for marker in found.markers):
            raise CopyDamagedError(
                f"{where} (producer {foreign.producer_id}, epoch {foreign.producer_epoch}) lies behind the marker of a "
                "copier that wrote down no progress: somebody else writes to the copy"
            )
        raise CopyDamagedError(
            f"{where} was written by producer {foreign.producer_id}, epoch {foreign.producer_epoch}, and not by the "
            f"copier ({writer.producer_id}, epoch {writer.epoch}): somebody else writes to the copy"
        )
    return DataEnd(min(found.last, end), found.passed)


def _require_last_record(tail: Iterable[Batch], progress: Progress) -> None:
    """:raises CopyDamagedError: it is lost."""
    last = progress.last_record
    for batch in tail:
        if batch.attributes & CONTROL and batch.base_offset <= last <= batch.last_offset:
            raise CopyDamagedError(
                f"a record was acknowledged at offset {last}, and the marker of a later copier lies there: its brokers "
                "have lost records, as an unclean leader does"
            )


def good_part(progress: Progress, intents: Iterable[Intent], tail: Iterable[Batch], end: int) -> Progress | None:
    """How far a damaged copy is known to have what its source had: up to the first batch that no copier wrote.

    :return: None: its brokers have lost records, so nobody can say where what is left comes from.
    """
    found = list(tail)
    try:
        _require_last_record(found, progress)
        if end < progress.target:
            return None
    except CopyDamagedError:
        return None
    try:
        good = behind(found, progress)
        return recover(progress, intents, DataEnd(good.last, good.passed))
    except CopyDamagedError:
        return progress


def recover(progress: Progress, intents: Iterable[Intent], found: DataEnd) -> Progress:
    """How far the copy is.

    :param progress: the newest of the copy log.
    :param intents: all that the copy log has, in any order.
    :param found: where its data ends.
    :raises CopyDamagedError: the end is not that of any batch, or the copy has lost records.
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
        # A progress may have been written in the middle of the intent that comes after its number.
        for batch in (one for one in intent.batches if one.source >= account.source):
            while passed and passed[0] == account.target:
                account.pass_over(passed.popleft())
            if account.target == end:
                break
            limit, what = (passed[0], "a marker lies") if passed else (end, "the copy ends")
            if batch.records > limit - account.target:
                raise CopyDamagedError(f"{what} at {limit}, inside the batch that was appended at {account.target}")
            account.add(batch, intent.leader_epoch)
    return account.progress()
