"""A running part: its process, its state, and its faults."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from stack.errors import StackError
from stack.parts import PartNotReadyError, PartProgram, StackPart, environment
from stack.processes import ProcessIdentity, die_with_parent, identity, members, send, stopped

State = Literal["waiting", "starting", "ready", "paused", "killed", "ended", "died"]
_READY_OR_SOON: tuple[State, ...] = ("starting", "ready")
_POLL_S = 0.1
_RESTART_GRACE_S = 20.0
_LAST_LINES = 20


class RunningPart:
    """Used in the supervisor's event loop only: its main thread must fork the children."""

    def __init__(self, part: StackPart, log: Path, changed: Callable[[], None]) -> None:
        self.part = part
        self.log = log
        self.changed = changed
        self.state: State = "waiting"
        self.identity: ProcessIdentity | None = None
        self.process: asyncio.subprocess.Process | None = None
        self.started_at = 0.0
        self.start_s = 0.0
        self.exit_code: int | None = None
        self._watch: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        return (
            self.identity.pid if self.identity is not None and self.state in ("starting", "ready", "paused") else None
        )

    def describe(self) -> dict[str, Any]:
        up = self.pid is not None
        return {
            "part": self.part.name,
            "state": self.state,
            "pid": self.pid,
            "port": self.part.port,
            "uptime_s": round(time.time() - self.started_at, 1) if up else None,
            "exit_code": self.exit_code,
            "log": str(self.log),
        }

    async def prepare(self) -> None:
        for command in await asyncio.to_thread(self.part.prepare):
            process = await self._spawn(command)
            if await process.wait() != 0:
                raise self._death("did not get ready to start", process.returncode)

    async def start(self) -> None:
        self.exit_code = None
        process = await self._spawn(self.part.command())
        self.process = process
        self.identity = identity(process.pid)
        self.state = "starting"
        self.started_at = time.time()
        self._watch = asyncio.create_task(self._watch_end(process))
        self.changed()

    async def _spawn(self, command: PartProgram) -> asyncio.subprocess.Process:
        log = os.open(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            return await asyncio.create_subprocess_exec(
                *command.argv,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(command.env),
                cwd=command.cwd,
                start_new_session=True,
                preexec_fn=die_with_parent(),
            )
        except OSError as error:
            raise StackError(f"{self.part.name}: {command.argv[0]} cannot be run: {error}") from error
        finally:
            os.close(log)

    async def _watch_end(self, process: asyncio.subprocess.Process) -> None:
        code = await process.wait()
        if self.process is process and self.state in ("starting", "ready", "paused"):
            self.state = "died"
            self.exit_code = code
            print(f"{self.part.name} died: {_ending(code)}", flush=True, file=sys.stderr)

    async def wait_ready(self) -> None:
        """Raises StackError if the part dies or is not ready in time."""
        if self.state not in ("starting", "ready"):
            raise StackError(
                f"{self.part.name} is {self.state}: start it with `switchyard stack restart {self.part.name}`"
            )
        begun = time.monotonic()
        while True:
            if self._has_died():
                raise self._death("died at its start", self.exit_code)
            if self.state not in _READY_OR_SOON:
                raise StackError(f"{self.part.name} was {self.state} before it was ready")
            try:
                await asyncio.to_thread(self.part.probe, self.started_at)
            except PartNotReadyError as error:
                if time.monotonic() - begun > self.part.ready_timeout_s:
                    raise self._death(
                        f"was not ready within {self.part.ready_timeout_s:.0f} s ({error})", None
                    ) from error
                await asyncio.sleep(_POLL_S)
                continue
            if self.state == "starting":
                self.state = "ready"
                self.start_s = time.time() - self.started_at
            return

    def _has_died(self) -> bool:
        return self.state == "died"

    async def pause(self) -> None:
        """SIGSTOP for the part and its workers; returns when all of them have stopped."""
        session = self.pid
        if session is None:
            raise StackError(f"{self.part.name} is {self.state} and cannot be paused")
        self.state = "paused"
        while not all(stopped(pid) for pid in members(session)):
            self._signal(signal.SIGSTOP)  # again, for processes forked meanwhile
            await asyncio.sleep(0.01)

    def resume(self) -> None:
        if self.state != "paused":
            raise StackError(f"{self.part.name} is {self.state}, not paused")
        self._signal(signal.SIGCONT)
        self.state = "ready"

    async def kill(self) -> None:
        """SIGKILL for the part and its workers; it stays down until `restart`."""
        await self._down(None, "killed")

    async def stop(self) -> None:
        """A graceful end; it stays down until `restart`."""
        await self.end(_RESTART_GRACE_S)

    async def end(self, grace_s: float) -> None:
        """A graceful end; SIGKILL after `grace_s`."""
        if self.pid is not None:
            await self._down(grace_s, "ended")
        else:
            self._signal(signal.SIGKILL)  # workers that outlived their part

    async def restart(self) -> None:
        """End it, start it with its configuration and data, and wait until it is ready."""
        await self.stop()
        await self.start()
        await self.wait_ready()

    async def _down(self, grace_s: float | None, state: State) -> None:
        process, self.state = self.process, state
        if process is None:
            return
        if grace_s is not None and process.returncode is None:
            self._signal(signal.SIGCONT)
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(self.part.end_signal)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), grace_s)
        while self._signal(signal.SIGKILL):  # noqa: ASYNC110 - again, for forks of a dying part
            await asyncio.sleep(0.02)
        self.exit_code = await process.wait()
        self.changed()

    def _signal(self, number: int) -> bool:
        """Whether there was a process to signal."""
        if self.identity is None:
            return False
        found = members(self.identity.pid)
        send(found, number)
        return bool(found)

    def _death(self, what: str, code: int | None) -> StackError:
        lines = self.log.read_text("utf-8", "replace").splitlines()[-_LAST_LINES:] if self.log.exists() else []
        ending = f" ({_ending(code)})" if code is not None else ""
        output = "\n".join(f"  | {line}" for line in lines) or "  | (nothing)"
        return StackError(f"{self.part.name} {what}{ending}. It said last:\n{output}\nAll of it: {self.log}")


def _ending(code: int | None) -> str:
    if code is None:
        return "still running"
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
