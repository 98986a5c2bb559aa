"""Copiers of a topic from one cluster to another, each in its own session, so that all its CPU time is counted."""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from bench.cost import cpu_s_with_ended
from bench.ground import ROOT, BenchError
from ha_core.store.security import OPEN
from stack.java import find_java
from stack.layout import PROJECT
from stack.mirror_part import MirrorPart
from stack.parts import environment
from stack.processes import die_with_parent, end, members
from stack.spark_java import spark_environment

_END_S = 20.0
COPY_LOG = "bench-copies"


@dataclass(frozen=True)
class Program:
    """A running copier, with all processes that it has started."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def check(self) -> None:
        """:raises BenchError: it has ended."""
        if self.process.poll() is not None:
            raise self.failed(f"it ended with {self.process.returncode}")

    def failed(self, reason: str) -> BenchError:
        """An error with the last output."""
        return BenchError(f"{self.name}: {reason}\n{self.log.read_text('utf-8', 'replace')[-2000:]}")

    def cpu_s(self) -> float:
        """User and system time so far, of driver, JVMs and workers together, ended ones included."""
        return cpu_s_with_ended(members(self.process.pid))


@contextmanager
def program(
    name: str, command: Sequence[str], extra: Mapping[str, str], log: Path, patience_s: float = 0.0
) -> Iterator[Program]:
    """Runs until the block ends.

    :param patience_s: time for a graceful end before it is killed.
    """
    with open(log, "wb") as file:
        process = subprocess.Popen(
            command,
            env=environment(extra),
            cwd=PROJECT,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
            preexec_fn=die_with_parent(),  # noqa: PLW1509 - two system calls, no lock
        )
        try:
            yield Program(name, process, log)
        finally:
            if patience_s:
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(patience_s)
            end(lambda: members(process.pid))
            process.wait()


@dataclass(frozen=True)
class CopyTask:
    """Arguments of a copy loop for its process.

    :ivar remote: name of the copy; "": the topic's own.
    """

    source: str
    target: str
    topic: str
    partitions: int
    link: str
    log: str = COPY_LOG
    remote: str = ""

    def text(self, **more: str) -> str:
        return json.dumps({**asdict(self), **more})


def copy_loop(task: CopyTask, folder: Path) -> AbstractContextManager[Program]:
    """Switchyard's copy loop alone, in one process, without Spark."""
    command = (sys.executable, "-m", "bench.load", task.text(do="copy"))
    return program("copy loop alone", command, {}, folder / f"loop-{task.link}.log")


def spark_job(zookeeper: str, folder: Path) -> AbstractContextManager[Program]:
    """The whole job on `local[*]`, which copies all linked mirrors."""
    part = MirrorPart(folder / "job", zookeeper, ROOT, spark_environment(find_java()), {}, OPEN, None, 0)
    part.prepare()
    command = part.command()
    return program("Spark job", command.argv, command.env, folder / "job.log", _END_S)
