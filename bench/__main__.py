"""`python -m bench [NAME…] [--quick] [--json FILE] [--seed N]`."""

import argparse
import json
import os
import platform
import shlex
import signal
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.figures import BenchOutcome
from bench.ground import BenchError, Scale
from ha_core.kafka.errors import KafkaAdminError
from stack.clients.process import ClientError
from stack.errors import StackError

NAMES = (
    "gateway",
    "enforcement",
    "platform",
    "blackout",
    "gateway_death",
    "upgrade",
    "gateway_memory",
    "quotas",
    "tls",
    "crossing",
    "maps",
    "standing",
    "spark_jobs",
    "mirror",
    "mirror_failover",
    "mirror_switch",
    "forced_switch",
    "mirror_memory",
    "flows",
    "flows_offsets",
    "flows_wide",
    "flows_renaming",
    "group_sync",
)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Benchmarks on real clusters, on loopback.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{', '.join(NAMES)}; without one, all")
    parser.add_argument("--quick", action="store_true", help="only check that everything works; figures mean nothing")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results as JSON, with each sample")
    parser.add_argument("--seed", type=int, default=1, help="seed of values and pauses")
    parser.add_argument(
        "--path", action="append", default=[], metavar="NAME=HOST:PORT[,PID]", help="for `gateway`: a path to compare"
    )
    chosen = parser.parse_args(arguments)
    unknown = [name for name in chosen.names if name not in NAMES]
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]!r}; there are {', '.join(NAMES)}")
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))  # so that stacks end gracefully
    if chosen.path and chosen.names != ["gateway"]:
        parser.error("--path is for the benchmark `gateway` alone: python -m bench gateway --path …")
    scale = Scale(chosen.quick, chosen.seed, tuple(chosen.path))
    documents: dict[str, Any] = {}
    failed = []
    for name in chosen.names or NAMES:
        machine = _describe(arguments)
        begun = time.monotonic()
        print(f"\n## {name}\n\n{_one_line(machine)}\n", flush=True)
        try:
            run: Callable[[Scale, Callable[[str], None]], BenchOutcome] = import_module(f"bench.{name}").run
            outcome = run(scale, _say)
        except (BenchError, ClientError, KafkaAdminError, StackError, TimeoutError) as error:
            why = str(error) or type(error).__name__
            print(f"failed: {why}", file=sys.stderr, flush=True)
            failed.append(name)
            documents[name] = {**machine, "quick": chosen.quick, "seed": chosen.seed, "error": why}
        else:
            took_s = round(time.monotonic() - begun, 1)
            print("\n\n".join([*(table.text() for table in outcome.tables), *outcome.remarks]), flush=True)
            for row in outcome.unmeasured:
                print(f"failed: {row}", file=sys.stderr, flush=True)
            for row in outcome.missed:
                print(f"goal missed: {row}", file=sys.stderr, flush=True)
            if outcome.unmeasured or (outcome.missed and not chosen.quick):
                failed.append(name)
            documents[name] = {
                **machine,
                "quick": chosen.quick,
                "seed": chosen.seed,
                "took_s": took_s,
                "figures": outcome.figures,
                "missed": outcome.missed,
            }
        if chosen.json is not None:
            chosen.json.write_text(json.dumps(documents, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return 1 if failed else 0


def _say(text: str) -> None:
    print(f"  {text}", file=sys.stderr, flush=True)


def _describe(arguments: list[str]) -> dict[str, Any]:
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


def _one_line(machine: dict[str, Any]) -> str:
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
