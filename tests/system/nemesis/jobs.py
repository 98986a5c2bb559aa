"""Jobs that copy mirrors, restarted whenever they end, like a container; and their executors."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterable
from pathlib import Path

from ha_core.store.security import OPEN
from stack.harness import Stack
from stack.java import find_java
from stack.mirror_part import MirrorPart
from stack.parts import LOOPBACK, environment
from stack.processes import die_with_parent, members, send, stopped
from stack.spark_java import spark_environment
from tests.kit.running import ZOOKEEPER_ROOT

_AGAIN_S = 1.0
_THREADS_AT_WORK = 3
"""Threads of a Python worker that copies; an idle one has fewer."""


class Job:
    """`python -m spark_jobs mirror`, by itself or on the stack's master. One of several leads, the others wait."""

    def __init__(self, folder: Path, stack: Stack, name: str) -> None:
        master = None if stack.spark is None else stack.spark["master"]
        folder.mkdir(parents=True, exist_ok=True)
        self.log = folder / f"{name}.log"
        self._stack = stack
        self._part = MirrorPart(
            home=folder / name,
            zookeeper=stack.zookeeper,
            zookeeper_root=ZOOKEEPER_ROOT,
            environment=spark_environment(find_java()),
            security={},
            zookeeper_security=OPEN,
            master=master,
            driver_port=_free_port(),
        )
        self._part.prepare()
        self._process: subprocess.Popen[bytes] | None = None
        self._wanted, self._ending = threading.Event(), threading.Event()
        self._wanted.set()
        self._keeper = threading.Thread(target=self._keep)
        self._keeper.start()

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._keeper.join()
        self.kill()

    def _keep(self) -> None:
        """Runs in one thread: processes end with the thread that started them."""
        while not self._ending.wait(_AGAIN_S):
            if self._wanted.is_set() and (self._process is None or self._process.poll() is not None):
                command = self._part.command()
                with self.log.open("ab") as log:
                    self._process = subprocess.Popen(
                        command.argv,
                        env=environment(command.env),
                        cwd=command.cwd,
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,
                        preexec_fn=die_with_parent(),  # noqa: PLW1509 - two system calls, no lock
                    )

    def kill(self) -> None:
        self._wanted.clear()
        while found := self._members():
            send(found, signal.SIGKILL)
            time.sleep(0.02)
        if self._process is not None:
            self._process.wait()

    def restart(self) -> None:
        self._wanted.set()

    def pause(self) -> None:
        while not all(map(stopped, found := self._members())):
            send(found, signal.SIGSTOP)  # again for what was forked meanwhile
            time.sleep(0.01)

    def resume(self) -> None:
        send(self._members(), signal.SIGCONT)

    def executors(self) -> list[int]:
        """The processes that copy."""
        sessions = {} if self._process is None else {self._part.name: self._process.pid}
        sessions |= {one["part"]: one["pid"] for one in self._stack.status() if one["part"] == "spark/worker"}
        return self._part.executors(sessions)

    def _members(self) -> list[int]:
        return [] if self._process is None else members(self._process.pid)


class Executors:
    """The executors of all jobs; a job that loses one gets another. Without executors nothing is hit."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self._jobs = list(jobs)
        self._hit: list[int] = []

    def found(self) -> list[int]:
        return [pid for job in self._jobs for pid in job.executors()]

    def kill(self) -> None:
        send(self.found(), signal.SIGKILL)

    def restart(self) -> None:
        pass

    def pause(self) -> None:
        self._hit = self.found()
        send(self._hit, signal.SIGSTOP)

    def resume(self) -> None:
        send(self._hit, signal.SIGCONT)


class OneExecutor(Executors):
    """One of the Python processes that copy: its partitions move to the others."""

    def found(self) -> list[int]:
        at_work = [pid for pid in super().found() if _threads(pid) > _THREADS_AT_WORK and _is_worker(pid)]
        return [random.choice(at_work)] if at_work else []


def _threads(pid: int) -> int:
    try:
        return len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return 0


def _is_worker(pid: int) -> bool:
    try:
        return b"pyspark.daemon" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _free_port() -> int:
    with socket.socket() as found:
        found.bind((LOOPBACK, 0))
        port: int = found.getsockname()[1]
        return port
