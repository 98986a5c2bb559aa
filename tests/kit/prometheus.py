"""Prometheus as Debian has it: its programs, and a server that scrapes what a test tells it to."""

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import yaml

from stack.layout import cache_dir
from tests.kit.own_gateway import free_port

START_S = 60.0
FETCH_S = 300.0


class Programs(NamedTuple):
    """:ivar why: the reason why they are missing; empty: they are there."""

    prometheus: str
    promtool: str
    why: str = ""


@cache
def programs() -> Programs:
    """The installed ones, or those of Debian's package, which is unpacked into the cache folder once per machine."""
    installed = [shutil.which(name) for name in ("prometheus", "promtool")]
    if all(installed):
        return Programs(*map(str, installed))
    unpacked = cache_dir() / "prometheus"
    binaries = unpacked / "usr" / "bin"
    why = "" if (binaries / "promtool").exists() else _unpack(unpacked)
    return Programs(str(binaries / "prometheus"), str(binaries / "promtool"), why)


def missing() -> str:
    """The reason why Prometheus cannot run, or ""."""
    return programs().why


def _unpack(folder: Path) -> str:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return "Prometheus is not installed, and this machine has no packages of Debian"
    work = folder.with_suffix(".part")
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    fetch = ["apt-get", "download", "prometheus"]
    done = None
    for command in (fetch, ["apt-get", "update"], fetch):
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=FETCH_S, check=False)
        if command is fetch and done.returncode == 0:
            break
    found = sorted(work.glob("prometheus_*.deb"))
    if not found:
        return f"Prometheus is not installed, and its package cannot be fetched: {done.stderr[-300:] if done else ''}"
    subprocess.run(["dpkg-deb", "-x", found[0].name, "unpacked"], cwd=work, check=True, timeout=FETCH_S)
    shutil.rmtree(folder, ignore_errors=True)
    (work / "unpacked").rename(folder)
    shutil.rmtree(work, ignore_errors=True)
    return ""


class Prometheus:
    """A server of a test's own.

    :ivar url: where it answers.
    """

    def __init__(
        self,
        folder: Path,
        targets: Mapping[str, Sequence[str]],
        every_s: int = 5,
        rules: Path | None = None,
        paths: Mapping[str, str] = {},
    ) -> None:
        """:param targets: job → addresses that it scrapes.
        :param paths: job → path of its metrics, where that is not `/metrics`.
        """
        self._folder = folder
        self.url = f"http://127.0.0.1:{free_port()}"
        folder.mkdir(parents=True, exist_ok=True)
        document = {
            "global": {
                "scrape_interval": f"{every_s}s",
                "scrape_timeout": f"{max(1, every_s - 1)}s",
                "evaluation_interval": f"{every_s}s",
            },
            "scrape_configs": [
                {
                    "job_name": job,
                    "metrics_path": paths.get(job, "/metrics"),
                    "static_configs": [{"targets": list(addresses)}],
                }
                for job, addresses in targets.items()
            ],
            **({} if rules is None else {"rule_files": [str(rules)]}),
        }
        self._file = folder / "prometheus.yaml"
        self._file.write_text(yaml.safe_dump(document))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        address = self.url.removeprefix("http://")
        command = [programs().prometheus, f"--config.file={self._file}", f"--web.listen-address={address}"]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, f"--storage.tsdb.path={self._folder / 'data'}"], stdout=log, stderr=log
            )
        deadline = time.monotonic() + START_S
        while True:
            try:
                self.ask("/-/ready")
            except OSError:
                assert self._process.poll() is None, (self._folder / "log").read_text()[-2000:]
                assert time.monotonic() < deadline, "Prometheus does not get ready"
                time.sleep(0.1)
            else:
                return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def ask(self, path: str, **fields: str) -> bytes:
        query = urllib.parse.urlencode(fields)
        with urllib.request.urlopen(f"{self.url}{path}{'?' if query else ''}{query}", timeout=30) as answer:
            found: bytes = answer.read()
        return found

    def query(self, expression: str) -> list[dict[str, Any]]:
        """Its samples now."""
        found: list[dict[str, Any]] = json.loads(self.ask("/api/v1/query", query=expression))["data"]["result"]
        return found

    def samples(self, selector: str, seconds: int) -> list[dict[str, Any]]:
        """Every scraped sample of the last so many seconds, by series: {"metric": labels, "values": [[time, text]]}."""
        return self.query(f"{selector}[{seconds}s]")
