"""The Spark job that copies mirrors: on this machine (`local[*]`), or on the stack's master."""

import shlex
import signal
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from ha_core.store.security import StoreSecurity
from stack.java import SHORT_LIVED
from stack.layout import PROJECT
from stack.parts import REGISTRATION, PartNotReadyError, PartProgram
from stack.processes import command_line, descendants, members

EXECUTOR = "mirror/executor"
_JVM = " ".join(SHORT_LIVED)
_LOOK_S = 0.5


@dataclass(frozen=True)
class MirrorPart:
    """`python -m spark_jobs mirror`, with its JVM and, in local mode, its Python workers."""

    home: Path
    zookeeper: str
    zookeeper_root: str
    environment: Mapping[str, str] = field(repr=False)
    security: Mapping[str, str]
    """Variables with the paths of the login and TLS files."""
    zookeeper_security: StoreSecurity
    master: str | None
    """None: `local[*]`."""
    driver_port: int
    """Marks an executor on the stack's worker as this job's."""
    metrics_port: int = 0
    """0: it serves no metrics."""
    name: str = "mirror"
    port: None = None
    after: tuple[str, ...] = ("zookeeper", "cluster", REGISTRATION, "spark/master", "spark/worker")
    end_signal: signal.Signals = signal.SIGTERM
    ready_timeout_s: float = 120.0

    def prepare(self) -> tuple[PartProgram, ...]:
        self.home.mkdir(parents=True, exist_ok=True)
        return ()

    def command(self) -> PartProgram:
        options = {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "WARN",
            "spark.driver.port": str(self.driver_port),
            "spark.driver.extraJavaOptions": _JVM,
            "spark.executor.extraJavaOptions": _JVM,
            "spark.executor.memory": "512m",
            "spark.executorEnv.PYTHONPATH": str(PROJECT),  # this source tree, not an installed package
            **{f"spark.executorEnv.{name}": value for name, value in self.security.items()},
            "spark.cores.max": "1",  # of the stack's worker; the other core is for submitted jobs
        }
        settings = [text for key, value in options.items() for text in ("--conf", f"{key}={value}")]
        submit = (
            "--master",
            self.master or "local[*]",
            "--name",
            "switchyard mirror",
            "--driver-memory",
            "512m",
            *settings,
            "pyspark-shell",
        )
        tasks = () if self.master is None else ("--tasks", "1")
        metrics = ("--metrics-port", str(self.metrics_port)) if self.metrics_port else ()
        where = ("--zookeeper", self.zookeeper, "--root", self.zookeeper_root)
        return PartProgram(
            (sys.executable, "-m", "spark_jobs", "mirror", *where, *tasks, *metrics),
            {**self.environment, **self.security, "PYSPARK_SUBMIT_ARGS": shlex.join(submit)},
        )

    def probe(self, started_at: float) -> None:
        """It has the lead: its predecessor's lead ends with its session."""
        from ha_core.model import MirrorJob
        from ha_core.store.errors import StoreError
        from ha_core.store.zookeeper import connect

        time.sleep(_LOOK_S)  # each check opens a session
        try:
            store = connect(self.zookeeper, self.zookeeper_root, create=False, security=self.zookeeper_security)
            try:
                found = store.read(MirrorJob, "mirror")
            finally:
                store.close()
        except StoreError as error:
            raise PartNotReadyError(str(error)) from error
        if found is None or datetime.fromisoformat(found[0].since).timestamp() < int(started_at):
            raise PartNotReadyError("it does not lead yet")

    def executors(self, sessions: Mapping[str, int]) -> list[int]:
        """The processes that copy: the Python workers here, or the executor on the stack's worker with its workers.

        :param sessions: session ids of parts by name.
        """
        local = self.master is None
        session = sessions.get(self.name if local else "spark/worker")
        if session is None:
            return []
        marks = ("pyspark.daemon",) if local else ("CoarseGrainedExecutorBackend", f":{self.driver_port}")
        found = {pid for pid in members(session) if all(mark in command_line(pid) for mark in marks)}
        return sorted(found.union(*(descendants(pid) for pid in found)))
