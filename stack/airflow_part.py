"""Airflow as four parts: api-server, scheduler, dag-processor, triggerer.

`airflow standalone` is not used: ended by SIGTERM, it leaves its children running, and its parts have no names to kill.
"""

import contextlib
import json
import signal
import sqlite3
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from stack.kafka_part import SERVICE_MECHANISM
from stack.layout import PROJECT
from stack.parts import LOOPBACK, PartNotReadyError, PartProgram, get_json

Component = Literal["api-server", "scheduler", "dag-processor", "triggerer"]
USER = "admin"
POOL = ("switchyard", "2", "Scheduled tasks that query whole clusters")
"""Name, slots, description: the number of such tasks that load the clusters at once."""
_AUTH = "airflow.api_fastapi.auth.managers.simple"
_HEALTH_KEYS: dict[Component, str] = {
    "api-server": "metadatabase",
    "scheduler": "scheduler",
    "dag-processor": "dag_processor",
    "triggerer": "triggerer",
}


@dataclass(frozen=True)
class AirflowSettings:
    """Settings of all four parts."""

    home: Path
    port: int
    worker_log_port: int
    triggerer_log_port: int
    zookeeper: str
    """`host:port[,host:port…]`."""
    zookeeper_root: str
    service_user: str
    service_password: str | None
    """The account with which tasks log in to the clusters; None if the brokers require no login."""
    password: str
    secret: str
    spark_master: str | None
    """None: jobs run on this machine, without a cluster."""
    spark_environment: Mapping[str, str]
    """The environment of spark-submit."""
    security: Mapping[str, str] = field(default_factory=dict)
    """Variables with the paths of the login and TLS files."""
    tls: Mapping[str, str] | None = None
    """`tls` of the security profile with which tasks reach the clusters."""
    platform_file: Path | None = None
    """The platform's database, if the stack has one."""

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    @property
    def database(self) -> Path:
        return self.home / "airflow.db"

    def environment(self) -> dict[str, str]:
        """Airflow's configuration; tuned for quick tasks on a small machine (docs/benchmarks.md)."""
        settings = {
            "AIRFLOW_HOME": str(self.home),
            "AIRFLOW__CORE__DAGS_FOLDER": str(PROJECT / "dags"),
            "AIRFLOW__CORE__PLUGINS_FOLDER": str(PROJECT / "plugins"),
            "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
            "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
            "AIRFLOW__CORE__PARALLELISM": "8",
            "AIRFLOW__CORE__AUTH_MANAGER": f"{_AUTH}.simple_auth_manager.SimpleAuthManager",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
            "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(self.home / "passwords.json"),
            "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{self.url}/execution/",
            "AIRFLOW__CORE__FERNET_KEY": "",
            # A scheduler ends if the database stays locked for longer, and is not restarted: runs would stay queued.
            "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"sqlite:///{self.database}?timeout=60",
            "AIRFLOW__API__BASE_URL": self.url,
            "AIRFLOW__API__HOST": LOOPBACK,
            "AIRFLOW__API__PORT": str(self.port),
            "AIRFLOW__API__WORKERS": "1",
            "AIRFLOW__API__SECRET_KEY": self.secret,
            "AIRFLOW__API_AUTH__JWT_SECRET": self.secret,
            "AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.25",
            "AIRFLOW__SCHEDULER__ORPHANED_TASKS_CHECK_INTERVAL": "10",
            "AIRFLOW__SCHEDULER__SCHEDULER_HEALTH_CHECK_THRESHOLD": "15",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT": "30",
            "AIRFLOW__SCHEDULER__TASK_INSTANCE_HEARTBEAT_TIMEOUT_DETECTION_INTERVAL": "5",
            "AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK": "False",
            "AIRFLOW__WORKERS__MIN_HEARTBEAT_INTERVAL": "1",
            "AIRFLOW__DAG_PROCESSOR__REFRESH_INTERVAL": "5",
            "AIRFLOW__DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": "60",
            "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(self.worker_log_port),
            "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(self.triggerer_log_port),
            "AIRFLOW_CONN_SWITCHYARD_ZOOKEEPER": json.dumps(
                {
                    "conn_type": "switchyard_zookeeper",
                    "host": self.zookeeper,
                    "extra": {"root": self.zookeeper_root},
                }
            ),
            "AIRFLOW_CONN_SPARK_SWITCHYARD": json.dumps(self._spark_connection()),
            "SWITCHYARD_HISTORY": str(self.home / "history"),
            "SWITCHYARD_POOL": POOL[0],
            "NO_PROXY": f"{LOOPBACK},localhost",
            "no_proxy": f"{LOOPBACK},localhost",
        }
        if self.service_password is not None:
            settings["AIRFLOW_CONN_SWITCHYARD_KAFKA_SASL"] = json.dumps(
                {
                    "conn_type": "switchyard_kafka",
                    "login": self.service_user,
                    "password": self.service_password,
                    "extra": {"mechanism": SERVICE_MECHANISM} | ({} if self.tls is None else {"tls": dict(self.tls)}),
                }
            )
        if self.platform_file is not None:
            settings["AIRFLOW_CONN_SWITCHYARD_PLATFORM"] = json.dumps(
                {"conn_type": "switchyard_platform", "extra": {"sqlite_file": str(self.platform_file)}}
            )
        return {**self.spark_environment, **self.security, **settings}

    def _spark_connection(self) -> dict[str, Any]:
        if self.spark_master is None:
            return {"conn_type": "spark", "host": "local[*]"}
        host, _, port = self.spark_master.rpartition(":")
        return {"conn_type": "spark", "host": host, "port": int(port)}

    def health(self) -> dict[str, Any]:
        answer = get_json(f"{self.url}/api/v2/monitor/health")
        if not isinstance(answer, dict):
            raise PartNotReadyError(f"{self.url} answers no health report")
        return answer

    def token(self) -> str:
        answer = get_json(f"{self.url}/auth/token", body={"username": USER, "password": self.password})
        return str(answer["access_token"])


@dataclass(frozen=True)
class AirflowPart:
    """One component of Airflow."""

    component: Component
    settings: AirflowSettings
    end_signal: signal.Signals = signal.SIGTERM
    ready_timeout_s: float = 180.0

    @property
    def name(self) -> str:
        return f"airflow/{self.component}"

    @property
    def port(self) -> int | None:
        return self.settings.port if self.component == "api-server" else None

    @property
    def after(self) -> tuple[str, ...]:
        # A task that starts before the api-server answers ends as failed.
        return () if self.component == "api-server" else ("airflow/api-server",)

    def prepare(self) -> tuple[PartProgram, ...]:
        if self.component != "api-server":
            return ()
        settings = self.settings
        settings.home.mkdir(parents=True, exist_ok=True)
        passwords = settings.home / "passwords.json"
        passwords.touch(mode=0o600)
        passwords.write_text(json.dumps({USER: settings.password}), "utf-8")
        with contextlib.closing(sqlite3.connect(settings.database)) as database:
            database.execute("pragma journal_mode=wal")  # stored in the file: readers do not wait for the writer
        return (self._airflow("db", "migrate"), self._airflow("pools", "set", *POOL))

    def command(self) -> PartProgram:
        return self._airflow(self.component)

    def _airflow(self, *arguments: str) -> PartProgram:
        return PartProgram(
            (sys.executable, "-m", "airflow", *arguments), self.settings.environment(), self.settings.home
        )

    def probe(self, started_at: float) -> None:
        key = _HEALTH_KEYS[self.component]
        report = self.settings.health().get(key) or {}
        if report.get("status") != "healthy":
            raise PartNotReadyError(f"{self.name} is {report.get('status')}")
        heartbeat = report.get(f"latest_{key}_heartbeat")
        if heartbeat is not None and datetime.fromisoformat(heartbeat).timestamp() < started_at:
            raise PartNotReadyError(f"{self.name} has not reported since it was started")  # a predecessor's
        if self.component == "dag-processor":
            self._prove_dags_listed()

    def _prove_dags_listed(self) -> None:
        expected = {file.name for file in (PROJECT / "dags").glob("*.py") if _may_hold_a_dag(file)}
        if not expected:
            return
        token = self.settings.token()
        dags = get_json(f"{self.settings.url}/api/v2/dags?limit=100", token)["dags"]
        errors = get_json(f"{self.settings.url}/api/v2/importErrors?limit=100", token)["import_errors"]
        seen = {Path(str(one.get("relative_fileloc") or one.get("filename") or "")).name for one in [*dags, *errors]}
        if missing := sorted(expected - seen):
            raise PartNotReadyError(f"no DAG of {missing[0]} is listed yet")


def _may_hold_a_dag(file: Path) -> bool:
    text = file.read_bytes().lower()
    return b"airflow" in text and b"dag" in text and not file.name.startswith("_")


def airflow_parts(settings: AirflowSettings) -> list[AirflowPart]:
    components: tuple[Component, ...] = ("api-server", "scheduler", "dag-processor", "triggerer")
    return [AirflowPart(component, settings) for component in components]
