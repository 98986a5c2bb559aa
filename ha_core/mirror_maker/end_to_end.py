"""Measures the latency over all hops to a flow's target, by the timestamps of heartbeats that arrive there."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ha_core.flows.flow_config import FlowConfig
from ha_core.flows.policies import hops
from ha_core.mirror_client import MirrorClient


@dataclass
class EndToEnd:
    """
    :ivar age_ms: aliases on the path, source first → age of the newest heartbeat on that path, in milliseconds.
        Heartbeats are written each second by default, so up to a second of the age is not latency.
    """

    flow: FlowConfig
    client: Callable[[], MirrorClient]
    age_ms: Mapping[tuple[str, ...], int] = field(default_factory=dict)

    def look(self) -> None:
        found: dict[tuple[str, ...], int] = {}
        with self.client() as client:
            for topic in client.heartbeat_topics():
                path = tuple(alias for alias, _ in hops(self.flow.policy, topic))[::-1]
                if not path or path[-1] != self.flow.source:
                    continue
                newest_ms = max((one.timestamp_ms for one in client.last_heartbeats(topic)), default=None)
                if newest_ms is not None:
                    found[*path, self.flow.target] = max(int(time.time() * 1000) - newest_ms, 0)
        self.age_ms = found
