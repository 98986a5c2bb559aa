"""A Spark standalone master, one worker with one core (two with the mirror), and optionally a Spark Connect server."""

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from stack.java import SHORT_LIVED
from stack.parts import LOOPBACK, PartNotReadyError, PartProgram, get_json, listens
from stack.zookeeper_part import LOG4J2

DAEMON_MEMORY_MB = 256
WORKER_MEMORY_MB = 1024
"""Memory of all executors together, per core."""


@dataclass(frozen=True)
class SparkSettings:
    """Settings shared by the parts."""

    environment: Mapping[str, str]
    """Java, Python and Spark's home, from `stack.spark_java`."""
    master_port: int
    master_ui_port: int
    worker_port: int
    worker_ui_port: int
    connect_port: int | None
    """None: no Spark Connect server."""
    cores: int = 1
    """Cores of the worker."""

    @property
    def master(self) -> str:
        return f"spark://{LOOPBACK}:{self.master_port}"

    @property
    def ui(self) -> str:
        return f"http://{LOOPBACK}:{self.master_ui_port}"

    @property
    def connect(self) -> str | None:
        return None if self.connect_port is None else f"sc://{LOOPBACK}:{self.connect_port}"

    def document(self) -> dict[str, str | None]:
        return {"master": self.master, "ui": self.ui, "connect": self.connect}

    def run(self, home: Path, memory_mb: int, program: str, *arguments: str) -> PartProgram:
        """One of Spark's own programs. Its servers, Connect too, take their memory from the environment only."""
        binary = Path(self.environment["SPARK_HOME"]) / "bin" / program
        quick = f"{' '.join(SHORT_LIVED)} -Dlog4j2.configurationFile={home / 'log4j2.properties'}"
        memory = {"SPARK_DAEMON_MEMORY": f"{memory_mb}m", "SPARK_DAEMON_JAVA_OPTS": quick}
        return PartProgram(("bash", str(binary), *arguments), {**self.environment, **memory}, home)


@dataclass(frozen=True)
class SparkPart:
    """Base of the three parts."""

    home: Path
    settings: SparkSettings
    end_signal: signal.Signals = signal.SIGTERM
    ready_timeout_s: float = 120.0

    def prepare(self) -> tuple[PartProgram, ...]:
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "log4j2.properties").write_text(LOG4J2, "utf-8")
        return ()


def _address(port: int, ui_port: int) -> tuple[str, ...]:
    return ("--host", LOOPBACK, "--port", str(port), "--webui-port", str(ui_port))


@dataclass(frozen=True)
class MasterPart(SparkPart):
    name: str = "spark/master"
    after: tuple[str, ...] = ()

    @property
    def port(self) -> int:
        return self.settings.master_port

    def command(self) -> PartProgram:
        settings = self.settings
        address = _address(settings.master_port, settings.master_ui_port)
        return settings.run(
            self.home, DAEMON_MEMORY_MB, "spark-class", "org.apache.spark.deploy.master.Master", *address
        )

    def probe(self, started_at: float) -> None:
        report = get_json(f"{self.settings.ui}/json/")
        if not isinstance(report, dict) or report.get("status") != "ALIVE":
            raise PartNotReadyError(f"{self.name} is not alive yet")


@dataclass(frozen=True)
class WorkerPart(SparkPart):
    name: str = "spark/worker"
    after: tuple[str, ...] = ("spark/master",)

    @property
    def port(self) -> int:
        return self.settings.worker_port

    def command(self) -> PartProgram:
        settings = self.settings
        address = _address(settings.worker_port, settings.worker_ui_port)
        memory = f"{WORKER_MEMORY_MB * settings.cores}m"
        size = ("--cores", str(settings.cores), "--memory", memory, "--work-dir", str(self.home / "work"))
        program = "org.apache.spark.deploy.worker.Worker"
        return settings.run(self.home, DAEMON_MEMORY_MB, "spark-class", program, *address, *size, settings.master)

    def probe(self, started_at: float) -> None:
        """The master knows this process: its predecessor had another id."""
        mine = get_json(f"http://{LOOPBACK}:{self.settings.worker_ui_port}/json/").get("id")
        workers = get_json(f"{self.settings.ui}/json/").get("workers", ())
        if not any(worker["id"] == mine and worker["state"] == "ALIVE" for worker in workers):
            raise PartNotReadyError(f"{self.name} is not registered yet")


@dataclass(frozen=True)
class ConnectPart(SparkPart):
    """A long-lived session in local mode, so that the worker's core stays free for submitted jobs."""

    name: str = "spark/connect"
    after: tuple[str, ...] = ()

    @property
    def port(self) -> int | None:
        return self.settings.connect_port

    def command(self) -> PartProgram:
        options = {
            "spark.connect.grpc.binding.address": LOOPBACK,
            "spark.connect.grpc.binding.port": str(self.settings.connect_port),
            "spark.ui.enabled": "false",
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={self.home / 'log4j2.properties'}",
        }
        settings = [text for key, value in options.items() for text in ("--conf", f"{key}={value}")]
        server = ("--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal")
        where = ("--master", "local[2]", "--name", "spark-connect")
        return self.settings.run(self.home, WORKER_MEMORY_MB, "spark-submit", *where, *settings, *server)

    def probe(self, started_at: float) -> None:
        assert self.settings.connect_port is not None
        listens(self.settings.connect_port)
