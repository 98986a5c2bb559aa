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
from collections.abc import Callable, Collection, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from ha_core.flows.configuration import Configuration
from ha_core.flows.errors import FlowError
from ha_core.mirror_maker.declared_flows import DeclaredFlows, declared_in
from ha_core.mirror_maker.flows_file import FlowsFile
from ha_core.mirror_maker.membership import SharingWorker
from ha_core.mirror_maker.worker import Worker
from ha_core.model import FlowDeclaration, FlowWorker
from ha_core.model.shown import ShownFormatter
from ha_core.store.store import Store
from ha_core.store.zookeeper import connect
from spark_jobs.driver_watchdog import SparkGoneError, first_line
from spark_jobs.inputs import InputError
from spark_jobs.long_tasks import counting, run_task, tags_of
from spark_jobs.session import naming, open_session

log = logging.getLogger(__name__)
_LOOK_S = 1.0
_READ_EVERY_S = 5.0
_RESTART_S = 2.0
_END_S = 20.0


class WorkerTask(NamedTuple):
    """The only input row of a worker's Spark job."""

    slot: int


class WorkerEnded(NamedTuple):
    slot: int
    why: str


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

    :param file: None: run the flows of `declared`, which each worker follows by itself.
    :param targets: run only flows into these clusters; empty: all.
    :param tasks: number of workers; None: as many as Spark can run at the same time.
    :raises InputError: the file cannot be used, or there is no such declaration.
    """
    _log_to_stderr()
    read = None if file is None else FlowsFile(file, like_3_9)
    try:
        found = None if read is None else read.read()
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
        _Tasks(spark, remote, slots, read, settings, ending).run()


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
    ) -> None:
        self._spark, self._remote, self._slots, self._read = spark, remote, slots, read
        self._settings, self._ending = settings, ending
        self._job = uuid.uuid4().hex
        self._threads: dict[int, threading.Thread] = {}

    def run(self) -> None:
        read_at, trouble = time.monotonic() + _READ_EVERY_S, ""
        try:
            while not self._ending.is_set():
                for slot in range(self._slots()):
                    if slot not in self._threads:
                        thread = threading.Thread(target=self._keep, args=(slot,), name=f"flows-{slot}", daemon=True)
                        self._threads[slot] = thread
                        thread.start()
                if self._read is not None and time.monotonic() >= read_at:
                    read_at = time.monotonic() + _READ_EVERY_S
                    trouble = self._reread(self._read, trouble)
                self._ending.wait(_LOOK_S)
        finally:
            self._ending.set()
            self._cancel()
            until = time.monotonic() + _END_S
            for thread in self._threads.values():
                thread.join(max(until - time.monotonic(), 0.0))

    def _reread(self, file: FlowsFile, trouble: str) -> str:
        """Read the file again. Returns why it cannot be used now; "": it can."""
        try:
            found = file.read()
        except FlowError as error:
            if str(error) != trouble:
                log.warning("flows keep running as before: %s", error)
            return str(error)
        if found is not self._settings.found:
            log.info("the configuration has changed: the workers are restarted")
            self._settings = self._settings._replace(found=found)
            self._cancel()
        return ""

    def _keep(self, slot: int) -> None:
        while not self._ending.is_set():
            try:
                task = partial(run_workers, self._settings)
                with naming(self._remote):
                    ended = run_task(self._spark, self._tag(slot), task, WorkerTask(slot), WorkerEnded)
                log.info("worker %d has ended: %s", slot, ", ".join(one.why for one in ended))
            except SparkGoneError:
                return
            except Exception as error:  # Spark raises various errors for cancelled and failed tasks
                if not self._ending.is_set():
                    log.warning("worker %d has ended: %s", slot, first_line(error))
            self._ending.wait(_RESTART_S)

    def _cancel(self) -> None:
        for slot in self._threads:
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
