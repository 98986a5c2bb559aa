"""A ZooKeeper server, from pyspark's jars, that may be killed and started again."""

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import stack.ports
from stack.java import SHORT_LIVED, find_java
from stack.tls import StackTls
from stack.zookeeper_part import class_path


class ZooKeeperProcess:
    def __init__(self, folder: Path, durable: bool = False) -> None:
        """:param durable: write to disk before answering, as in earnest."""
        self._force_sync = "yes" if durable else "no"
        self.folder = folder
        self._ports = stack.ports.claim()
        self.port = self._ports.next_port()
        self.secure_port = 0
        self.process: subprocess.Popen[bytes] | None = None
        (folder / "zoo.cfg").write_text(
            f"dataDir={folder}/data\nclientPort={self.port}\nclientPortAddress=127.0.0.1\ntickTime=200\n"
            "minSessionTimeout=400\nmaxSessionTimeout=60000\nmaxClientCnxns=0\nadmin.enableServer=false\n"
            "4lw.commands.whitelist=ruok\n"
        )

    @property
    def hosts(self) -> str:
        return f"127.0.0.1:{self.port}"

    def secure(self, tls: StackTls) -> None:
        """Opens one more port, which speaks TLS and wants certificates."""
        self.secure_port = self._ports.next_port()
        settings = {
            "secureClientPort": self.secure_port,
            "secureClientPortAddress": "0.0.0.0",
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            **tls.java(tls.zookeeper, words="keyStore trustStore"),
        }
        with (self.folder / "zoo.cfg").open("a") as file:
            file.writelines(f"{key}={value}\n" for key, value in settings.items())

    @property
    def secure_hosts(self) -> str:
        return f"127.0.0.1:{self.secure_port}"

    def start(self) -> None:
        with (self.folder / "zookeeper.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    find_java().binary,
                    "-Xmx256m",
                    *SHORT_LIVED,
                    f"-Dzookeeper.forceSync={self._force_sync}",
                    "-cp",
                    class_path(),
                    "org.apache.zookeeper.server.ZooKeeperServerMain",
                    str(self.folder / "zoo.cfg"),
                ],
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + 120
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

    def close(self) -> None:
        """Stop it for good."""
        self.stop()
        self._ports.close()

    def stop(self) -> None:
        if self.process is not None:
            os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None
