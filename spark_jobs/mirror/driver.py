"""The driver: one of several leads, assigns partitions to slots, and keeps a Spark job running for each slot.

The leader holds the ephemeral node, and was the last to write every slot's document. A driver that stood still
meanwhile finds another version there and writes nothing; its tasks find another lead in their documents and end.

A Spark session belongs to one lead: a waiting driver holds no executors, a driver that loses the lead releases them,
and a lead whose session has become useless ends, so that the next one, here or in another driver, opens a new one.
"""

import logging
import os
import socket
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from ha_core.model import Mirror, MirrorJob, MirrorReport, MirrorShare, MirrorTask, UnreadableDocumentError
from ha_core.model.portions import portions
from ha_core.store.errors import AlreadyRegisteredError, ConflictError, StoreError
from ha_core.store.gateways import Registration
from ha_core.store.mirroring import DocumentsFound
from ha_core.store.store import Store
from spark_jobs.driver_watchdog import SparkGoneError, first_line, within
from spark_jobs.mirror.counts import PartitionCounts
from spark_jobs.mirror.metrics import MirrorMetrics
from spark_jobs.mirror.planning import Key, Placement, partitions, shares, split
from spark_jobs.mirror.progress_log import ProgressLog
from spark_jobs.mirror.task import NOT_OURS

log = logging.getLogger(__name__)
LOOK_S = 1.0
SETTLE_S = 5.0
"""Time after the first task in which to wait for the others before assigning partitions: those that move later are
taken over twice."""
RESTART_S = 2.0
SILENT_S = 30.0
"""A task without a report for this time hangs: its session has expired long before."""
IN_VAIN_S = 300.0
"""Give up if no task starts within this time: no free executors, or a dead Spark session."""
FAILING_S = 60.0
"""Give up if no task starts within this time while Spark reports each attempt as failed."""
_END_S = 10.0
_WRITE_BYTES = 500_000
"""Size of documents per write. ZooKeeper takes a megabyte."""


class Spark(NamedTuple):
    """The operations of a session for a lead."""

    run: Callable[[str, int], str]
    """Runs the task of a lead's slot until it ends; returns the reason."""
    slots: Callable[[], int]
    """Number of tasks that can run at once, as known by now. Raises SparkGoneError."""
    cancel: Callable[[str, int], object]
    """Ends the task of a lead's slot, even if it hangs."""


Follow = Callable[[Iterable[Mirror] | None, Mapping[tuple[str, str], int]], None]


def _ignore(_mirrors: Iterable[Mirror] | None, _counts: Mapping[tuple[str, str], int]) -> None:
    return None


class Given(NamedTuple):
    """Contents of a slot's document."""

    shares: tuple[MirrorShare, ...] = ()
    max_bytes_s: int | None = None


NOTHING = Given()


class Driver:
    def __init__(
        self,
        store: Store,
        counts: PartitionCounts,
        session: Callable[[], AbstractContextManager[Spark]],
        follow: Follow = _ignore,
        max_bytes_s: int | None = None,
        metrics: MirrorMetrics | None = None,
    ) -> None:
        """:param session: opens a session.
        :param follow: called while this driver leads with all mirrors and known partition counts; with None when it
            stops leading.
        :param max_bytes_s: limit for all mirrors together.
        """
        self._store, self._counts, self._session, self._follow = store, counts, session, follow
        self._max_bytes_s, self._metrics = max_bytes_s, metrics or MirrorMetrics()
        self._ending = threading.Event()

    def stop(self) -> None:
        """From any thread, or a signal."""
        self._ending.set()

    def run(self) -> None:
        """Leads, or waits for the lead, until stopped."""
        waiting = False
        while not self._ending.is_set():
            job = MirrorJob(id=uuid.uuid4().hex, host=socket.gethostname(), pid=os.getpid(), since=_now())
            try:
                claim = self._store.register(job)
            except AlreadyRegisteredError as error:
                if not waiting:
                    log.info("waiting for the lead: %s", error)
                waiting = True
                self._ending.wait(LOOK_S)
                continue
            except StoreError as error:
                log.warning("the leader is unknown: %s", error)
                self._ending.wait(LOOK_S)
                continue
            waiting = False
            try:
                with self._session() as spark:
                    ours = self._store, self._counts, spark, job.id, claim, self._ending
                    Lead(*ours, self._follow, self._max_bytes_s, self._metrics).run()
            finally:
                self._follow(None, {})
                self._metrics.leave()
                claim.close()
            self._ending.wait(3 * LOOK_S)  # another driver may be able to lead


class Lead:
    """One driver's time in the lead.

    :ivar versions: slot → version of its document.
    :ivar written: slot → contents of its document.
    """

    def __init__(
        self,
        store: Store,
        counts: PartitionCounts,
        spark: Spark,
        job: str,
        claim: Registration[MirrorJob],
        ending: threading.Event,
        follow: Follow,
        max_bytes_s: int | None,
        metrics: MirrorMetrics,
    ) -> None:
        self._store, self._counts, self._spark, self._follow = store, counts, spark, follow
        self._max_bytes_s, self._metrics = max_bytes_s, metrics
        self._job, self._claim, self._ending = job, claim, ending
        self._over = threading.Event()
        self._doubted = threading.Event()
        self._placement = Placement()
        self._progress_log = ProgressLog()
        self._threads: dict[int, threading.Thread] = {}
        self._heard_s: dict[int, float] = {}
        """Slot → time of its task's last report; missing before the first one."""
        self._begun: set[int] = set()
        """Slots whose task was newly submitted to Spark."""
        self._cancelled_s: dict[int, float] = {}
        self._nothing_starts_since_s: float | None = None
        self._failed = threading.Event()
        """Set when Spark has reported a failed task since the last report of any task."""
        self._first_s: float | None = None
        self._settling = True
        self._given: tuple[list[Mirror], Mapping[Key, int]] | None = None
        self._read: dict[str, Mirror] = {}
        """By key, the last readable version."""
        self._unreadable: Mapping[str, str] = {}
        self.versions: dict[int, int] = {}
        self.written: dict[int, Given] = {}

    def run(self) -> None:
        log.info("lead %s", self._job)
        try:
            self.begin()
            while not self._ending.is_set():
                try:
                    if not self._claim.held():
                        log.warning("another driver leads")
                        return
                    now_s = time.monotonic()
                    self.look(now_s)
                    if self._nothing_starts(now_s):
                        log.warning("no task starts: the lead and its session end")
                        break
                except ConflictError:
                    raise
                except (StoreError, UnreadableDocumentError) as error:
                    log.warning("tasks go on with what they have: %s", error)
                self._ending.wait(LOOK_S)
            self._retire(self.versions)
        except ConflictError as error:
            log.warning("another driver leads: %s", error)
        except StoreError as error:
            log.warning("tasks end with their sessions: %s", error)
        except SparkGoneError:
            self._threads.clear()  # no session is left to end them; the next lead fences their copiers
            raise
        finally:
            self._over.set()
            within(_END_S, partial(self._cancel, list(self._threads)))
            until = time.monotonic() + _END_S
            for thread in list(self._threads.values()):
                thread.join(max(until - time.monotonic(), 0.0))

    def begin(self) -> None:
        """Takes the slots from the previous lead."""
        self.versions = self._store.mirror_slots()
        self._write(dict.fromkeys(self.versions, NOTHING))

    def look(self, now_s: float) -> None:
        """Once a second: reads the state and acts on it."""
        if self._doubted.is_set():
            self._doubted.clear()
            self._write(dict(self.written))
        mirrors_found = self._store.find_mirrors()
        mirrors = self._with_unreadable(mirrors_found)
        counts = self._counts.of(mirrors)
        self._follow(mirrors_found.readable, counts)
        wanted = list(partitions(mirrors, counts))
        slots = min(self._spark.slots(), len(wanted))
        reported = self._store.mirror_reports().items()
        reports = {slot: report for slot, report in reported if report.job == self._job and slot < slots}
        self._placement.measure(reports.values(), now_s)
        self._retire([slot for slot in self.written if slot >= slots])
        self._write({slot: NOTHING for slot in range(slots) if slot not in self.written})
        self._start(slots)
        self._end_silent(reports, now_s)
        if self._settled(reports, slots, now_s):
            self._give_out(mirrors, self._placement.place(wanted, reports.keys(), now_s))
        self._progress_log.log_changes(mirrors, counts, reports, now_s)
        self._metrics.follow(mirrors, reports, len(wanted))

    def _with_unreadable(self, mirrors_found: DocumentsFound[Mirror]) -> list[Mirror]:
        """The mirrors to copy, by key. An unreadable mirror stays with its tasks, in its last readable version: taking
        its copies away would fence them. Without a readable document it must not be begun anew.
        """
        for key, why in mirrors_found.unreadable.items():
            if self._unreadable.get(key) != why:
                left = "its tasks go on until they are taken over" if key in self._read else "it is not copied"
                log.warning("mirror %s cannot be read and is left alone, %s: %s", key, left, why)
        self._unreadable = mirrors_found.unreadable
        before = {key: self._read[key] for key in mirrors_found.unreadable if key in self._read}
        self._read = before | {mirror.key: mirror for mirror in mirrors_found.readable}
        return [mirror for _, mirror in sorted(self._read.items())]

    def _give_out(self, mirrors: list[Mirror], placed: Mapping[Key, int]) -> None:
        if (mirrors, placed) == self._given:
            return
        given = shares(mirrors, placed)
        every = [share for its in given.values() for share in its]
        now = {slot: Given(its, split(self._max_bytes_s, its, every)) for slot, its in given.items()}
        now = {slot: now.get(slot, NOTHING) for slot in self.written}
        self._write({slot: its for slot, its in now.items() if its != self.written[slot]})
        self._given = mirrors, placed

    def _settled(self, reports: Mapping[int, MirrorReport], slots: int, now_s: float) -> bool:
        if reports and self._first_s is None:
            self._first_s = now_s
        if self._first_s is not None and (len(reports) >= slots or now_s - self._first_s >= SETTLE_S):
            self._settling = False
        return not self._settling

    def _write(self, given: Mapping[int, Given]) -> None:
        """Uses as many writes as needed: tasks ask ZooKeeper's leader before they take anything over, so it does no
        harm if the new owner of a partition sees its document before the old one.

        :raises ConflictError: another driver leads.
        """
        for slots in self._write_for(self._job, given):
            self.written |= {slot: given[slot] for slot in slots}

    def _retire(self, slots: Iterable[int]) -> None:
        """Ends their tasks, which releases their cores to Spark."""
        for ended in self._write_for("", dict.fromkeys(slots, NOTHING)):
            for slot in ended:
                self.written.pop(slot, None)

    def _write_for(self, job: str, given: Mapping[int, Given]) -> Iterator[list[int]]:
        tasks = [MirrorTask(slot=slot, job=job, **its._asdict()) for slot, its in given.items()]
        for some in portions(tasks, _WRITE_BYTES, lambda task: len(task.to_bytes())):
            versioned = {task.slot: (task, self.versions.get(task.slot)) for task in some}
            self.versions |= self._store.write_mirror_tasks(versioned)
            yield list(versioned)

    def _end_silent(self, reports: Collection[int], now_s: float) -> None:
        """Cancels tasks that hang: they occupy their cores and never end by themselves."""
        self._heard_s |= dict.fromkeys(reports, now_s)
        for slot in list(self._begun):
            # Before its first report it may wait for a core: if cancelled, it would wait at the end of the queue.
            self._begun.discard(slot)
            if slot not in reports:
                self._heard_s.pop(slot, None)
        since = {slot: max(at_s, self._cancelled_s.get(slot, at_s)) for slot, at_s in self._heard_s.items()}
        silent = [slot for slot, at_s in since.items() if now_s - at_s > SILENT_S and slot in self._threads]
        for slot in silent:
            log.warning("slot %d: nothing is heard of its task for %.0f s, it is cancelled", slot, SILENT_S)
        self._cancel(silent)
        self._cancelled_s |= dict.fromkeys(silent, now_s)

    def _cancel(self, slots: Iterable[int]) -> None:
        for slot in slots:
            try:
                self._spark.cancel(self._job, slot)
            except Exception as error:
                # Spark raises various errors if its session is gone; then the task is gone too.
                log.warning("slot %d cannot be cancelled: %s", slot, first_line(error))

    def _nothing_starts(self, now_s: float) -> bool:
        if not self._threads or any(now_s - at_s < FAILING_S for at_s in self._heard_s.values()):
            self._nothing_starts_since_s = None
            self._failed.clear()
        elif self._nothing_starts_since_s is None:
            self._nothing_starts_since_s = now_s
        patience_s = FAILING_S if self._failed.is_set() else IN_VAIN_S
        return self._nothing_starts_since_s is not None and now_s - self._nothing_starts_since_s > patience_s

    def _start(self, slots: int) -> None:
        for slot in range(slots):
            if slot not in self._threads:
                thread = threading.Thread(target=self._keep, args=(slot,), name=f"mirror-slot-{slot}", daemon=True)
                self._threads[slot] = thread
                thread.start()

    def _keep(self, slot: int) -> None:
        while not self._over.is_set():
            self._begun.add(slot)
            try:
                why = self._spark.run(self._job, slot)
            except Exception as error:
                # Spark raises various errors for a failed task or a lost executor.
                why = first_line(error)
                self._failed.set()
            if self._over.is_set() or self._ending.is_set():
                return
            if why == NOT_OURS:
                # Start nothing before the documents were written again, which shows who leads.
                self._doubted.set()
                self._threads.pop(slot, None)
                return
            log.warning("slot %d: its task has ended (%s), the next one begins", slot, why)
            self._over.wait(RESTART_S)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
