"""Airflow's own parts, without which it starts no move: metrics for Prometheus, `switchyard_airflow_…`, and those that
give no sign of life, for the page Fleet.

They tell what Airflow's `/api/v2/monitor/health` tells every caller. The API server itself is `up` in Prometheus.
"""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from prometheus_client.core import Metric

from ha_core.metrics.http import CONTENT_TYPE, Families, render
from ha_core.present.web.airflow import DATABASE, SilentPart

KEPT_S = 2.0
"""One look at Airflow's database serves all scrapes of so long: any host may scrape."""
WAIT_S = 0.3
"""While a look hangs, a scrape gives up after this: each holds a thread of the API server."""
SILENT_S = 30.0
"""Live parts give a sign of life every 5 s. The alarm `SwitchyardAirflowPartStands` waits for this long, too."""
COMPONENTS = {"scheduler": "scheduler", "dag-processor": "dag_processor", "triggerer": "triggerer"}
"""Name of a part → in Airflow's report."""
_gauge = Families("switchyard_airflow_").gauge


class HealthBusyError(RuntimeError):
    """Airflow's database does not answer an earlier look."""


class HealthMetrics:
    """Thread-safe."""

    def __init__(self, report: Callable[[], Mapping[str, Any]], clock: Callable[[], float] = time.monotonic) -> None:
        """:param report: Airflow's report of its parts."""
        self._report, self._clock = report, clock
        self._guard = threading.Lock()
        self._rendered = b""
        self._at_s = float("-inf")

    media_type = CONTENT_TYPE

    def render(self) -> bytes:
        """:raises HealthBusyError: another scrape waits for the database."""
        if not self._guard.acquire(timeout=WAIT_S):
            raise HealthBusyError("Airflow's database does not answer.")
        try:
            if self._clock() - self._at_s >= KEPT_S:
                self._rendered = render(_Collector(self._report()))
                self._at_s = self._clock()
            return self._rendered
        finally:
            self._guard.release()


class _Collector:
    def __init__(self, report: Mapping[str, Any]) -> None:
        self._report = report

    def collect(self) -> Iterable[Metric]:
        reachable = self._report["metadatabase"]["status"] == "healthy"
        yield _gauge("database_reachable", "Whether Airflow's database answers the API server.", reachable)
        text = "Last sign of life of a part; of the newest one if several run. A part that never ran has none."
        yield _gauge("heartbeat_timestamp_seconds", text, dict(_heartbeats(self._report)), "component")


def _heartbeats(report: Mapping[str, Any]) -> Iterable[tuple[str, float]]:
    for name, key in COMPONENTS.items():
        at = (report.get(key) or {}).get(f"latest_{key}_heartbeat")
        if at:
            yield name, datetime.fromisoformat(at).timestamp()


class HealthLook(NamedTuple):
    """Airflow's report, and when it was read."""

    report: Mapping[str, Any]
    at_s: float


def health_read() -> HealthLook:
    from airflow.api.common.airflow_health import get_airflow_health

    return HealthLook(get_airflow_health(), datetime.now(UTC).timestamp())


def silent_parts(look: HealthLook, age_s: float) -> Iterator[SilentPart]:
    """Parts without a sign of life for longer than `SILENT_S`. One that never ran is none.

    :param age_s: of the look: it grows while Airflow's database answers no further one.
    """
    if look.report["metadatabase"]["status"] != "healthy" or age_s > SILENT_S:
        yield SilentPart(DATABASE, age_s)
        return
    for name, at_s in _heartbeats(look.report):
        if (silent_s := look.at_s - at_s + age_s) > SILENT_S:
            yield SilentPart(name, silent_s)


def airflow_health() -> HealthMetrics:
    # Only API servers read Airflow's database; other processes import this module, too.
    from airflow.api.common.airflow_health import get_airflow_health

    return HealthMetrics(get_airflow_health)
