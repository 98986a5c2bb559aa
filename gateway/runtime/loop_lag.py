"""How late the event loop is: requests and answers that have arrived wait as long, and no other measure shows that."""

import asyncio
from collections.abc import Iterable

from prometheus_client.core import HistogramMetricFamily, Metric

from gateway.model.latencies import TimeTally, cumulative
from gateway.runtime import clock

EVERY_S = 0.25


class LoopLag:
    def __init__(self) -> None:
        self._tally = TimeTally()

    async def keep(self) -> None:
        """Measures; never returns. The kernel's own lateness, up to a millisecond, counts, too."""
        while True:
            due = clock.now() + EVERY_S
            await asyncio.sleep(EVERY_S)
            self._tally.add(max(0.0, clock.now() - due))

    def collect(self, prefix: str) -> Iterable[Metric]:
        text = "Time by which the event loop was late: whatever has arrived waits as long for the gateway."
        family = HistogramMetricFamily(f"{prefix}loop_lag_seconds", text)
        family.add_metric([], cumulative([self._tally]), self._tally.total_s)
        yield family
