"""What the data path counts: plain integers, which become metrics only when somebody scrapes.

A composed request is long enough for a histogram of Prometheus itself.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field

from prometheus_client import Histogram

from ha_core.wire.codes import ApiKey

PREFIX = "switchyard_gateway_"
BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


def _composed() -> Histogram:
    text = "Time to compose an answer out of several clusters."
    return Histogram(f"{PREFIX}composed_request_seconds", text, ["api"], registry=None, buckets=BUCKETS_S)


@dataclass(slots=True, eq=False)
class Counts:
    """What the data path counts. Used on the event loop only; a scrape may read it in between."""

    requests: Counter[tuple[int, str]] = field(default_factory=Counter)
    """By (API key, outcome): `passed`, `mapped`, `composed`, `local`, `refused`."""
    refusals: Counter[str] = field(default_factory=Counter)
    """By the label of their `Refusal`: partitions of produce and fetch, and other requests."""
    mirror_fetch_bytes: Counter[str] = field(default_factory=Counter)
    """Of records that readers were given from copies, by the cluster of the copy."""
    mirror_fetch_near_bytes: Counter[str] = field(default_factory=Counter)
    """Of these, what did not leave its zone: client, gateway and the copy's cluster are known to be in the same one."""
    throttled: Counter[str] = field(default_factory=Counter)
    """Requests whose client had to wait behind them, by what it had used too much of: `produce`, `fetch`, `request`."""
    throttled_s: defaultdict[str, float] = field(default_factory=lambda: defaultdict(float))
    """For how long no request was taken for that reason."""
    discovery_delayed: Counter[str] = field(default_factory=Counter)
    """Requests for metadata, coordinators and producer ids that came too often, by the limit that said so."""
    discovery_delayed_s: float = 0.0
    foreign: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Connections that began with another protocol, by the listener's (`plain`, `tls`) and that."""
    handshakes: Counter[str] = field(default_factory=Counter)
    """Of TLS, by what became of them: `done`, `failed`, `left`, `late`."""
    bytes_from_clients: int = 0
    bytes_to_clients: int = 0
    bytes_from_brokers: int = 0
    bytes_to_brokers: int = 0
    composed: Histogram = field(default_factory=_composed)
    """By API."""


def api_label(key: int) -> str:
    return ApiKey(key).name.lower() if key in ApiKey._value2member_map_ else "unknown"
