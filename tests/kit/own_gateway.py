"""A test's own gateway process in front of a stack's clusters, with the test's configuration."""

import json
import os
import random
import re
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from stack.harness import Stack
from tests.kit.running import ZOOKEEPER_ROOT

START_S = 60.0
_NODE_PORTS = 50
_RANGES = range(4_000, 12_000, _NODE_PORTS)
"""Below the ports of stacks, and below the ephemeral range."""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def free_range() -> int:
    """The first of as many consecutive unused ports."""
    for first in random.sample(_RANGES, len(_RANGES)):
        try:
            for port in range(first, first + _NODE_PORTS):
                socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return first
    raise AssertionError("no range of ports is free")


class OwnGateway:
    """
    :ivar port: port of its bootstrap listener.
    :ivar log: path of its log.
    """

    def __init__(self, stack: Stack, folder: Path, name: str = "gw-own", **sections: Any) -> None:
        """:param sections: sections of the configuration that replace the defaults."""
        folder.mkdir(parents=True, exist_ok=True)
        self.name, self.port, self.http_port = name, free_port(), free_port()
        self.file, self.log = folder / f"{name}.yaml", folder / f"{name}.log"
        document = {
            "id": name,
            "zookeeper": {"hosts": stack.zookeeper, "root": ZOOKEEPER_ROOT, "session_timeout_ms": 6000},
            "listen": {"port": self.port},
            "nodes": {"first_port": free_range(), "count": _NODE_PORTS // sections.get("workers", 1)},
            "http": {"port": self.http_port},
            "authentication": {"anonymous": True},
            "security_profiles": {"none": {}},
            "record_facts_s": 0,
        }
        self.file.write_text(yaml.safe_dump(document | sections))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> Self:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "gateway", "--config", str(self.file)], stdout=log, stderr=log
            )
        deadline = time.monotonic() + START_S
        while True:
            try:
                self.ask("/readyz")
            except OSError:
                ended = self._process.poll()
                assert ended is None, f"the gateway ended with {ended}: {self.said()[-2000:]}"
                assert time.monotonic() < deadline, self.said()[-2000:]
                time.sleep(0.1)
            else:
                return self

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None

    def kill(self) -> None:
        """SIGKILL, without a graceful end."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    def ask(self, path: str) -> bytes:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}{path}", timeout=10) as answer:
            found: bytes = answer.read()
        return found

    def document(self, path: str) -> Any:
        return json.loads(self.ask(path))

    def metric(self, name: str, **labels: str) -> float:
        """Sum of all samples with these labels; 0 if there are none."""
        total = 0.0
        for line in self.ask("/metrics").decode().splitlines():
            found = re.fullmatch(r"switchyard_gateway_(\w+)(?:\{(.*)\})? (\S+)", line)
            if found is None or found[1] not in (name, f"{name}_total"):
                continue
            own = dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', found[2] or ""))
            if labels.items() <= own.items():
                total += float(found[3])
        return total

    def said(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def memory_bytes(self) -> int:
        """Current resident memory."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
