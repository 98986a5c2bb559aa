"""Processes that cannot outlive the stack, and their identity.

Three nets hold every process: the guard adopts orphans of its descendants and kills them after the supervisor's end
(`PR_SET_CHILD_SUBREAPER`); each part dies with the supervisor (`PR_SET_PDEATHSIG`); `down` kills the rest of the
recorded sessions. A part leads its own session, so its workers are found even after its death.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True)
class ProcessIdentity:
    """A process as the kernel identifies it: pids are reused, a pid with its start time is not."""

    pid: int
    start_ticks: int

    def alive(self) -> bool:
        status = _status(self.pid)
        return status is not None and status.start_ticks == self.start_ticks and status.state != "Z"


@dataclass(frozen=True)
class _Status:
    pid: int
    state: str
    parent: int
    session: int
    start_ticks: int


def _status(pid: int) -> _Status | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read().decode("ascii", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = text[text.rindex(")") + 2 :].split()  # a command name may hold spaces and brackets
    return _Status(pid, fields[0], int(fields[1]), int(fields[3]), int(fields[19]))


def _all() -> list[_Status]:
    statuses = (_status(int(entry)) for entry in os.listdir("/proc") if entry.isdigit())
    return [status for status in statuses if status is not None and status.state != "Z"]


def identity(pid: int) -> ProcessIdentity | None:
    """The identity of a living process, or None."""
    status = _status(pid)
    return None if status is None else ProcessIdentity(pid, status.start_ticks)


def command_line(pid: int) -> str:
    """The command line, separated by spaces; empty if there is no such process."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().replace(b"\0", b" ").decode("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def die_with_parent(number: int = signal.SIGKILL) -> Callable[[], None]:
    """A `preexec_fn`. The kernel sends the signal when the forking *thread* ends: fork from a thread that stays."""
    parent = os.getpid()

    def prepare() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:  # the parent died between fork and prctl
            os._exit(1)

    return prepare


def run(
    command: Sequence[str], timeout_s: float, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program without input, to its end, with any exit code; it does not outlive this thread.

    :raises subprocess.TimeoutExpired: it took longer, and was killed.
    """
    return subprocess.run(
        command,
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        preexec_fn=die_with_parent(),
    )


def adopt_orphans() -> None:
    """Orphans among the descendants become children of this process instead of init's."""
    _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def descendants(pid: int) -> list[int]:
    """All living descendants of `pid`, without itself."""
    return _below({pid}, _all())


def _below(roots: set[int], processes: list[_Status]) -> list[int]:
    children: dict[int, list[int]] = {}
    for process in processes:
        children.setdefault(process.parent, []).append(process.pid)
    found: list[int] = []
    queue = list(roots)
    while queue:
        for child in children.get(queue.pop(), ()):
            found.append(child)
            queue.append(child)
    return found


def members(session: int) -> list[int]:
    """All processes of a part: its session and its descendants."""
    processes = _all()
    direct = {process.pid for process in processes if session in (process.session, process.pid)}
    return sorted(direct | set(_below(direct, processes)))


def stopped(pid: int) -> bool:
    """Whether SIGSTOP has taken effect, or the process is gone."""
    status = _status(pid)
    return status is None or status.state in "TZ"


def send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def end(find: Callable[[], list[int]], timeout_s: float = 10.0) -> bool:
    """SIGKILL the pids of `find` until it returns none; the next round catches forks in between."""
    deadline = time.monotonic() + timeout_s
    while pids := find():
        send(pids, signal.SIGKILL)
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True
