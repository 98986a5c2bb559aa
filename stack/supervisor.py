"""`python -m stack.supervisor DIR`: the process that owns a stack's parts.

It reads DIR/request.json, reports progress as JSON lines on stdout, and reads stdin from its starter: the end of that
stream ends the stack, unless the starter has written `detach`.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from stack import registry
from stack.blueprint import Blueprint, draw
from stack.control import MAX_LINE_BYTES, socket_path
from stack.errors import StackError
from stack.found import FoundPart
from stack.guard import EXIT_FAILED, EXIT_KEEP, EXIT_REMOVE, run_guarded
from stack.layout import Layout
from stack.mirror_part import EXECUTOR
from stack.parts import REGISTRATION, matches
from stack.processes import ProcessIdentity, identity
from stack.running import RunningPart

_END_GRACE_S = 6.0


class Supervisor:
    """Starts the parts in order, answers commands, and ends everything."""

    def __init__(self, layout: Layout, request: dict[str, Any]) -> None:
        self.layout = layout
        self.request = request
        self.blueprint: Blueprint | None = None
        self.parts: dict[str, RunningPart] = {}
        self.found: dict[str, FoundPart] = {}
        self.done: dict[str, asyncio.Event] = {}
        self.ending = asyncio.Event()
        self.keep = bool(request["keep"])
        self.detached = False

    def say(self, text: str) -> None:
        self._report({"event": "progress", "text": text})

    def _report(self, document: dict[str, Any]) -> None:
        with contextlib.suppress(OSError):  # the starter may be gone; then stdin has ended, and the stack ends
            sys.stdout.write(json.dumps(document) + "\n")
            sys.stdout.flush()

    async def run(self) -> int:
        """Returns the exit code for the guard."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            loop.add_signal_handler(number, self.ending.set)
        self._watch_starter(loop)
        self._watch_owner(loop)
        with socket_path(self.layout.root) as path:
            server = await asyncio.start_unix_server(self._serve, path, limit=MAX_LINE_BYTES)
        async with server:
            start = asyncio.create_task(self._start())
            end = asyncio.create_task(self.ending.wait())
            await asyncio.wait({start, end}, return_when=asyncio.FIRST_COMPLETED)
            failed = start.done() and start.exception() is not None
            if start.done() and not failed:
                await self.ending.wait()
            start.cancel()
            await self._end_all()
            if failed:
                self._report({"event": "failed", "error": _explain(start.exception())})
                return EXIT_FAILED
            self._report({"event": "ended"})
        return EXIT_KEEP if self.keep else EXIT_REMOVE

    def _watch_starter(self, loop: asyncio.AbstractEventLoop) -> None:
        def read() -> None:
            text = os.read(0, 4096)
            if text.startswith(b"detach"):
                self.detached = True
                log = os.open(self.layout.supervisor_log, os.O_WRONLY | os.O_APPEND)
                os.dup2(log, 1)
                os.close(log)
            if not text:
                loop.remove_reader(0)
                if not self.detached:
                    self.ending.set()

        loop.add_reader(0, read)

    def _watch_owner(self, loop: asyncio.AbstractEventLoop) -> None:
        owner = self.request["owner"]
        if owner is None:
            return
        expected = ProcessIdentity(owner["pid"], owner["start_ticks"])
        try:
            fd = os.pidfd_open(expected.pid)
        except ProcessLookupError:
            self.ending.set()
            return
        if not expected.alive():
            self.ending.set()
            return

        def gone() -> None:
            loop.remove_reader(fd)
            self.ending.set()

        loop.add_reader(fd, gone)

    async def _start(self) -> None:
        self.blueprint = await asyncio.to_thread(draw, self.layout, self.request, self.say)
        for part in self.blueprint.parts:
            running = RunningPart(part, self.layout.log(part.name), self._record)
            self.parts[part.name] = running
        mirror = self.blueprint.mirror
        if mirror is not None:
            log = self.layout.log("mirror" if mirror.master is None else "spark/worker")
            self.found[EXECUTOR] = FoundPart(EXECUTOR, lambda: mirror.executors(self._sessions()), log)
        self.done = {name: asyncio.Event() for name in (*self.parts, REGISTRATION)}
        async with asyncio.TaskGroup() as group:
            for running in self.parts.values():
                group.create_task(self._start_part(running))
            group.create_task(self._register())
        self._write_document()
        self._report({"event": "ready", "stack": self.document()})

    async def _start_part(self, running: RunningPart) -> None:
        await self._wait_for(running.part.after)
        await running.prepare()
        await running.start()
        await running.wait_ready()
        self.done[running.part.name].set()
        self.say(f"{running.part.name} is ready after {running.start_s:.1f} s")

    async def _register(self) -> None:
        assert self.blueprint is not None
        await self._wait_for(("zookeeper", "cluster"))
        await asyncio.to_thread(self.blueprint.register)
        self.done[REGISTRATION].set()

    async def _wait_for(self, patterns: tuple[str, ...]) -> None:
        for name, event in self.done.items():
            if any(matches(name, pattern) for pattern in patterns):
                await event.wait()

    def _sessions(self) -> dict[str, int]:
        return {name: part.identity.pid for name, part in self.parts.items() if part.identity is not None}

    def document(self) -> dict[str, Any]:
        assert self.blueprint is not None
        pids = {name: running.pid for name, running in self.parts.items()}
        return self.blueprint.document(pids)

    def _write_document(self) -> None:
        _write_private(self.layout.document, self.document())

    def _record(self) -> None:
        """Record the processes for `down`, in case no supervisor answers."""
        sessions = [running.identity for running in self.parts.values() if running.identity is not None]
        _write_private(
            self.layout.processes,
            [[process_identity.pid, process_identity.start_ticks] for process_identity in sessions],
        )
        if self.layout.document.exists():
            self._write_document()

    async def _end_all(self) -> None:
        """End clients of ZooKeeper and Kafka first. Servers whose data is deleted need no graceful end."""
        servers = [part for name, part in self.parts.items() if matches(name, "zookeeper") or matches(name, "cluster")]
        others = [part for part in self.parts.values() if part not in servers]
        await asyncio.gather(*(running.end(_END_GRACE_S) for running in others))
        await asyncio.gather(*(running.end(_END_GRACE_S) if self.keep else running.kill() for running in servers))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            command = json.loads(await reader.readline())
            answer = await self._obey(command)
        except StackError as error:
            answer = {"error": str(error)}
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            answer = {"error": f"not a command: {error!r}"}
        with contextlib.suppress(ConnectionError):
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
            writer.close()

    async def _obey(self, command: dict[str, Any]) -> dict[str, Any]:
        do = command["do"]
        if do == "status":
            everything: list[RunningPart | FoundPart] = [*self.parts.values(), *self.found.values()]
            return {"parts": [part.describe() for part in everything]}
        if do == "down":
            self.keep = self.keep or bool(command.get("keep"))
            self.ending.set()
            return {}
        chosen = self._choose(str(command["part"]))
        if do == "kill":
            await asyncio.gather(*(running.kill() for running in chosen))
        elif do == "stop":
            await asyncio.gather(*(running.stop() for running in chosen))
        elif do == "pause":
            await asyncio.gather(*(running.pause() for running in chosen))
        elif do == "resume":
            for running in chosen:
                running.resume()
        elif do == "restart":
            await asyncio.gather(*(running.restart() for running in chosen))
        elif do == "wait_ready":
            await asyncio.gather(*(running.wait_ready() for running in chosen))
        else:
            raise StackError(f"unknown command {do!r}")
        return {"parts": [running.describe() for running in chosen]}

    def _choose(self, pattern: str) -> Sequence[RunningPart | FoundPart]:
        """Parts by name or prefix. Processes inside of a part match by full name only: its faults hit them anyway."""
        if pattern in self.found:
            return [self.found[pattern]]
        chosen = [running for name, running in self.parts.items() if matches(name, pattern)]
        if not chosen:
            known = ", ".join([*self.parts, *self.found]) or "none yet"
            raise StackError(f"this stack has no part {pattern!r}; it has {known}")
        return chosen


def _explain(error: BaseException | None) -> str:
    """The first error that an operator can act on, otherwise all of them."""
    if isinstance(error, StackError):
        return str(error)
    if isinstance(error, BaseExceptionGroup) and (known := error.subgroup(StackError)) is not None:
        first: BaseException = known
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        return str(first)
    return "".join(traceback.format_exception(error))


def _write_private(path: Path, document: Any) -> None:
    unfinished = path.with_suffix(".unfinished")
    with os.fdopen(os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.write("\n")
    unfinished.replace(path)


def main() -> None:
    layout = Layout(Path(sys.argv[1]).resolve())
    request = json.loads(layout.request.read_text("utf-8"))

    async def supervise() -> NoReturn:
        code = await Supervisor(layout, request).run()
        sys.stderr.flush()
        os._exit(code)  # asyncio would wait for probing and downloading threads; the guard ends their processes

    me = identity(os.getpid())
    assert me is not None
    registry.enter(layout.root, me)
    code = run_guarded(lambda: asyncio.run(supervise()), layout.root)
    registry.leave(layout.root)
    os._exit(code)


if __name__ == "__main__":
    main()
