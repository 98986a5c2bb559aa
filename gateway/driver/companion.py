"""A process that works on behalf of a gateway, so that the event loop pays nothing: kept up while it is wanted.

It is told what to do by its standard input, since that holds passwords, and ends with it, however this process dies.
What it says are lines of JSON.
"""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from gateway.config import Config

_log = logging.getLogger(__name__)

FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 300.0
"""After a process that died; doubled while none has been of use."""
_MAX_LINE_BYTES = 4 * 1024 * 1024


def order(config: Config, **more: Any) -> bytes:
    """What such a process is told, as its first line: how the state and the clusters are reached, and `more`."""
    profiles = {name: asdict(profile) if profile.mechanism else {} for name, profile in config.profiles.items()}
    told = {
        "by": f"gateway:{config.id}",
        "zookeeper": config.zookeeper.hosts,
        "root": config.zookeeper.root,
        "profiles": profiles,
        **more,
    }
    return json.dumps(told).encode() + b"\n"


class Companion(ABC):
    """Runs the process while this gateway is elected for it; one that dies is started again, later and later.

    Until then this gateway is not `able`, so that another one is elected.
    """

    doing: str
    """What it does, for the log."""
    module: str

    def __init__(
        self,
        told: bytes,
        changed: Callable[[], None],
        silent_s: float,
        command: Sequence[str] = (),
        first_pause_s: float = FIRST_PAUSE_S,
        enabled: bool = True,
    ) -> None:
        """:param changed: called when `able` has changed.
        :param silent_s: how long it may say nothing.
        :param command: in place of `module`.
        """
        self._told, self._changed, self._silent_s = told, changed, silent_s
        self._command = command or (sys.executable, "-m", self.module)
        self._enabled, self._first_pause_s = enabled, first_pause_s
        self._resting = False
        self._useful = False
        self._wanted, self._unwanted = asyncio.Event(), asyncio.Event()
        self.running = False

    @abstractmethod
    def take(self, said: Mapping[str, Any]) -> bool:
        """Takes what the process says, a line at a time. Returns whether it has been of use."""

    @property
    def able(self) -> bool:
        """Whether this gateway may be elected."""
        return self._enabled and not self._resting

    def want(self, wanted: bool) -> None:
        """Whether this gateway is elected."""
        now, other = (self._wanted, self._unwanted) if wanted else (self._unwanted, self._wanted)
        other.clear()
        now.set()

    async def keep(self) -> None:
        """Does it whenever it is wanted, for ever."""
        pause_s = self._first_pause_s
        while True:
            await self._wanted.wait()
            self._useful = False
            why = await self._run()
            if not why:
                continue
            if self._useful:
                pause_s = self._first_pause_s
            _log.warning("%s has ended: %s; again in %g s", self.doing, why, pause_s)
            await self._rest(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    async def _rest(self, pause_s: float) -> None:
        self._resting = True
        self._changed()
        await asyncio.sleep(pause_s)
        self._resting = False
        self._changed()

    async def _run(self) -> str:
        """Why the process has ended; empty when another gateway is elected."""
        try:
            process = await asyncio.create_subprocess_exec(
                *self._command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=_MAX_LINE_BYTES
            )
        except OSError as error:
            return str(error)
        self.running = True
        _log.info("%s is done by this gateway (pid %d)", self.doing, process.pid)
        reading = asyncio.create_task(self._converse(process))
        ending = asyncio.create_task(self._unwanted.wait())
        try:
            await asyncio.wait({reading, ending}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                _log.info("%s is no longer done by this gateway", self.doing)
                return ""
            return reading.result() or f"exit code {await process.wait()}"
        finally:
            self.running = False
            for task in (reading, ending):
                task.cancel()
            # Whatever it is about, the next one finds it as it stands.
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _converse(self, process: asyncio.subprocess.Process) -> str:
        """Tells the process what to do and takes in what it says; what it did wrong, empty when it has ended."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(self._told)
            await process.stdin.drain()
            while line := await asyncio.wait_for(process.stdout.readline(), self._silent_s):
                self._useful |= self.take(json.loads(line))
        except TimeoutError:
            return f"it has said nothing for {self._silent_s:g} s"
        except (ConnectionError, ValueError, KeyError, TypeError) as error:
            return f"it could not be talked to ({error!r})"
        return ""
