"""The Spark job `flows` as a process: on this machine, or on the stack's master."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Self

from stack.java import SHORT_LIVED, find_java
from stack.layout import PROJECT
from stack.processes import command_line, descendants
from stack.spark_java import spark_environment
from tests.kit.flows import free_port, until

_JVM = " ".join(SHORT_LIVED)
_END_S = 60.0


class FlowsOnSpark:
    """`python -m spark_jobs flows WORDS`. Killed at the end of the block, with its Java process, if it still runs."""

    def __init__(self, log: Path, zookeeper: str, words: Iterable[str], master: str = "local[*]") -> None:
        self.log, self.driver_port = log, free_port()
        options = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "WARN",
            "spark.driver.port": str(self.driver_port),  # marks this job's executors
            "spark.driver.extraJavaOptions": _JVM,
            "spark.executor.extraJavaOptions": _JVM,
            "spark.executor.memory": "512m",
            "spark.executorEnv.PYTHONPATH": str(PROJECT),
            "spark.cores.max": "1",
        }
        settings = [text for key, value in options.items() for text in ("--conf", f"{key}={value}")]
        submit = ["--master", master, "--driver-memory", "512m", *settings, "pyspark-shell"]
        environment = {**os.environ, **spark_environment(find_java()), "PYSPARK_SUBMIT_ARGS": shlex.join(submit)}
        command = [sys.executable, "-m", "spark_jobs", "flows", *words, "--zookeeper", zookeeper]
        with log.open("wb") as out:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment, start_new_session=True
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.kill()

    def text(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def ended(self, patience_s: float = _END_S) -> int:
        """Its exit code, when it has ended by itself."""
        until(lambda: self.process.poll() is not None, patience_s, self.text)
        return int(self.process.returncode)

    def stop(self) -> int:
        """Its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.ended()

    def kill(self) -> None:
        """Ends driver and local executors at once."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(_END_S)

    def java(self) -> int:
        """Process of its driver in Java."""
        found = [pid for pid in descendants(self.process.pid) if "org.apache.spark.deploy.SparkSubmit" in _command(pid)]
        (pid,) = found
        return pid

    def executors(self) -> list[int]:
        """Processes of its executors on a master."""
        marks = ("CoarseGrainedExecutorBackend", f":{self.driver_port}")
        pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        return [pid for pid in pids if all(mark in _command(pid) for mark in marks)]

    def kill_executors(self) -> None:
        for pid in self.executors():
            os.kill(pid, signal.SIGKILL)


def _command(pid: int) -> str:
    return command_line(pid)
