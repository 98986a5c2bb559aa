"""Counters of the data path: plain integers, which become metrics only at a scrape.

Composed requests are slow enough for a Prometheus histogram.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from prometheus_client import Histogram

from gateway.model.fence_costs import FenceCosts
from gateway.model.latencies import Latencies
from ha_core.wire.codes import ApiKey

PREFIX = "switchyard_gateway_"
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


def _composed() -> Histogram:
    text = "Time to compose an answer out of several clusters."
    return Histogram(f"{PREFIX}composed_request_seconds", text, ["api"], registry=None, buckets=BUCKETS_S)


@dataclass(slots=True, eq=False)
class BrokerBytes:
    """Bytes of clients' connections to the brokers of a cluster."""

    sent: int = 0
    received: int = 0


@dataclass(slots=True, eq=False)
class Counts:
    """Counters of the data path. Used on the event loop only; a scrape may read them in between."""

    requests: Counter[tuple[int, str]] = field(default_factory=Counter)
    """By (API key, outcome): `passed`, `mapped`, `composed`, `local`, `refused`."""
    refusals: Counter[str] = field(default_factory=Counter)
    """By the label of their `Refusal`: partitions of produce and fetch, and other requests."""
    mirror_fetch_bytes: Counter[str] = field(default_factory=Counter)
    """Bytes of records read from copies, by the copy's cluster."""
    mirror_fetch_near_bytes: Counter[str] = field(default_factory=Counter)
    """Those that did not leave their zone: client, gateway and the copy's cluster are known to be in one zone."""
    throttled: Counter[str] = field(default_factory=Counter)
    """Requests whose client had to wait afterwards, by the exceeded quota: `produce`, `fetch`, `request`."""
    throttled_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """Seconds for which no request was read for that reason."""
    discovery_delayed: Counter[str] = field(default_factory=Counter)
    """Requests for metadata, coordinators and producer ids above a rate limit, by that limit."""
    discovery_delayed_s: float = 0.0
    foreign: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Connections that began with another protocol, by the listener's (`plain`, `tls`) and that."""
    handshakes: Counter[str] = field(default_factory=Counter)
    """TLS handshakes by outcome: `done`, `failed`, `left`, `late`."""
    bytes_from_clients: int = 0
    bytes_to_clients: int = 0
    broker_bytes: defaultdict[str, BrokerBytes] = field(default_factory=lambda: defaultdict(BrokerBytes))
    """By cluster. Each connection to a broker holds those of its cluster."""
    fences: FenceCosts = field(default_factory=FenceCosts)
    composed: Histogram = field(default_factory=_composed)
    """By API."""
    latencies: Latencies = field(default_factory=Latencies)

    @property
    def bytes_to_brokers(self) -> int:
        return sum(cluster.sent for cluster in self.broker_bytes.values())

    @property
    def bytes_from_brokers(self) -> int:
        return sum(cluster.received for cluster in self.broker_bytes.values())


def api_label(key: int) -> str:
    return ApiKey(key).name.lower() if key in ApiKey._value2member_map_ else "unknown"
