"""A private PostgreSQL for tests, if its programs are installed."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

USER = "postgres"


def programs() -> Path | None:
    """The newest version's folder of programs."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("initdb")
    return Path(on_path).parent if on_path else None


def missing() -> str:
    """The reason why PostgreSQL cannot run, or ""."""
    if find_spec("psycopg") is None:
        return "the package psycopg is not installed"
    return "" if programs() is not None else "PostgreSQL's programs are not installed"


@contextmanager
def running() -> Iterator[str]:
    """Its URL. It refuses to run as root; in that case it runs as its package's user."""
    at = programs()
    assert at is not None, missing()
    options = {"user": USER, "group": USER} if os.getuid() == 0 else {}
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    if options:
        shutil.chown(folder, USER, USER)
    data, log = folder / "data", folder / "log"

    def call(*words: str) -> None:
        subprocess.run(words, check=True, capture_output=True, timeout=280, cwd=folder, **options)  # type: ignore[call-overload]

    try:
        of_new = ("-U", USER, "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8")
        call(str(at / "initdb"), "-D", str(data), *of_new)
        flags = f"-c listen_addresses= -k {folder} -c fsync=off"
        call(str(at / "pg_ctl"), "-D", str(data), "-l", str(log), "-w", "-o", flags, "start")
        try:
            yield f"postgresql://{USER}@/postgres?host={folder}"
        finally:
            call(str(at / "pg_ctl"), "-D", str(data), "-m", "immediate", "-w", "stop")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
