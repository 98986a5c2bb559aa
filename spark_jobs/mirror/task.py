"""The long-lived task of one slot: it claims the slot, follows the driver's document for it, and reports its state.

It ends when another session has the slot, or another lead its document; once a successor has taken over, the target's
brokers refuse batches that are still in flight. While ZooKeeper is away it continues with its last document.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple

from ha_core.kafka.admin import Admin
from ha_core.kafka.copying import BUFFER_BYTES
from ha_core.kafka.errors import KafkaAdminError
from ha_core.mirror.notes import CopyId
from ha_core.model import (
    CopiedMirror,
    CopiedPartition,
    Mirror,
    MirrorCopies,
    MirrorReport,
    MirrorShare,
    MirrorTask,
    PartitionReport,
    UnreadableDocumentError,
)
from ha_core.model.shown import ShownFormatter
from ha_core.store.documents import to_bytes
from ha_core.store.errors import AlreadyRegisteredError, StoreError
from ha_core.store.gateways import Registration
from ha_core.store.store import Store
from ha_core.store.zookeeper import connect
from ha_core.wire.sasl import SecurityProfile
from spark_jobs.broker_queries import Reach
from spark_jobs.mirror.pair import CopyPair
from spark_jobs.mirror.planning import split

log = logging.getLogger(__name__)
LOOK_S = 1.0
NOT_OURS = "another driver leads"
REPEAT_S = 10.0
"""An unchanged report is written again after this time."""
REPORTED_BYTES_S = 50_000
"""Share of ZooKeeper's write rate that a task may use: about 1,800 partitions a second."""
MAX_PARTITIONS = 5_000
"""Most partitions in a report."""


class Slot(NamedTuple):
    """The single row of a Spark job."""

    slot: int


class TaskEnded(NamedTuple):
    slot: int
    why: str


class TaskSettings(NamedTuple):
    """Settings for a task. They are sent with the task, accounts included, and are in no plan or log."""

    zookeeper: str
    root: str
    profiles: Mapping[str, SecurityProfile]
    timeout_s: float
    session_timeout_s: float
    job: str
    """The lead that it belongs to."""


def run(settings: TaskSettings, slots: Iterator[Slot]) -> Iterator[TaskEnded]:
    """The function of the Spark job, on an executor."""
    if not logging.getLogger().handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(ShownFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
        logging.basicConfig(level=logging.INFO, handlers=[handler])
        logging.getLogger("kazoo").setLevel(logging.WARNING)
    for slot in slots:
        store = connect(settings.zookeeper, settings.root, settings.session_timeout_s, create=False)
        try:
            yield TaskEnded(slot.slot, SlotTask(store, settings, slot.slot).run())
        finally:
            store.close()


class SlotTask:
    def __init__(self, store: Store, settings: TaskSettings, slot: int) -> None:
        self._store, self._settings, self._slot = store, settings, slot
        self._followed = store.follow_mirror_task(slot)
        self._pairs: dict[tuple[str, str], CopyPair] = {}
        self._ended: list[CopyPair] = []
        self._reported: MirrorReport | None = None
        self._copies: MirrorCopies | None = None
        self._reported_s = self._next_s = 0.0
        self._ending = threading.Event()

    def stop(self) -> None:
        """From any thread."""
        self._ending.set()

    def run(self) -> str:
        """Returns the reason why it has ended."""
        claim = self._claim()
        if claim is None:
            return NOT_OURS
        try:
            copies = self._store.register(MirrorCopies(slot=self._slot, job=self._settings.job))
        except AlreadyRegisteredError as error:
            claim.close()
            return str(error)
        log.info("slot %d is taken", self._slot)
        ours = _Ours(self._store, self._slot, claim, self._settings.job)
        session = claim.session
        try:
            while not self._ending.wait(LOOK_S if self._reported is not None else 0.0):
                try:
                    if not claim.held():
                        return "the slot was taken by another task"
                    if claim.session != session:
                        # In between, other tasks may have had its partitions, even if they are assigned here again.
                        session = claim.session
                        self._release(self._pairs)
                    task = self._our_task()
                    if task is None:
                        return NOT_OURS
                    self._follow(task, ours)
                except (StoreError, UnreadableDocumentError) as error:
                    log.warning("slot %d goes on with what it has: %s", self._slot, error)
                self._report(claim, copies)
            return "it was told to end"
        finally:
            copies.close()
            self._release(self._pairs)
            for pair in self._ended:
                pair.join()
            claim.close()
            log.info("slot %d is free", self._slot)

    def _our_task(self) -> MirrorTask | None:
        task = self._followed.read()
        return task if task is not None and task.job == self._settings.job else None

    def _claim(self) -> Registration[MirrorReport] | None:
        """Claims the slot once it is free; None: the lead has ended, or does not need the slot any more.

        Spark may run a task twice (`spark.speculation`), and ends the other one when the first returns. So a task that
        finds the slot taken waits and returns nothing.
        """
        logged = False
        while self._our_task() is not None and not self._ending.is_set():
            try:
                return self._store.register(MirrorReport(slot=self._slot, job=self._settings.job))
            except AlreadyRegisteredError as error:
                if not logged:
                    log.info("slot %d: waiting for it: %s", self._slot, error)
                logged = True
                self._ending.wait(LOOK_S)
        return None

    def _follow(self, task: MirrorTask, still_ours: Callable[[CopyId], bool]) -> None:
        by_pair: dict[tuple[str, str], list[MirrorShare]] = {}
        for share in task.shares:
            by_pair.setdefault((share.source, share.target), []).append(share)
        self._release(self._pairs.keys() - by_pair.keys())
        for key, its in by_pair.items():
            pair = self._pairs.get(key)
            if pair is None:
                pair = self._pairs[key] = CopyPair(*key, self._open, still_ours)
            pair.follow(tuple(its), split(task.max_bytes_s, its, task.shares))
            pair.hold(BUFFER_BYTES // len(by_pair))

    def _release(self, keys: Iterable[tuple[str, str]]) -> None:
        for key in list(keys):
            pair = self._pairs.pop(key)
            pair.stop()
            self._ended.append(pair)

    def _open(self, cluster: str) -> Admin:
        try:
            clusters = self._store.clusters()
        except StoreError as error:
            raise KafkaAdminError(cluster, f"cannot be looked up. {error}") from None
        return Reach(clusters, self._settings.profiles, self._settings.timeout_s).open(cluster)

    def _report(self, claim: Registration[MirrorReport], copies: Registration[MirrorCopies]) -> None:
        if time.monotonic() < self._next_s:
            return
        written = self._report_copies(copies) + self._report_states(claim)
        self._next_s = time.monotonic() + written / REPORTED_BYTES_S

    def _report_copies(self, copies: Registration[MirrorCopies]) -> int:
        """Returns the number of bytes written."""
        found = [one for pair in self._pairs.values() for one in pair.copied()]
        document = MirrorCopies(slot=self._slot, job=self._settings.job, mirrors=by_mirror(found))
        if document == self._copies:
            return 0
        self._copies = document
        copies.update(document)
        return len(to_bytes(document))

    def _report_states(self, claim: Registration[MirrorReport]) -> int:
        """Returns the number of bytes written."""
        reports = [partition_report for pair in self._pairs.values() for partition_report in pair.report()]
        work = tuple(pair.work() for pair in self._pairs.values())
        report = bounded(MirrorReport(slot=self._slot, job=self._settings.job, work=work), reports)
        now_s = time.monotonic()
        if report == self._reported and now_s - self._reported_s < REPEAT_S:
            return 0
        self._reported, self._reported_s = report, now_s
        document = report.changed(at=datetime.now(UTC).isoformat(timespec="seconds"))
        claim.update(document)
        return len(to_bytes(document))


class _Ours:
    """Checks that a partition is still to be copied by this task, reading afresh; from any thread.

    The driver needs a moment to remove the partitions of a mirror that an operation holds from the slots' documents, so
    the mirror itself is read too.
    """

    def __init__(self, store: Store, slot: int, claim: Registration[MirrorReport], job: str) -> None:
        self._store, self._followed, self._claim, self._job = store, store.follow_mirror_task(slot), claim, job
        self._guard = threading.Lock()
        self._task: MirrorTask | None = None
        self._mirrors: Mapping[CopyId, str] = {}

    def __call__(self, id_: CopyId) -> bool:
        """:raises StoreError: ZooKeeper cannot be asked."""
        with self._guard:
            # This asks ZooKeeper's leader; later reads over the same session are no older.
            if not self._claim.held():
                return False
            task = self._followed.read()
            if task is not self._task:
                self._task, self._mirrors = task, _mirrors(task, self._job)
            key = self._mirrors.get(id_)
            found = None if key is None else self._store.read(Mirror, key)
            return found is not None and found[0].link == id_.link and found[0].held is None


def _mirrors(task: MirrorTask | None, job: str) -> Mapping[CopyId, str]:
    """The partitions of a slot, with the keys of their mirrors."""
    if task is None or task.job != job:
        return {}
    return {
        CopyId(share.link, share.topic, number): share.mirror for share in task.shares for number in share.partitions
    }


def by_mirror(found: Iterable[tuple[str, CopyId, CopiedPartition]]) -> tuple[CopiedMirror, ...]:
    """As many partitions as a document can hold."""
    mirrors: dict[tuple[str, str], dict[int, CopiedPartition]] = {}
    for mirror, id_, copied in islice(found, MAX_PARTITIONS):
        mirrors.setdefault((mirror, id_.link), {})[id_.partition] = copied
    return tuple(
        CopiedMirror(mirror=mirror, link=link, partitions=partitions)
        for (mirror, link), partitions in sorted(mirrors.items())
    )


def bounded(report: MirrorReport, reports: list[PartitionReport]) -> MirrorReport:
    """The report with as many partitions as it can hold, the most urgent first."""
    if len(reports) > MAX_PARTITIONS:
        reports.sort(
            key=lambda partition_report: (
                partition_report.state == "copying",
                -(partition_report.lag_records or 0),
                partition_report.mirror,
                partition_report.partition,
            )
        )
    kept = tuple(reports[:MAX_PARTITIONS])
    return report.changed(partitions=kept, left_out=len(reports) - len(kept))
