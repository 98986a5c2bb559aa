"""What a process and all that it has started use: time on a processor to the nanosecond, and memory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from stack.processes import descendants, identity

_PROC = Path("/proc")


def tree(pid: int) -> list[int]:
    """The process and its descendants. :raises ProcessLookupError: it does not run."""
    if identity(pid) is None:
        raise ProcessLookupError(f"no process {pid}")
    return [pid, *descendants(pid)]


def cpu_ns(pid: int) -> int:
    """Spent by the tree since its start: of every thread that lives, which counts finer than ticks do."""
    tasks = (task for one in tree(pid) for task in (_PROC / str(one) / "task").glob("*/schedstat"))
    return sum(int(text.split()[0]) for task in tasks if (text := _read(task)))


def rss_bytes(pids: Iterable[int]) -> int:
    """Resident memory of the processes; what they share counts for each."""
    pages = (_read(_PROC / str(one) / "status") for one in pids)
    lines = (line for text in pages for line in text.splitlines() if line.startswith("VmRSS:"))
    return sum(int(line.split()[1]) * 1024 for line in lines)


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace")
    except OSError:
        return ""  # it has just ended
