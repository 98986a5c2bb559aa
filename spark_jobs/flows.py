"""Runs MirrorMaker 2 flows on Spark: each long-lived task is a worker that shares the flows with the others.

The workers know each other by ZooKeeper (`ha_core.mirror_maker`), so the driver assigns no work. It keeps the tasks
running, and restarts them with the new configuration when the file has changed. Each worker follows a declaration by
itself.
"""

import logging
import os
import signal
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple

from ha_core.flows.configuration import Configuration
from ha_core.flows.errors import FlowError
from ha_core.flows.sharing import SHARES
from ha_core.mirror_maker.checks import check_live, chosen_flows, flows_of_workers
from ha_core.mirror_maker.clusters import FlowClusters
from ha_core.mirror_maker.declared_flows import DeclaredFlows, declared_in
from ha_core.mirror_maker.flows_file import FlowsFile
from ha_core.mirror_maker.membership import SharingWorker
from ha_core.mirror_maker.worker import Worker
from ha_core.model import FlowDeclaration, FlowWorker
from ha_core.model.shown import ShownFormatter
from ha_core.store.store import Store
from ha_core.store.zookeeper import connect
from spark_jobs.driver_watchdog import SparkGoneError, first_line, within
from spark_jobs.inputs import InputError
from spark_jobs.long_tasks import counting, run_task, tags_of
from spark_jobs.session import SparkConnectError, naming, open_session

log = logging.getLogger(__name__)
_LOOK_S = 1.0
_READ_EVERY_S = 5.0
_RESTART_S, _LONGEST_PAUSE_S = 2.0, 30.0
_LASTED_S = 60.0
"""A worker that ran for this time did not end for what the last one ended for."""
_END_S = 20.0
_CHECK = -1
"""Slot of the task that checks the flows before they run."""


class WorkerTask(NamedTuple):
    """The only input row of a worker's Spark job."""

    slot: int


class WorkerEnded(NamedTuple):
    slot: int
    why: str


class FlowRemark(NamedTuple):
    """An error or a remark about the flows, as an executor sees them and their clusters."""

    text: str
    error: bool


class WorkerSettings(NamedTuple):
    """A worker's settings, accounts included. They are sent with the task, and appear in no plan and no log.

    :ivar file: name of the configuration, for `flows status`.
    :ivar found: the file's configuration; None: the worker follows `declared`, and resolves references on its own host.
    """

    zookeeper: str
    root: str
    session_timeout_s: float
    file: str
    found: Configuration | None
    targets: tuple[str, ...]
    declared: str = ""


def run_workers(settings: WorkerSettings, tasks: Iterator[WorkerTask]) -> Iterator[WorkerEnded]:
    """The function that the Spark job runs on an executor."""
    _log_to_stderr()
    for task in tasks:
        store = connect(settings.zookeeper, settings.root, settings.session_timeout_s, create=True)
        try:
            now = datetime.now(UTC).isoformat(timespec="seconds")
            worker_id = uuid.uuid4().hex
            this = FlowWorker(id=worker_id, host=socket.gethostname(), pid=os.getpid(), since=now, file=settings.file)
            with SharingWorker(store, this) as membership:
                Worker(_reading(settings, store), membership, settings.targets).run()
            yield WorkerEnded(task.slot, "it was stopped")
        except FlowError as error:
            yield WorkerEnded(task.slot, str(error))
        finally:
            store.close()


def check_flows(settings: WorkerSettings, tasks: Iterator[WorkerTask]) -> Iterator[FlowRemark]:
    """The function of the first Spark job: asks the clusters from an executor, where the workers will be."""
    for _ in tasks:
        store = connect(settings.zookeeper, settings.root, settings.session_timeout_s, create=True)
        try:
            found = _reading(settings, store)()
            chosen = chosen_flows(found, settings.targets)
            ours = flows_of_workers(store.flow_workers())
            clusters = FlowClusters(found.clusters, found.name)
            for remark in check_live(found, clusters, chosen, ours, shared=True):
                yield FlowRemark(remark.text, remark.error)
        except FlowError as error:
            yield FlowRemark(str(error), True)
        finally:
            store.close()


def _reading(settings: WorkerSettings, store: Store) -> Callable[[], Configuration]:
    found = settings.found
    return DeclaredFlows(store, settings.declared).read if found is None else lambda: found


def run(
    file: Path | None,
    targets: Collection[str],
    tasks: int | None,
    zookeeper: str,
    root: str,
    session_timeout_s: float,
    remote: str | None,
    like_3_9: bool = False,
    declared: str = "",
) -> None:
    """Run the flows until SIGTERM or SIGINT.

    :param file: None: the flows of `declared`, which each worker follows by itself.
    :param targets: only flows into these clusters; empty: all.
    :param tasks: None: as many as Spark runs at once.
    :raises InputError: the file cannot be used, there is no such declaration, or the flows cannot run now.
    :raises SparkGoneError: Spark's driver has ended, or hangs; likewise SparkConnectError for a server.
    """
    _log_to_stderr()
    read = None if file is None else FlowsFile(file, like_3_9)
    try:
        found = None if read is None else read.read()
        if found is not None:
            chosen_flows(found, targets)
    except FlowError as error:
        raise InputError(str(error)) from None
    if read is None:
        _require_declared(declared, zookeeper, root, session_timeout_s)
    ending = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ending.set())
    name = declared_in(declared) if file is None else str(file)
    settings = WorkerSettings(zookeeper, root, session_timeout_s, name, found, tuple(targets), declared)
    with open_session(remote) as spark, counting(spark, tasks, remote) as slots:
        _Tasks(spark, remote, slots, read, settings, ending, limited=tasks is None).run()


def _require_declared(name: str, zookeeper: str, root: str, session_timeout_s: float) -> None:
    store = connect(zookeeper, root, session_timeout_s, create=False)
    try:
        if store.read(FlowDeclaration, name) is None:
            raise InputError(f"There is no {declared_in(name)}. `switchyard flows declared` lists all declarations.")
    finally:
        store.close()


class _Tasks:
    """Keeps one task running in each slot."""

    def __init__(
        self,
        spark: Any,
        remote: str | None,
        slots: Callable[[], int],
        read: FlowsFile | None,
        settings: WorkerSettings,
        ending: threading.Event,
        limited: bool = False,
    ) -> None:
        """:param limited: no more tasks than the flows of a file have shares: others would hold cores for nothing."""
        self._spark, self._remote, self._slots, self._read = spark, remote, slots, read
        self._settings, self._ending, self._limited = settings, ending, limited
        self._job = uuid.uuid4().hex
        self._threads: dict[int, threading.Thread] = {}
        self._given: dict[int, WorkerSettings] = {}
        """Slot → settings of its task."""
        self._lost: SparkConnectError | None = None

    def run(self) -> None:
        """
        :raises InputError: the flows cannot run now.
        :raises SparkGoneError, SparkConnectError: no task can be started any more.
        """
        gone = False
        try:
            if self._checked():
                self._follow()
        except SparkGoneError:
            gone = True
            raise
        finally:
            self._ending.set()
            if not gone:  # else a call would wait for ever
                within(_END_S, partial(self._cancel, list(self._threads)))
                until = time.monotonic() + _END_S
                for thread in self._threads.values():
                    thread.join(max(until - time.monotonic(), 0.0))

    def _checked(self) -> bool:
        """Whether the flows can run; False: the job is to end.

        :raises InputError: they cannot; names all errors.
        """
        told = ""
        while not self._ending.is_set():
            answers: SimpleQueue[list[FlowRemark] | Exception] = SimpleQueue()
            thread = threading.Thread(target=self._ask, args=(answers,), name="flows-check", daemon=True)
            thread.start()
            while thread.is_alive() and not self._ending.wait(_LOOK_S):
                self._slots()
            if self._ending.is_set():
                within(_END_S, partial(self._cancel, [_CHECK]))
                return False
            answer = answers.get()
            if isinstance(answer, SparkConnectError):
                raise answer
            if isinstance(answer, Exception):  # a lost executor, for example
                if (why := first_line(answer)) != told:
                    log.warning("the flows cannot be checked yet: %s", why)
                told = why
                self._ending.wait(_RESTART_S)
                continue
            if errors := [remark.text for remark in answer if remark.error]:
                raise InputError("\n".join((f"{self._settings.file} cannot be run now:", *errors)))
            for remark in answer:
                log.warning("%s", remark.text)
            return True
        return False

    def _ask(self, answers: "SimpleQueue[list[FlowRemark] | Exception]") -> None:
        try:
            with naming(self._remote):
                task = partial(check_flows, self._settings)
                answers.put(run_task(self._spark, self._tag(_CHECK), task, WorkerTask(_CHECK), FlowRemark))
        except Exception as error:  # Spark raises various errors for a task that has failed
            answers.put(error)

    def _follow(self) -> None:
        read_at, trouble = time.monotonic() + _READ_EVERY_S, ""
        while not self._ending.is_set():
            if self._lost is not None:
                raise self._lost
            for slot in range(self._wanted(self._slots())):
                if slot not in self._threads:
                    thread = threading.Thread(target=self._keep, args=(slot,), name=f"flows-{slot}", daemon=True)
                    self._threads[slot] = thread
                    thread.start()
            if self._read is not None and time.monotonic() >= read_at:
                read_at = time.monotonic() + _READ_EVERY_S
                trouble = self._reread(self._read, trouble)
            # At each look: a task may have been submitted with the earlier settings since the last one.
            if stale := [slot for slot, given in list(self._given.items()) if given is not self._settings]:
                within(_END_S, partial(self._cancel, stale))
            self._ending.wait(_LOOK_S)

    def _wanted(self, slots: int) -> int:
        found = self._settings.found
        return slots if found is None or not self._limited else min(slots, SHARES * max(len(found.flows), 1))

    def _reread(self, file: FlowsFile, trouble: str) -> str:
        """Read the file again. Returns why it cannot be used now; "": it can."""
        try:
            found = file.read()
            if found is not self._settings.found:
                chosen_flows(found, self._settings.targets)
        except FlowError as error:
            if str(error) != trouble:
                log.warning("flows keep running as before: %s", error)
            return str(error)
        if found is not self._settings.found:
            log.info("the configuration has changed: the workers are restarted")
            self._settings = self._settings._replace(found=found)
        return ""

    def _keep(self, slot: int) -> None:
        told, pause_s = "", _RESTART_S
        while not self._ending.is_set():
            settings, began = self._settings, time.monotonic()
            self._given[slot] = settings
            try:
                task = partial(run_workers, settings)
                with naming(self._remote):
                    ended = run_task(self._spark, self._tag(slot), task, WorkerTask(slot), WorkerEnded)
                why = ", ".join(one.why for one in ended)
            except SparkGoneError:
                return
            except SparkConnectError as error:
                self._lost = error
                return
            except Exception as error:  # Spark raises various errors for a task that was cancelled or has failed
                why = first_line(error)
            finally:
                self._given.pop(slot, None)
            if self._ending.is_set():
                return
            if settings is not self._settings:
                continue
            if why != told:
                log.warning("worker %d has ended: %s", slot, why)
            lasted = time.monotonic() - began > _LASTED_S
            told, pause_s = ("", _RESTART_S) if lasted else (why, min(2 * pause_s, _LONGEST_PAUSE_S))
            self._ending.wait(pause_s)

    def _cancel(self, slots: Iterable[int]) -> None:
        for slot in slots:
            try:
                tags_of(self._spark).cancel(self._tag(slot))
            except Exception as error:  # if the session is gone, the task is gone, too
                log.warning("worker %d cannot be cancelled: %s", slot, first_line(error))

    def _tag(self, slot: int) -> str:
        return f"flows-{self._job}-{slot}"


def _log_to_stderr() -> None:
    if not logging.getLogger().handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(ShownFormatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
        logging.basicConfig(level=logging.INFO, handlers=[handler])
    for noisy in ("kazoo", "py4j"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
