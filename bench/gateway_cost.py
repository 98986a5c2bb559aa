"""The cost of a gateway process: CPU and memory from the kernel, bytes of clients from its metrics."""

from __future__ import annotations

import os
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

_TICKS = os.sysconf("SC_CLK_TCK")
_PREFIX = "switchyard_gateway_"


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of all gateways together in a window."""

    cpu_s: float
    client_bytes: float
    """From and to clients."""

    def __sub__(self, other: Cost) -> Cost:
        return Cost(self.cpu_s - other.cpu_s, self.client_bytes - other.client_bytes)

    @property
    def cpu_s_per_gb(self) -> float:
        """GB is 10^9 bytes on the clients' side."""
        return self.cpu_s * 1e9 / self.client_bytes if self.client_bytes else 0.0


class CostMeter:
    """Reads before and after. Scraping costs CPU itself, so the clock is read inside of the scrapes."""

    def __init__(self, gateways: Iterable[dict[str, Any]]) -> None:
        self._gateways = [(int(one["pid"]), str(one["http"])) for one in gateways]
        self._before = Cost(0, 0)

    def start(self) -> None:
        data = self._client_bytes()
        self._before = Cost(self._cpu_s(), data)

    def stop(self) -> Cost:
        cpu_s = self._cpu_s()
        return Cost(cpu_s, self._client_bytes()) - self._before

    def _cpu_s(self) -> float:
        return sum(cpu_seconds(pid) for pid, _ in self._gateways)

    def _client_bytes(self) -> float:
        return sum(scrape(http) for _, http in self._gateways)


def cpu_seconds(pid: int) -> float:
    """User and system time of a process since its start; a tick is 10 ms on most machines."""
    fields = Path(f"/proc/{pid}/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def private_bytes(pid: int) -> int:
    """Memory of this process only, without the kernel's memory for its sockets."""
    return _memory(pid, "Private_Clean:", "Private_Dirty:")


def resident_bytes(pid: int) -> int:
    """All its memory, with shared memory: mostly code of libraries."""
    return _memory(pid, "Rss:")


def _memory(pid: int, *kinds: str) -> int:
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text("ascii", "replace").splitlines()
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith(kinds))


def scrape(http: str) -> float:
    """Bytes from and to clients since the gateway's start."""
    with urllib.request.urlopen(f"{http}/metrics", timeout=10) as answer:
        text = answer.read().decode()
    return sum(
        sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == f"{_PREFIX}bytes_total" and sample.labels.get("side") == "client"
    )
