"""Processes that a part has started, and that can be given faults under their own names."""

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stack.errors import StackError
from stack.processes import send, stopped

_POLL_S = 0.01


class FoundPart:
    """It is looked up on every command; the supervisor neither starts nor ends it."""

    def __init__(self, name: str, find: Callable[[], list[int]], log: Path) -> None:
        """:param log: log of the part that started it."""
        self.name, self._find, self._log = name, find, log

    def describe(self) -> dict[str, Any]:
        pids = self._find()
        state = "ended" if not pids else "paused" if all(map(stopped, pids)) else "ready"
        return {
            "part": self.name,
            "state": state,
            "pid": pids[0] if pids else None,
            "port": None,
            "uptime_s": None,
            "exit_code": None,
            "log": str(self._log),
        }

    async def kill(self) -> None:
        send(self._running(), signal.SIGKILL)

    async def stop(self) -> None:
        send(self._running(), signal.SIGTERM)

    async def pause(self) -> None:
        """Returns when each of its processes has stopped."""
        while not all(map(stopped, pids := self._running())):
            send(pids, signal.SIGSTOP)  # again, for processes forked meanwhile
            await asyncio.sleep(_POLL_S)

    def resume(self) -> None:
        send(self._running(), signal.SIGCONT)

    async def restart(self) -> None:
        raise StackError(f"{self.name} is restarted by its part")

    async def wait_ready(self) -> None:
        self._running()

    def _running(self) -> list[int]:
        pids = self._find()
        if not pids:
            raise StackError(f"{self.name} does not run")
        return pids
