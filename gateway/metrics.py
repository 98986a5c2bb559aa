"""What a gateway shows to Prometheus: `switchyard_gateway_…`.

No metric has a label that clients choose (user, topic, client id): each new value would stay in memory for ever.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from gateway import clock
from gateway.counts import Counts
from gateway.driver.gateway import Gateway
from ha_core.wire.codes import ApiKey

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """A registry of one gateway's metrics; several gateways may live in one process."""

    def __init__(self, gateway: Gateway, counts: Counts | None = None) -> None:
        self.counts = counts or Counts()
        self._gateway = gateway
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def render(self) -> bytes:
        """The text that Prometheus scrapes."""
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        yield from self._state()
        yield from self._clients()
        yield from self._clusters()
        yield from self._traffic()

    def _state(self) -> Iterable[Metric]:
        gateway, now = self._gateway, clock.now()
        yield _gauge("ready", "Whether clients should be sent here.", not gateway.unready)
        yield _gauge("revision", "Revision of the state that every session follows.", gateway.snapshot.view.revision)
        left_s = max(0.0, gateway.lease.valid_until - now)
        yield _gauge("lease_left_seconds", "How long produce may still be forwarded without a confirmation.", left_s)
        yield _gauge(
            "unreadable_documents", "Documents in ZooKeeper that this version cannot read.", len(gateway.unreadable)
        )

    def _clients(self) -> Iterable[Metric]:
        gateway = self._gateway
        yield _gauge("connections", "Open client connections.", len(gateway.clients.open))
        yield _counter("connections_accepted", "Client connections accepted.", gateway.clients.accepted)
        yield _counter("connections_turned_away", "Client connections above the limit.", gateway.clients.turned_away)
        ended = CounterMetricFamily(_name("connections_ended"), "Client connections ended.", labels=["cause"])
        for cause, count in dict(gateway.clients.ended).items():
            ended.add_metric([cause], count)
        yield ended

    def _clusters(self) -> Iterable[Metric]:
        reachable = GaugeMetricFamily(_name("cluster_reachable"), "Whether the cluster answers.", labels=["cluster"])
        masked = GaugeMetricFamily(_name("cluster_masked"), "Whether operators took it away.", labels=["cluster"])
        dials = CounterMetricFamily(_name("upstream_dials"), "Connections dialled.", labels=["cluster", "outcome"])
        snapshot = self._gateway.snapshot
        for name, cluster in snapshot.view.clusters.items():
            reachable.add_metric([name], snapshot.topology.reachable(name))
            masked.add_metric([name], cluster.masked is not None)
        for name, upstream in dict(self._gateway.upstream.clusters).items():
            dials.add_metric([name, "connected"], upstream.dials - upstream.failed_dials)
            dials.add_metric([name, "failed"], upstream.failed_dials)
        yield from (reachable, masked, dials)
        yield from self._known()

    def _known(self) -> Iterable[Metric]:
        recorder, clusters = self._gateway.members.recorder, self._gateway.snapshot.view.clusters
        yield _gauge("records_facts", "Whether this gateway records what is known of clusters.", recorder.running)
        looked = GaugeMetricFamily(
            _name("facts_recorded_timestamp_seconds"),
            "When this gateway has last recorded what is known of a cluster.",
            labels=["cluster"],
        )
        for name, ended_s in dict(recorder.looked_at).items():
            if name in clusters:
                looked.add_metric([name], ended_s)
        yield looked

    def _traffic(self) -> Iterable[Metric]:
        counts = self.counts
        requests = CounterMetricFamily(_name("requests"), "Requests of clients.", labels=["api", "outcome"])
        for (key, outcome), count in dict(counts.requests).items():
            requests.add_metric([_api(key), outcome], count)
        refusals = CounterMetricFamily(_name("refusals"), "Retriable refusals.", labels=["cause"])
        for cause, count in dict(counts.refusals).items():
            refusals.add_metric([cause], count)
        data = CounterMetricFamily(_name("bytes"), "Bytes of the data path.", labels=["side", "direction"])
        data.add_metric(["client", "in"], counts.bytes_from_clients)
        data.add_metric(["client", "out"], counts.bytes_to_clients)
        data.add_metric(["broker", "in"], counts.bytes_from_brokers)
        data.add_metric(["broker", "out"], counts.bytes_to_brokers)
        composed = HistogramMetricFamily(
            _name("composed_request_seconds"), "Time to compose an answer out of several clusters.", labels=["api"]
        )
        for key, durations in dict(counts.composed).items():
            composed.add_metric([_api(key)], durations.buckets(), durations.sum_s)
        yield from (requests, refusals, data, composed)


def _name(name: str) -> str:
    return f"switchyard_gateway_{name}"


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(_name(name), text, float(value))


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(_name(name), text, float(value))


def _api(key: int) -> str:
    return ApiKey(key).name.lower() if key in ApiKey._value2member_map_ else "unknown"
