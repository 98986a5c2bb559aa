"""CPU time and memory of processes, from the kernel."""

import os
from collections.abc import Iterable
from pathlib import Path

from stack.processes import descendants, identity

_PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")


def tree(pid: int) -> list[int]:
    """The process and its descendants. :raises ProcessLookupError: it does not run."""
    if identity(pid) is None:
        raise ProcessLookupError(f"no process {pid}")
    return [pid, *descendants(pid)]


def cpu_ns(pids: Iterable[int]) -> int:
    """CPU time since their start, from all living threads, which is finer than ticks."""
    tasks = (task for pid in pids for task in (_PROC / str(pid) / "task").glob("*/schedstat"))
    return sum(int(text.split()[0]) for task in tasks if (text := _read(task)))


def cpu_s_with_ended(pids: Iterable[int]) -> float:
    """CPU time since their start in ticks of 10 ms, with that of children that have ended."""
    stats = (_read(_PROC / str(pid) / "stat").rpartition(")")[2].split() for pid in pids)
    return sum(int(ticks) for fields in stats for ticks in fields[11:15]) / _TICKS


def rss_bytes(pids: Iterable[int]) -> int:
    """Resident memory of the processes; shared pages, mostly code of libraries, count in each."""
    return sum(_sum(_read(_PROC / str(pid) / "status"), "VmRSS:") for pid in pids)


def private_bytes(pid: int) -> int:
    """Memory of this process only, without the kernel's memory for its sockets. :raises OSError: it does not run."""
    rollup = (_PROC / str(pid) / "smaps_rollup").read_text("ascii", "replace")
    return _sum(rollup, "Private_Clean:", "Private_Dirty:")


def _sum(lines: str, *kinds: str) -> int:
    return sum(int(line.split()[1]) * 1024 for line in lines.splitlines() if line.startswith(kinds))


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace")
    except OSError:
        return ""  # it has just ended; its parent has its time
