"""Metrics that every process has: `process_…`, by the names that dashboards know, and its version."""

import platform
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version

from prometheus_client import ProcessCollector
from prometheus_client.core import GaugeMetricFamily, Metric


def own_version() -> str:
    try:
        return version("switchyard")
    except PackageNotFoundError:
        return "unknown"


class ProcessMetrics:
    """The metrics of this process."""

    def __init__(self) -> None:
        self._process = ProcessCollector(registry=None)
        self._info = GaugeMetricFamily(
            "switchyard_build_info", "Versions of Switchyard and Python, as labels.", labels=("version", "python")
        )
        self._info.add_metric([own_version(), platform.python_version()], 1)

    def collect(self) -> Iterable[Metric]:
        yield from self._process.collect()
        yield self._info
