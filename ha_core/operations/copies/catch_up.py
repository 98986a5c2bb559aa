"""The copies of a switch's mirrored topics, taken over by the operation and brought up to date by itself.

One loop copies from `level` to `mirrored` (`ha_core.kafka.copying`), in a thread of its own, while the steps between go
on. It is the job's loop: whoever is killed here leaves what a copier leaves. A copier of before that stood still and
goes on now may fence this one once; it finds the mirror held and appends nothing, and the copy is taken over again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
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
from ha_core.plan.facts.verdict import listed
from ha_core.store.errors import FencedOffError

CLOSE_RECORDS, CLOSE_MS = 1_000, 500
"""What may be missing, in each partition, when the fence begins: some milliseconds of copying."""
STILL_S = 30.0
"""So long a copy may get no nearer to its source before the switch is given up."""
_LOOK_S, _LAST_LOOK_S, _SAY_S = 0.1, 0.002, 5.0


@dataclass
class _Nearest:
    """The most that was copied of a partition, and since when."""

    source: int
    since: float


class OwnCopies:
    """Copies of the mirrored topics, from the origin to the target. Close it, whatever happens."""

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
        :param still_ours: raises FencedOffError when another executor goes on with the operation.
        """
        for name, count in sorted({(one.log, one.log_partitions) for one in mirrors.values()}):
            ensure_copy_log(target, name, count)
        self._environment, self._target = environment, target
        self._copies = {copy.id: copy for name in mirrors for copy in copies_of(mirrors[name], partitions[name])}
        self._older: dict[CopyId, Notes] = {}

        def ours(_: CopyId) -> bool:
            try:
                still_ours()
            except FencedOffError:
                return False
            return True

        self._loop = Copying(origin, target, self._copies.values(), still_ours=ours)
        self._thread = threading.Thread(target=self._loop.run, name="switch-copies", daemon=True)
        self._thread.start()

    @property
    def partitions(self) -> tuple[Partition, ...]:
        return tuple(copy.key for copy in self._copies.values())

    def level(self) -> int:
        """Until little is missing; how many records that is.

        :raises StepFailedError: a copy has stopped, or gets no nearer to its source.
        """
        environment, begun = self._environment, self._environment.monotonic()
        nearest: dict[CopyId, _Nearest] = {}
        said = begun
        while far := self._far(standing := self._standing()):
            now = environment.monotonic()
            for id_, one in standing.items():
                at = -1 if one.source is None else one.source
                known = nearest.setdefault(id_, _Nearest(at, now))
                if at > known.source:
                    nearest[id_] = _Nearest(at, now)
            stuck = [id_ for id_ in far if now - nearest[id_].since >= STILL_S]
            if stuck:
                raise StepFailedError(
                    f"Copies get no nearer to their source: {_words(standing, stuck)}. Look at `switchyard mirrors`, "
                    "and switch when they have caught up."
                )
            if now - said >= _SAY_S:
                missing = _missing(standing)
                environment.say(f"{len(far)} of {len(standing)} copies have to catch up, {missing} records are known")
                said = now
            environment.sleep(_LOOK_S)
        self._read_notes(self._copies)
        return _missing(standing)

    def finish(self, ends: Mapping[Partition, int], timeout_s: float) -> dict[Partition, CopyFacts]:
        """Copy on until the copies have all below `ends`, then stop; what they have, with the runs that maps need.

        :param ends: log ends of the origin, which grow no more.
        :raises StepFailedError: a copy has stopped, or it takes longer than that.
        """
        deadline = self._environment.monotonic() + timeout_s
        while True:
            standing = self._standing()
            left = [id_ for id_, one in standing.items() if not one.has(ends[id_.topic, id_.partition])]
            if not left:
                break
            if self._environment.monotonic() >= deadline:
                raise StepFailedError(
                    f"Copies did not get to the end of their source within {timeout_s:g} s: {_words(standing, left)}. "
                    "Let the target's brokers come to rest, or give the move a longer --drain-timeout."
                )
            self._environment.sleep(_LAST_LOOK_S)
        self.close()
        found = {id_: one for id_ in self._copies if (one := self._loop.reached(id_)) is not None}
        late = [id_ for id_ in self._copies if not has_all(found.get(id_), ends[id_.topic, id_.partition])]
        if late:  # taken over in the last instant
            named = listed(f"{id_.topic}-{id_.partition}" for id_ in late)
            raise StepFailedError(f"Copies were taken over at the end: {named}.")
        if lacking := [id_ for id_, one in found.items() if lacks_pages(self._older[id_], one)]:
            self._read_notes(lacking)
        return {self._copies[id_].key: facts_of(self._older[id_], one) for id_, one in found.items()}

    def stop(self) -> None:
        """Nothing more is begun."""
        self._loop.stop()

    def close(self) -> None:
        """Nothing is appended any more when it returns."""
        self._loop.stop()
        self._thread.join()

    def _standing(self) -> Mapping[CopyId, CopyStatus]:
        """What was taken over by somebody who stood still is taken over again. :raises StepFailedError: one stopped."""
        standing = self._loop.statuses()
        lost = [self._copies[id_] for id_, one in standing.items() if one.reason == TAKEN_OVER]
        if lost:
            self._loop.add(lost)
        stopped = [id_ for id_, one in standing.items() if one.state == "stopped" and one.reason != TAKEN_OVER]
        if stopped:
            raise StepFailedError(f"Copies have stopped: {_words(standing, stopped)}.")
        if not self._thread.is_alive():
            raise StepFailedError("The copies have stopped: see the log of this process.")
        return standing

    def _far(self, standing: Mapping[CopyId, CopyStatus]) -> list[CopyId]:
        return [id_ for id_, one in standing.items() if not _is_close(one)]

    def _read_notes(self, ids: Iterable[CopyId]) -> None:
        """The older part of the maps, which copiers hold no more."""
        by_log: dict[Partition, dict[CopyId, int]] = {}
        for id_ in ids:
            by_log.setdefault(self._copies[id_].log, {})[id_] = 0
        for log, since in by_log.items():
            self._older |= self._target.read_notes(log, since, whole_map=True)


def has_all(reached: Reached | None, end: int) -> bool:
    """Whether a copy has all of a source that ends there, maybe with the marker of a transaction."""
    return reached is not None and reached.source >= end


def lacks_pages(notes: Notes, reached: Reached) -> bool:
    """Whether part of the map is neither in these notes nor still in the hands of the copier."""
    return not notes.pages.keys() | reached.pages.keys() >= set(range(reached.progress.pages))


def facts_of(notes: Notes, reached: Reached) -> CopyFacts:
    """What a copy has, all of it: what is left out here is in no extent behind the cut.

    :param notes: with the whole map.
    :raises StepFailedError: a page of it is missing.
    """
    progress = reached.progress
    try:
        runs = replace(notes, progress=progress, pages={**notes.pages, **reached.pages}).runs
    except CopyDamagedError as error:
        raise StepFailedError(f"Nobody can say all that a copy has: {error}.") from error
    return CopyFacts(reached.source, runs, progress.producers, whole=True)


def _is_close(one: CopyStatus) -> bool:
    """What an open transaction keeps back is copied behind the fence, which waits for its end."""
    if one.state != "copying" or one.to_copy is None:
        return False
    return one.to_copy <= CLOSE_RECORDS or (one.lag_ms is not None and one.lag_ms <= CLOSE_MS)


def _missing(standing: Mapping[CopyId, CopyStatus]) -> int:
    """Records that can be copied now, of the copies of which that is known."""
    return sum(one.to_copy or 0 for one in standing.values())


def _behind(one: CopyStatus) -> str:
    return "nobody knows how far it is" if one.lag_records is None else f"{one.lag_records} records behind"


def _words(standing: Mapping[CopyId, CopyStatus], ids: list[CopyId]) -> str:
    def words(id_: CopyId) -> str:
        one = standing[id_]
        return f"{id_.topic}-{id_.partition} ({one.reason or _behind(one)})"

    return listed(map(words, ids))
