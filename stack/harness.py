"""A stack for tests and benchmarks, as a context manager over the command's code."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from stack import control
from stack.errors import StackError
from stack.launch import down, start
from stack.layout import Layout
from stack.parts import matches
from stack.specs import StackSpec, cluster_spec


def _silent(_text: str) -> None:
    return None


class Stack:
    """A running stack; its attributes are those of the document of `switchyard stack up --json`.

    Parts are named `zookeeper`, `cluster/east`, `cluster/east/1`, `gateway/1`, `airflow/scheduler`, `spark/worker` …; a
    prefix of components names all parts below it. Every method raises StackError.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.dir = Path(document["dir"])
        self._take(document)

    def _take(self, document: Mapping[str, Any]) -> None:
        self.document: dict[str, Any] = dict(document)
        self.zookeeper: str = document["zookeeper"]
        self.clusters: dict[str, dict[str, Any]] = document["clusters"]
        self.gateways: list[dict[str, Any]] = document["gateways"]
        self.bootstrap: str = document["bootstrap"]
        self.security: str = document["security"]
        self.users: dict[str, str] = document["users"]
        self.service: dict[str, str] | None = document["service"]
        self.tls: dict[str, Any] | None = document["tls"]
        self.zookeeper_security_file: str | None = document["zookeeper_security_file"]
        self.platform: dict[str, str] | None = document["platform"]
        self.airflow: dict[str, str] | None = document["airflow"]
        self.spark: dict[str, str | None] | None = document["spark"]
        self.mirror: dict[str, str] | None = document["mirror"]

    @classmethod
    def up(
        cls,
        clusters: Mapping[str, str],
        *,
        gateways: int = 2,
        airflow: bool = False,
        security: str = "none",
        spark: bool = False,
        spark_connect: bool = False,
        mirror: bool = False,
        record_facts_s: int = 0,
        full_speed: bool = False,
        platform: bool = False,
        workers: int = 1,
        keep_in_zones: bool = False,
        zookeepers: int = 1,
        directory: Path | None = None,
        say: Callable[[str], None] = _silent,
    ) -> Self:
        """Start a stack that ends with this process at the latest; returns when it is ready.

        :param full_speed: tuned for measurements; without it brokers start sooner.
        """
        specs = tuple(cluster_spec(name, text) for name, text in clusters.items())
        spec = StackSpec(
            *(specs, gateways, airflow, security, spark, spark_connect, mirror, record_facts_s, platform, full_speed),
            workers=workers,
            keep_in_zones=keep_in_zones,
            zookeepers=zookeepers,
        )
        started = start(spec, directory, os.getpid(), say)
        started.detach()
        return cls(started.document)

    @classmethod
    def attach(cls, directory: Path) -> Self:
        """The stack that runs in a folder."""
        try:
            return cls(json.loads(Layout(directory).document.read_text("utf-8")))
        except (OSError, ValueError) as error:
            raise StackError(f"{directory} holds no stack that is ready: {error}") from error

    def down(self, keep: bool = False) -> None:
        """End it; a temporary folder stays only with `keep`."""
        down(self.dir, keep)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down(keep=kind is not None)  # keep the logs of a failure

    def kill(self, part: str) -> None:
        """SIGKILL, workers too; down until `restart`."""
        self._ask("kill", part)

    def stop(self, part: str) -> None:
        """Graceful end (SIGTERM); down until `restart`."""
        self._ask("stop", part)

    def pause(self, part: str) -> None:
        """SIGSTOP, workers too."""
        self._ask("pause", part)

    def resume(self, part: str) -> None:
        self._ask("resume", part)

    def restart(self, part: str) -> None:
        """End it if it runs, start it with its configuration and data, return when it is ready."""
        self._ask("restart", part)

    def wait_ready(self, part: str) -> None:
        self._ask("wait_ready", part)

    def status(self) -> list[dict[str, Any]]:
        """One entry per part: part, state, pid, port, uptime_s, exit_code, log."""
        parts: list[dict[str, Any]] = control.ask(self.dir, "status")["parts"]
        return parts

    def logs(self, part: str) -> str:
        """The whole log of a part, or of several parts, one after the other."""
        chosen = dict.fromkeys(Path(entry["log"]) for entry in self.status() if matches(entry["part"], part))
        if not chosen:
            raise StackError(f"this stack has no part {part!r}")
        return "".join(path.read_text("utf-8", "replace") for path in chosen if path.exists())

    def _ask(self, do: str, part: str) -> None:
        control.ask(self.dir, do, part=part)
        self._take(json.loads(Layout(self.dir).document.read_text("utf-8")))
