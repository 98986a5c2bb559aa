"""The running stacks of this machine and user, from which commands without `--dir` take the newest."""

import contextlib
import json
import os
import time
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from stack.errors import StackError
from stack.layout import cache_dir
from stack.processes import ProcessIdentity


@dataclass(frozen=True)
class RunningStack:
    """A stack with a living guard process."""

    root: Path
    guard: ProcessIdentity
    since: float
    """Seconds since 1970."""


def _path(root: Path) -> Path:
    folder = cache_dir() / "stacks"
    folder.mkdir(exist_ok=True)
    return folder / f"{sha256(str(root).encode()).hexdigest()[:16]}.json"


def enter(root: Path, guard: ProcessIdentity) -> None:
    path = _path(root)
    unfinished = path.with_suffix(f".{os.getpid()}")
    document = {"dir": str(root), "pid": guard.pid, "start_ticks": guard.start_ticks, "since": time.time()}
    unfinished.write_text(json.dumps(document), "utf-8")
    unfinished.replace(path)


def leave(root: Path) -> None:
    _path(root).unlink(missing_ok=True)


def running() -> list[RunningStack]:
    """Newest first. Entries of ended stacks are removed."""
    found = []
    for path in (cache_dir() / "stacks").glob("*.json"):
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            document = json.loads(path.read_text("utf-8"))
            guard = ProcessIdentity(int(document["pid"]), int(document["start_ticks"]))
            if guard.alive():
                found.append(RunningStack(Path(document["dir"]), guard, float(document["since"])))
                continue
        path.unlink(missing_ok=True)
    return sorted(found, key=lambda entry: entry.since, reverse=True)


def find(root: Path | None) -> RunningStack:
    """The stack of that folder, or the newest; raises StackError."""
    entries = running()
    if root is None:
        if not entries:
            raise StackError("no stack is running: start one with `switchyard stack up`")
        return entries[0]
    wanted = root.resolve()
    for entry in entries:
        if entry.root == wanted:
            return entry
    others = ", ".join(str(entry.root) for entry in entries) or "none"
    raise StackError(f"no stack is running in {wanted} (running: {others})")
