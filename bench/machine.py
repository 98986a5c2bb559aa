"""Time and machine of a benchmark run."""

from __future__ import annotations

import os
import platform
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


def describe(arguments: list[str]) -> dict[str, Any]:
    """Command, date, machine and its current load, printed with every figure."""
    return {
        "command": "python -m bench" + ("" if not arguments else " " + shlex.join(arguments)),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": len(os.sched_getaffinity(0)),
        "processor": _processor(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average": [round(one, 2) for one in os.getloadavg()],
    }


def one_line(machine: dict[str, Any]) -> str:
    """The description in one line, for people."""
    load = " ".join(f"{one:.2f}" for one in machine["load_average"])
    return (
        f"`{machine['command']}` · {machine['date']} · {machine['cores']} cores ({machine['processor']}), "
        f"{machine['memory_gib']} GiB, Linux {machine['kernel']}, Python {machine['python']} · "
        f"load average at the start {load}"
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()
