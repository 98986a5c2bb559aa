"""The supervisor's interface to a part, and functions shared by all parts."""

import json
import os
import signal
import socket
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from stack.layout import PROJECT

LOOPBACK = "127.0.0.1"
REGISTRATION = "registration"
"""Name of the step between clusters and gateways, for `after`."""


class PartNotReadyError(Exception):
    """The part does not answer correctly yet; the text has the reason."""


@dataclass(frozen=True)
class PartProgram:
    """A program to run."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to the inherited environment."""
    cwd: Path = PROJECT


class StackPart(Protocol):
    """One process (with its workers) of a stack."""

    @property
    def name(self) -> str: ...

    @property
    def port(self) -> int | None:
        """The port that clients connect to."""

    @property
    def after(self) -> tuple[str, ...]:
        """Names of parts, whole or by prefix, or REGISTRATION, that must be ready before this one starts."""

    @property
    def end_signal(self) -> signal.Signals:
        """The signal for a graceful end."""

    @property
    def ready_timeout_s(self) -> float: ...

    def prepare(self) -> tuple[PartProgram, ...]:
        """Write the configuration. Returns programs to run to their end before the first start. Called in a thread."""

    def command(self) -> PartProgram: ...

    def probe(self, started_at: float) -> None:
        """One short external check of the part, which was started at that time (seconds since 1970).

        Raises NotReadyError. Called in a thread.
        """


def matches(name: str, pattern: str) -> bool:
    """`cluster/east` matches `cluster/east` and `cluster/east/1`."""
    return name == pattern or name.startswith(pattern + "/")


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of a child, without variables of the calling shell."""
    env = {key: value for key, value in os.environ.items() if key not in ("PYTHONDONTWRITEBYTECODE", "CLASSPATH")}
    known = [path for path in env.get("PYTHONPATH", "").split(os.pathsep) if path]
    env["PYTHONPATH"] = os.pathsep.join([str(PROJECT), *known])  # parts also run from a checkout that is not installed
    env["PYTHONUNBUFFERED"] = "1"
    return {**env, **extra}


def listens(port: int) -> None:
    """Raises NotReadyError if the port does not accept connections."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=1.0).close()
    except OSError as error:
        raise PartNotReadyError(f"port {port}: {error}") from error


def get_json(url: str, token: str | None = None, body: Mapping[str, Any] | None = None, timeout_s: float = 3.0) -> Any:
    """The JSON answer of a URL (POST if there is a body); raises NotReadyError."""
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode())
    request.add_header("Content-Type", "application/json")
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # no proxy: it is this machine
    try:
        with opener.open(request, timeout=timeout_s) as answer:
            text = answer.read()
    except (urllib.error.URLError, OSError) as error:
        raise PartNotReadyError(f"{url}: {error}") from error
    try:
        return json.loads(text)
    except ValueError:
        return text.decode("utf-8", "replace")
