"""The parent of a gateway's workers: starts them, restarts dead ones, ends them, and serves their common pages.

It serves no client and has no session in ZooKeeper. To ZooKeeper, to operations and to the other workers each worker is
a gateway of its own, so the death of a worker or of the parent is handled as that of a gateway.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Sequence
from contextlib import suppress

from gateway.config import Config
from gateway.process.workers.lifeline import WorkerState, parse
from gateway.process.workers.pages import Pages, WorkersState
from gateway.process.workers.ports import SharedPorts
from gateway.process.workers.totals import Totals
from gateway.process.workers.worker_queries import WorkerPage
from ha_core.metrics.http import HttpServer

_log = logging.getLogger(__name__)

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.5, 30.0
END_S = 60.0
"""Longer than a worker takes to answer requests in flight (`gateway/process/sockets/lingering_close`). A worker that
hangs never ends."""


class _Worker:
    """A worker number, and the process that has it now."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.start = 0
        self.process: asyncio.subprocess.Process | None = None
        self.state = WorkerState()
        self.has_served = False
        """Whether any process of this number has served."""

    @property
    def serves(self) -> bool:
        return self.process is not None and self.state.serving

    @property
    def page(self) -> WorkerPage | None:
        lives = self.process is not None and self.state.http
        return WorkerPage(self.start, self.number, self.state.http) if lives else None


class Parent:
    def __init__(self, config: Config, command: Sequence[str], configuration: str) -> None:
        """:param command: starts a worker, when its number, the parent's process id and the listeners are added.
        :param configuration: its text, which each worker gets on its standard input: a restarted worker must equal the
            others, and the file may have been changed already, for a restart at night.
        """
        self._config, self._command, self._configuration = config, tuple(command), configuration.encode()
        self._workers = [_Worker(number) for number in range(config.workers)]
        self._stopping = asyncio.Event()
        self._starts = 0
        self._ended = 0
        self._code = 0
        self._totals = Totals()
        self._ports: SharedPorts | None = None
        self.pages = Pages(config.id, self._standing, self._totals)

    async def run(self) -> int:
        """Runs until a signal ends it, or the workers cannot be kept up. Returns the exit code."""
        config, loop = self._config, asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stopping.set)
        shared = [("listen.port", config.listen.host, config.listen.port)]
        if config.listen_discovery is not None:
            shared.append(("listen_discovery.port", config.listen_discovery.host, config.listen_discovery.port))
        http = HttpServer(
            *(config.http.host, config.http.port, self.pages.metrics, self.pages.unready, "http.port"),
            self.pages.more(),
        )
        try:
            self._ports = ports = SharedPorts(shared)
        except OSError as error:
            _log.error("cannot start: %s", error)
            return 1
        try:
            http.start()
            keeping = [loop.create_task(self._keep(worker)) for worker in self._workers]
            stopping = loop.create_task(self._stopping.wait())
            # A worker's task ends earlier only because of a fault, which `_end` raises.
            await asyncio.wait({stopping, *keeping}, return_when=asyncio.FIRST_COMPLETED)
            self._stopping.set()
            await self._end(keeping)
        except OSError as error:
            _log.error("cannot start: %s", error)
            return 1
        finally:
            http.stop()
            ports.close()
        return self._code

    async def _keep(self, worker: _Worker) -> None:
        """Keeps a process of this number running for as long as the gateway does."""
        pause_s = FIRST_PAUSE_S
        while not self._stopping.is_set():
            try:
                code = await self._run(worker)
            except OSError as error:
                _log.error("worker %d cannot be started: %s", worker.number, error)
                code = 1
            if self._stopping.is_set():
                return
            if not worker.has_served:
                # Like a single process that cannot start, so that its supervisor sees it. Later the others serve on,
                # whatever the fault: a certificate file may be without its key just now.
                _log.error("worker %d has ended with %d before any worker served; all end", worker.number, code)
                self._code = code if code > 0 else 1
                self._stopping.set()
                return
            self._ended += 1
            if worker.state.serving:
                pause_s = FIRST_PAUSE_S
            _log.error("worker %d has died (%d); again in %g s", worker.number, code, pause_s)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _run(self, worker: _Worker) -> int:
        """Runs one process to its end; returns its exit code, or minus the signal that ended it."""
        self._starts += 1
        worker.start, worker.state = self._starts, WorkerState()
        listeners = self._ports.numbers if self._ports is not None else ()
        numbers = ("--worker", str(worker.number), "--parent", str(os.getpid()))
        process = await asyncio.create_subprocess_exec(
            *(*self._command, *numbers, "--listeners", ",".join(map(str, listeners))),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=listeners,
        )
        self._totals.began(worker.start)
        worker.process = process
        _log.info("worker %d is process %d", worker.number, process.pid)
        if self._stopping.is_set():  # it was started meanwhile, and has got no signal
            process.terminate()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(self._configuration)
            process.stdin.close()
            async for line in process.stdout:
                with suppress(ValueError):  # a library's output
                    worker.state = parse(line)
                worker.has_served = worker.has_served or worker.state.serving
            return await process.wait()
        finally:
            worker.process = None
            self._totals.ended(worker.start)
            self._refuse_unless_served()

    def _refuse_unless_served(self) -> None:
        if self._ports is not None and not any(worker.serves for worker in self._workers):
            self._ports.refuse()

    async def _end(self, keeping: Sequence[asyncio.Task[None]]) -> None:
        """Terminates all workers, and waits for them."""
        self._send(signal.SIGTERM)
        if self._ports is not None:
            self._ports.refuse()
        _, waiting = await asyncio.wait(keeping, timeout=END_S)
        if waiting:
            _log.error("%d workers have not ended within %g s and are killed", len(waiting), END_S)
            self._send(signal.SIGKILL)
            await asyncio.wait(waiting)
        for task in keeping:
            task.result()

    def _send(self, number: signal.Signals) -> None:
        for worker in self._workers:
            if worker.process is not None:
                with suppress(ProcessLookupError):
                    worker.process.send_signal(number)

    def _standing(self) -> WorkersState:
        """Called in callers' threads, so each value is read once."""
        pages, coming_back = [], []
        for worker in self._workers:
            page, state = worker.page, worker.state
            if worker.has_served and not (state.serving and page is not None):
                coming_back.append(worker.number)
            elif page is not None:
                pages.append(page)
        begun = all(worker.has_served for worker in self._workers)
        return WorkersState(pages, len(self._workers), begun, coming_back, self._ended)
