"""What a process and all that it has started use: time on a processor to the nanosecond, and memory."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

_PROC = Path("/proc")


def tree(pid: int) -> list[int]:
    """The process and its descendants. :raises ProcessLookupError: it does not run."""
    children = defaultdict(list)
    for folder in _PROC.iterdir():
        if folder.name.isdigit() and (text := _read(folder / "stat")):
            children[int(text.rpartition(")")[2].split()[1])].append(int(folder.name))
    if not (_PROC / str(pid)).exists():
        raise ProcessLookupError(f"no process {pid}")
    found = [pid]
    for one in found:
        found.extend(children[one])
    return found


def cpu_ns(pid: int) -> int:
    """Spent by the tree since its start: of every thread that lives, which counts finer than ticks do."""
    tasks = (task for one in tree(pid) for task in (_PROC / str(one) / "task").glob("*/schedstat"))
    return sum(int(text.split()[0]) for task in tasks if (text := _read(task)))


def rss_bytes(pid: int) -> int:
    """Resident memory of the tree; what its processes share counts for each."""
    pages = (_read(_PROC / str(one) / "status") for one in tree(pid))
    lines = (line for text in pages for line in text.splitlines() if line.startswith("VmRSS:"))
    return sum(int(line.split()[1]) * 1024 for line in lines)


def _read(path: Path) -> str:
    try:
        return path.read_text("ascii", "replace")
    except OSError:
        return ""  # it has just ended
