"""Measures the latency over all hops to a flow's target, by the timestamps of heartbeats that arrive there."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ha_core.flows.flow_config import FlowConfig
from ha_core.flows.policies import hops
from ha_core.mirror_client import MirrorClient

LATE_MS = 40_000
"""More than two looks of a flow that runs (`running_flow`)."""


def _now_ms() -> int:
    return int(time.time() * 1000)


@dataclass
class EndToEnd:
    """
    :ivar now_ms: wall-clock time, as that of heartbeats.
    :ivar newest_ms: aliases on the path, source first → timestamp of the newest heartbeat that the last look found on
        that path.
    :ivar looked_ms: time of that look.
    """

    flow: FlowConfig
    client: Callable[[], MirrorClient]
    now_ms: Callable[[], int] = _now_ms
    newest_ms: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    looked_ms: int = 0

    def age_ms(self) -> dict[tuple[str, ...], int]:
        """Aliases on the path → age of its newest heartbeat at the last look, in milliseconds. Heartbeats are written
        each second by default, so up to a second of the age is not latency.

        Without a look for `LATE_MS`, as while the target does not answer, the age counts up to now: the last one would
        show a fast flow as long as the target is away.
        """
        since_ms = self.now_ms() - self.looked_ms
        more_ms = since_ms if since_ms >= LATE_MS else 0
        return {path: max(self.looked_ms - newest, 0) + more_ms for path, newest in self.newest_ms.items()}

    def look(self) -> None:
        found: dict[tuple[str, ...], int] = {}
        with self.client() as client:
            for topic in client.heartbeat_topics():
                path = tuple(alias for alias, _ in hops(self.flow.policy, topic))[::-1]
                if not path or path[-1] != self.flow.source:
                    continue
                newest_ms = max((one.timestamp_ms for one in client.last_heartbeats(topic)), default=None)
                if newest_ms is not None:
                    found[*path, self.flow.target] = newest_ms
        self.newest_ms, self.looked_ms = found, self.now_ms()
