"""Paths: the machine's cache and one stack's folder."""

import os
from dataclasses import dataclass
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
"""The folder with `dags/` and the packages."""


def cache_dir() -> Path:
    """`$XDG_CACHE_HOME/switchyard`, created if missing."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(base) / "switchyard"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def slug(part: str) -> str:
    """A part's name as a file name: `cluster/east/1` → `cluster-east-1`."""
    return part.replace("/", "-")


@dataclass(frozen=True)
class Layout:
    """The files in one stack's folder."""

    root: Path

    @property
    def request(self) -> Path:
        return self.root / "request.json"

    @property
    def document(self) -> Path:
        return self.root / "stack.json"

    @property
    def security(self) -> Path:
        """Security profiles for commands (`SWITCHYARD_SECURITY_FILE`), if the clusters require a login."""
        return self.root / "parts" / "security.yaml"

    @property
    def zookeeper_security(self) -> Path:
        """Security of ZooKeeper (`SWITCHYARD_ZOOKEEPER_SECURITY_FILE`), if it requires it."""
        return self.root / "parts" / "zookeeper-security.yaml"

    @property
    def tls(self) -> Path:
        """Certificates and keys."""
        return self.root / "parts" / "tls"

    @property
    def processes(self) -> Path:
        return self.root / "processes.json"

    @property
    def socket_name(self) -> str:
        return "supervisor.sock"

    @property
    def supervisor_log(self) -> Path:
        return self.root / "logs" / "supervisor.log"

    def log(self, part: str) -> Path:
        return self.root / "logs" / f"{slug(part)}.log"

    def home(self, part: str) -> Path:
        """Configuration and data of one part."""
        return self.root / "parts" / slug(part)
