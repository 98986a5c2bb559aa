"""A real parent in a process of its own, with small workers (`small_worker`): `python -m … FOLDER`."""

import asyncio
import json
import logging
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Self

from gateway.config import Config
from gateway.process.workers.parent import Parent
from tests.kit.own_gateway import free_port

PATIENCE_S = 20.0


class Scene:
    """The parent, from outside."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.folder, self.port, self.http = folder, free_port(), free_port()
        document = {
            "id": "gw-1",
            "workers": workers,
            "zookeeper": {"hosts": "nobody:1"},
            "listen": {"port": self.port},
            "http": {"port": self.http},
            "authentication": {"anonymous": True},
        }
        (folder / "config.json").write_text(json.dumps(document))
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            print(self.said())  # pytest shows it where the test has failed

    def start(self) -> Self:
        with (self.folder / "log").open("ab") as log:
            command = (sys.executable, "-m", "tests.gateway.workers.scene", str(self.folder))
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        return self

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Returns its exit code."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_S)

    def pids(self, worker: int) -> list[int]:
        """Process ids that the worker has had, the newest last."""
        file = self.folder / f"{worker}.pids"
        return [int(line) for line in file.read_text().splitlines()] if file.exists() else []

    def page(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def ready(self) -> bool:
        return self.page("/readyz")[0] == 200

    def said(self) -> str:
        return (self.folder / "log").read_text()


def lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def _parent(folder: Path) -> int:
    logging.basicConfig(level="INFO")
    command = (sys.executable, "-m", "tests.gateway.workers.small_worker", str(folder))
    said = (folder / "config.json").read_text()
    return asyncio.run(Parent(Config.model_validate(json.loads(said)), command, said).run())


if __name__ == "__main__":
    sys.exit(_parent(Path(sys.argv[1])))
