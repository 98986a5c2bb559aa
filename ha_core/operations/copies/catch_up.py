"""The copies of a switch's mirrored topics, which the operation takes over and catches up by itself.

One loop copies from `level` to `mirrored` (`ha_core.kafka.copying`), in a thread of its own, while the steps between
run. It is the job's loop, and a crash leaves what a copier's crash leaves. An earlier copier that stalled and resumes
may fence this one once; it finds the mirror held and appends nothing, and the copy is taken over again.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from ha_core.kafka.admin import Admin
from ha_core.kafka.copy_log import ensure_copy_log
from ha_core.kafka.copying import TAKEN_OVER, Copying, CopyStatus, Reached
from ha_core.kafka.verifying import copies_of
from ha_core.mirror.notes import CopyId, Notes
from ha_core.mirror.progress import CopyDamagedError
from ha_core.model import Mirror
from ha_core.operations.engine.environment import Environment
from ha_core.operations.engine.errors import StepFailedError
from ha_core.plan.facts.clusters import CopyFacts, Partition
from ha_core.plan.facts.grouping import grouped
from ha_core.plan.facts.verdict import amount, listed
from ha_core.store.errors import FencedOffError

CLOSE_RECORDS, CLOSE_MS = 1_000, 500
"""Records that may be missing in each partition when the fence begins: some milliseconds of copying."""
STILL_S = 30.0
"""A switch is given up if a copy gets no nearer to its source for this time."""
_LOOK_S, _LAST_LOOK_S, _SAY_S = 0.1, 0.002, 5.0


@dataclass
class _Nearest:
    """The highest copied source offset of a partition, and since when."""

    source: int
    since: float


class OwnCopies:
    """Copies of the mirrored topics, from the origin to the target. To be closed in any case."""

    def __init__(
        self,
        environment: Environment,
        origin: Admin,
        target: Admin,
        mirrors: Mapping[str, Mirror],
        partitions: Mapping[str, int],
        still_ours: Callable[[], None],
    ) -> None:
        """
        :param mirrors: by topic; `partitions`: how many each has.
        :param still_ours: raises FencedOffError when another executor continues the operation.
        """
        for name, count in sorted({(mirror.log, mirror.log_partitions) for mirror in mirrors.values()}):
            ensure_copy_log(target, name, count)
        self._environment, self._target = environment, target
        self._copies = {copy.id: copy for name in mirrors for copy in copies_of(mirrors[name], partitions[name])}
        self._older: dict[CopyId, Notes] = {}

        def ours(copies: Collection[CopyId]) -> Collection[CopyId]:
            try:
                still_ours()
            except FencedOffError:
                return ()
            return copies

        self._loop = Copying(origin, target, self._copies.values(), still_ours=ours)
        self._thread = threading.Thread(target=self._loop.run, name="switch-copies", daemon=True)
        self._thread.start()

    @property
    def partitions(self) -> tuple[Partition, ...]:
        return tuple(copy.key for copy in self._copies.values())

    def level(self) -> int:
        """Copy until little is missing; returns the number of missing records.

        :raises StepFailedError: a copy has stopped, or gets no nearer to its source.
        """
        environment, begun = self._environment, self._environment.monotonic()
        nearest: dict[CopyId, _Nearest] = {}
        said_at = begun
        while far := self._far(standing := self._standing()):
            now = environment.monotonic()
            for id_, status in standing.items():
                at = -1 if status.source is None else status.source
                known = nearest.setdefault(id_, _Nearest(at, now))
                if at > known.source:
                    nearest[id_] = _Nearest(at, now)
            stuck = [id_ for id_ in far if now - nearest[id_].since >= STILL_S]
            if stuck:
                raise StepFailedError(
                    f"Copies get no nearer to their source: {_words(standing, stuck)}. Look at `switchyard mirrors`, "
                    "and switch when they have caught up."
                )
            if now - said_at >= _SAY_S:
                missing = _missing(standing)
                records = amount(missing, "record", "is", "are")
                environment.say(f"copies that have to catch up: {len(far)} of {len(standing)}; {records} known")
                said_at = now
            environment.sleep(_LOOK_S)
        self._read_notes(self._copies)
        return _missing(standing)

    def finish(self, ends: Mapping[Partition, int], timeout_s: float) -> dict[Partition, CopyFacts]:
        """Copy until the copies have everything below `ends`, then stop; returns their contents, with the runs for
        maps.

        :param ends: final log ends of the origin.
        :raises StepFailedError: a copier has stopped, or it takes longer than `timeout_s`.
        """
        deadline = self._environment.monotonic() + timeout_s
        while True:
            standing = self._standing()
            left = [id_ for id_, status in standing.items() if not status.has(ends[id_.topic, id_.partition])]
            if not left:
                break
            if self._environment.monotonic() >= deadline:
                raise StepFailedError(
                    f"Copies did not get to the end of their source within {timeout_s:g} s: {_words(standing, left)}. "
                    "Let the target's brokers come to rest, or give the move a longer --drain-timeout."
                )
            self._environment.sleep(_LAST_LOOK_S)
        self.close()
        found = {id_: reached for id_ in self._copies if (reached := self._loop.reached(id_)) is not None}
        late = [id_ for id_ in self._copies if not has_all(found.get(id_), ends[id_.topic, id_.partition])]
        if late:  # taken over at the last moment
            named = listed(f"{id_.topic}-{id_.partition}" for id_ in late)
            raise StepFailedError(f"Copies were taken over by another copier at the end: {named}.")
        if lacking := [id_ for id_, one in found.items() if lacks_pages(self._older[id_], one)]:
            self._read_notes(lacking)
        return {self._copies[id_].key: facts_of(self._older[id_], one) for id_, one in found.items()}

    def stop(self) -> None:
        """Begin no more copying."""
        self._loop.stop()

    def close(self) -> None:
        """Stop copying. After it returns no record is appended."""
        self._loop.stop()
        self._thread.join()

    def _standing(self) -> Mapping[CopyId, CopyStatus]:
        """Copies that a stalled copier has taken over are taken over again. :raises StepFailedError: a copier
        stopped."""
        standing = self._loop.statuses()
        lost = [self._copies[id_] for id_, status in standing.items() if status.reason == TAKEN_OVER]
        if lost:
            self._loop.add(lost)
        stopped = [id_ for id_, status in standing.items() if status.state == "stopped" and status.reason != TAKEN_OVER]
        if stopped:
            raise StepFailedError(f"Copies have stopped: {_words(standing, stopped)}.")
        if not self._thread.is_alive():
            raise StepFailedError("The copies have stopped: see the log of this process.")
        return standing

    def _far(self, standing: Mapping[CopyId, CopyStatus]) -> list[CopyId]:
        return [id_ for id_, status in standing.items() if not _is_close(status)]

    def _read_notes(self, ids: Iterable[CopyId]) -> None:
        """Read the older part of the maps, which copiers do not keep."""
        for log, some in grouped((self._copies[id_].log, id_) for id_ in ids).items():
            self._older |= self._target.read_notes(log, dict.fromkeys(some, 0), whole_map=True)


def has_all(reached: Reached | None, end: int) -> bool:
    """Whether a copy has everything of a source that ends there, perhaps with the marker of a transaction."""
    return reached is not None and reached.source >= end


def lacks_pages(notes: Notes, reached: Reached) -> bool:
    """Whether part of the map is neither in these notes nor still kept by the copier."""
    return not notes.pages.keys() | reached.pages.keys() >= set(range(reached.progress.pages))


def facts_of(notes: Notes, reached: Reached) -> CopyFacts:
    """The whole contents of a copy: records that are left out here are in no extent after the cut.

    :param notes: with the whole map.
    :raises StepFailedError: a page of it is missing.
    """
    progress = reached.progress
    try:
        runs = replace(notes, progress=progress, pages={**notes.pages, **reached.pages}).runs
    except CopyDamagedError as error:
        raise StepFailedError(f"The contents of a copy are not known: {error}.") from error
    return CopyFacts(reached.source, runs, progress.producers, whole=True)


def _is_close(status: CopyStatus) -> bool:
    """Records that an open transaction holds back are copied after the fence, which waits for its end."""
    if status.state != "copying" or status.to_copy is None:
        return False
    return status.to_copy <= CLOSE_RECORDS or (status.lag_ms is not None and status.lag_ms <= CLOSE_MS)


def _missing(standing: Mapping[CopyId, CopyStatus]) -> int:
    """Records that can be copied now, summed over copies for which that is known."""
    return sum(status.to_copy or 0 for status in standing.values())


def _words(standing: Mapping[CopyId, CopyStatus], ids: list[CopyId]) -> str:
    def words(id_: CopyId) -> str:
        status = standing[id_]
        left = status.lag_records
        lag = "its lag is not known" if left is None else f"{amount(left, 'record')} to copy"
        return f"{id_.topic}-{id_.partition} ({status.reason or lag})"

    return listed(map(words, ids))
