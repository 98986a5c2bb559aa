"""Start a stack's supervisor, follow it until the stack is ready, and end stacks."""

import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

from stack import control, registry
from stack.errors import StackError
from stack.layout import PROJECT, Layout
from stack.processes import ProcessIdentity, descendants, end, identity, members
from stack.specs import StackSpec

_LEFTOVERS = ("logs", "parts", "request.json", "stack.json", "processes.json", "supervisor.sock")


@dataclass(frozen=True)
class StartedStack:
    """A stack that is ready, still tied to its starter until `detach`."""

    root: Path
    document: dict[str, Any]
    supervisor: subprocess.Popen[str]

    def detach(self) -> None:
        """Let the stack live on without its starter."""
        assert self.supervisor.stdin is not None
        self.supervisor.stdin.write("detach\n")
        self.supervisor.stdin.close()

    def end(self) -> None:
        """End the stack; returns when none of its processes runs."""
        _let_go(self.supervisor)

    def wait(self) -> None:
        """Returns when the stack has ended."""
        self.supervisor.wait()


def start(spec: StackSpec, root: Path | None, owner_pid: int | None, say: Callable[[str], None]) -> StartedStack:
    """Start a stack and return when it is ready.

    Without `root` it gets a new folder that is deleted with it. `owner_pid`: the stack ends with that process. If this
    call is interrupted, the stack ends. Raises StackError; then no process of the stack runs, and its logs are kept.
    """
    owner = None if owner_pid is None else identity(owner_pid)
    if owner_pid is not None and owner is None:
        raise StackError(f"there is no process {owner_pid} to own the stack")
    layout = Layout(Path(tempfile.mkdtemp(prefix="switchyard-")) if root is None else _emptied(root))
    layout.supervisor_log.parent.mkdir(parents=True)
    request = {
        "spec": spec.to_json(),
        "keep": root is not None,
        "owner": None if owner is None else {"pid": owner.pid, "start_ticks": owner.start_ticks},
    }
    layout.request.write_text(json.dumps(request, indent=1), "utf-8")
    say(f"folder {layout.root}")
    with open(layout.supervisor_log, "ab") as log:
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "stack.supervisor", str(layout.root)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=PROJECT,
            start_new_session=True,
        )
    assert supervisor.stdout is not None
    try:
        document = _follow(supervisor.stdout, say)
    except BaseException:
        _let_go(supervisor)
        raise
    if document is None:
        _let_go(supervisor)
        output = (
            "\n".join(layout.supervisor_log.read_text("utf-8", "replace").splitlines()[-20:])
            if layout.root.exists()
            else ""
        )
        raise StackError(
            f"the supervisor ended before the stack was ready. It said last:\n{output}\nIts log: "
            f"{layout.supervisor_log}"
        )
    return StartedStack(layout.root, document, supervisor)


def _emptied(root: Path) -> Path:
    """The folder, without files of an earlier stack."""
    root = root.resolve()
    if any(entry.root == root for entry in registry.running()):
        raise StackError(
            f"a stack runs in {root}: end it with `switchyard stack down --dir {root}` or choose another folder"
        )
    root.mkdir(parents=True, exist_ok=True)
    foreign = sorted(entry.name for entry in root.iterdir() if entry.name not in _LEFTOVERS)
    if foreign:
        raise StackError(f"{root} holds {foreign[0]}, which is no part of a stack: choose another folder")
    for name in _LEFTOVERS:
        path = root / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    return root


def _follow(lines: IO[str], say: Callable[[str], None]) -> dict[str, Any] | None:
    for line in lines:
        event = json.loads(line)
        if event["event"] == "progress":
            say(event["text"])
        elif event["event"] == "failed":
            raise StackError(event["error"])
        elif event["event"] == "ready":
            document: dict[str, Any] = event["stack"]
            return document
    return None


def _let_go(supervisor: subprocess.Popen[str]) -> None:
    """Close the supervisor's stdin, which ends the stack, and wait."""
    assert supervisor.stdin is not None
    with contextlib.suppress(OSError):
        supervisor.stdin.close()
    try:
        supervisor.wait(30.0)
    except subprocess.TimeoutExpired:
        end(lambda: [*descendants(supervisor.pid), supervisor.pid] if supervisor.poll() is None else [])


def down(root: Path, keep: bool) -> None:
    """End a stack; returns when none of its processes runs. With `keep` its folder stays in any case."""
    entry = None
    with contextlib.suppress(StackError):
        entry = registry.find(root)
    try:
        control.ask(root, "down", keep=keep)
    except StackError:
        if entry is None and not Layout(root).processes.exists():
            raise
    if entry is not None:
        deadline = time.monotonic() + 30.0
        while entry.guard.alive() and time.monotonic() < deadline:
            time.sleep(0.05)
        if entry.guard.alive():
            end(lambda: [*descendants(entry.guard.pid), entry.guard.pid] if entry.guard.alive() else [])
    _sweep(Layout(root))


def _sweep(layout: Layout) -> None:
    """Kill remaining processes of the recorded sessions: only if guard and supervisor were both killed."""
    try:
        recorded = [ProcessIdentity(*pair) for pair in json.loads(layout.processes.read_text("utf-8"))]
    except (OSError, ValueError, TypeError):
        return
    for leader in recorded:
        now = identity(leader.pid)
        if now is not None and now != leader:
            continue  # the pid was reused; the kernel reuses no pid of a living session
        end(partial(members, leader.pid))
