"""Copies this worker's partitions of a flow: a copy loop in a thread, and the partitions that it is given."""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from ha_core.flows.remote_plan import WantedCopy
from ha_core.flows.sharing import share_of
from ha_core.kafka.admin import Admin
from ha_core.kafka.copying import ELSEWHERE, TAKEN_OVER, CopyCoverage, Copying, CopyStatus, CopyTotals, StoppedCopy
from ha_core.kafka.takeover import CopyPartition
from ha_core.mirror.measures import CopyMeasures
from ha_core.mirror.notes import CopyId, log_partition
from ha_core.mirror_client.copy_notes import COPIES_LOG
from ha_core.model.isolation import Isolation
from ha_core.plan.facts.clusters import Partition

log = logging.getLogger(__name__)
COPIES_LOG_PARTITIONS = 16
_RETAKE_S = 15.0
"""Seconds after which this worker takes back a partition that another worker took over, if it still owns the share. By
then the other worker has seen the change of owner. If both fenced at once, they would go on fencing each other."""
_STOP_S = 30.0


@dataclass
class Copier:
    """
    :ivar isolation: the records to copy.
    :ivar retakes: whether to take partitions back that another worker took over, if they are this worker's again.
    :ivar shares_now: the shares of the flow that belong to this worker, read afresh.
    """

    name: str
    source: Admin
    target: Admin
    shares_now: Callable[[], frozenset[int]]
    retakes: bool
    isolation: Isolation = Isolation.COMMITTED
    clock: Callable[[], float] = time.monotonic
    copies: Mapping[CopyId, CopyPartition] = field(default_factory=dict)
    by_source: Mapping[Partition, CopyPartition] = field(default_factory=dict)
    work: CopyTotals = field(default_factory=CopyTotals)
    fault: str = ""
    """The error that ended the copy loop; "": it runs."""

    def __post_init__(self) -> None:
        self._lost_at: dict[CopyId, float] = {}
        self._topics: tuple[object, object, dict[str, str]] = None, None, {}
        self._followed: tuple[tuple[WantedCopy, ...], frozenset[int]] | None = None
        self._copying = Copying(
            self.source,
            self.target,
            still_ours=self._still_ours,
            work=self.work,
            isolation=self.isolation,
            passes_overtaken=True,
        )
        self._thread = threading.Thread(target=self._run, name=f"{self.name} copies", daemon=True)
        self._thread.start()

    def follow(
        self, wanted: Iterable[WantedCopy], shares: frozenset[int], starts: Mapping[Partition, int] | None = None
    ) -> None:
        """Copy exactly those partitions of these topics that are in these shares.

        :param starts: as in `Copying`.
        """
        chosen = tuple(wanted), shares
        if chosen != self._followed:
            self._followed = chosen
            self._change(*chosen, starts)
        self._retake()

    def _change(
        self, wanted: Iterable[WantedCopy], shares: frozenset[int], starts: Mapping[Partition, int] | None
    ) -> None:
        copies = {
            copy.id: copy
            for topic in wanted
            for number in range(topic.partitions)
            if share_of(topic.topic, number) in shares
            for copy in [copy_partition(topic, number)]
        }
        before, self.copies = self.copies, copies
        self.by_source = {copy.source_key: copy for copy in copies.values()}
        self._copying.drop([id_ for id_ in before if id_ not in copies])
        new = [copy for id_, copy in copies.items() if id_ not in before]
        if new:
            self._copying.add(new, starts)

    def again(self, copies: Iterable[CopyPartition]) -> None:
        """Try stopped copies again."""
        self._copying.add(copies)

    def statuses(self) -> dict[CopyId, CopyStatus]:
        return self._copying.statuses()

    def standing(self) -> dict[CopyId, CopyStatus]:
        """Statuses of partitions that are not being copied."""
        return self._copying.standing()

    def damaged(self) -> dict[CopyId, StoppedCopy]:
        """Copies that were stopped because of their records, see `StoppedCopy`."""
        return {id_: state for id_, state in self._copying.stopped().items() if state.foreign or state.damaged}

    def measures(self) -> dict[CopyId, CopyMeasures]:
        return self._copying.measures()

    def coverage(self) -> Mapping[CopyId, CopyCoverage]:
        """How far each copy is that is being copied, with its newest runs; empty: nothing is copied yet."""
        return self._copying.known

    def topics(self) -> dict[str, str]:
        """Remote topic → topic of the source, of the copies that are being made now."""
        known, copies = self._copying.known, self.copies
        if known is not self._topics[0] or copies is not self._topics[1]:
            found = {id_.topic: copies[id_].source_key[0] for id_ in known if id_ in copies}
            self._topics = known, copies, found
        return self._topics[2]

    def taken_by_strangers(self) -> list[CopyId]:
        """Copies that another process took over, although this worker knows no other worker."""
        if self.retakes:
            return []
        return [id_ for id_, state in self._copying.stopped().items() if state.reason == TAKEN_OVER]

    def reached(self) -> dict[Partition, int]:
        """Partition of the source → source offset below which its copy is complete. It is exact after `stop`."""
        return {
            copy.source_key: reached.source
            for id_, copy in self.copies.items()
            if (reached := self._copying.reached(id_)) is not None
        }

    def stop(self) -> None:
        self._copying.stop()
        self._thread.join(_STOP_S)

    def _run(self) -> None:
        try:
            self._copying.run()
        except Exception as error:
            log.exception("%s: the copy loop has ended", self.name)
            self.fault = f"{type(error).__name__}: {error}"

    def _still_ours(self, copies: Collection[CopyId]) -> set[CopyId]:
        shares, known = self.shares_now(), self.copies
        return {id_ for id_ in copies if id_ in known and share_of(*known[id_].source_key) in shares}

    def _retake(self) -> None:
        if not self.retakes:
            return
        now = self.clock()
        lost = [id_ for id_, state in self._copying.stopped().items() if state.reason in {TAKEN_OVER, ELSEWHERE}]
        self._lost_at = {id_: self._lost_at.get(id_, now) for id_ in lost}
        due = [id_ for id_, since in self._lost_at.items() if now - since >= _RETAKE_S and id_ in self.copies]
        for id_ in due:
            del self._lost_at[id_]
        self._copying.add([self.copies[id_] for id_ in due])


def copy_partition(topic: WantedCopy, partition: int) -> CopyPartition:
    return noted_in_log(CopyId(topic.link, topic.remote_topic, partition), topic.topic)


def noted_in_log(id_: CopyId, source_topic: str) -> CopyPartition:
    """The copy, with its partition of the flows' copy log."""
    return CopyPartition(id_, (COPIES_LOG, log_partition(id_, COPIES_LOG_PARTITIONS)), source_topic)
