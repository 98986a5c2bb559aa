"""CPU time, in ns, and memory of a process and its descendants."""

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
    """CPU time of the tree since its start, from all living threads, which is finer than ticks."""
    tasks = (task for one in tree(pid) for task in (_PROC / str(one) / "task").glob("*/schedstat"))
    return sum(int(text.split()[0]) for task in tasks if (text := _read(task)))


def rss_bytes(pids: Iterable[int]) -> int:
    """Resident memory of the processes; shared pages count in each."""
    pages = (_read(_PROC / str(one) / "status") for one in pids)
    lines = (line for text in pages for line in text.splitlines() if line.startswith("VmRSS:"))
    return sum(int(line.split()[1]) * 1024 for line in lines)


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace")
    except OSError:
        return ""  # it has just ended
