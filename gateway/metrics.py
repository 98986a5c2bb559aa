"""What a gateway shows to Prometheus: `switchyard_gateway_…`.

No metric has a label that clients choose (user, topic, client id): each new value would stay in memory for ever.
"""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from gateway import clock
from gateway.driver.gateway import Gateway
from ha_core.wire.codes import ApiKey

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """A registry of one gateway's metrics; several gateways may live in one process."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def render(self) -> bytes:
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
        causes = [([cause], count) for cause, count in dict(gateway.clients.ended).items()]
        yield _labelled(CounterMetricFamily, "connections_ended", "Client connections ended.", ["cause"], causes)

    def _clusters(self) -> Iterable[Metric]:
        snapshot = self._gateway.snapshot
        clusters = snapshot.view.clusters
        reachable = [([name], snapshot.topology.reachable(name)) for name in clusters]
        masked = [([name], cluster.masked is not None) for name, cluster in clusters.items()]
        dials = [
            dialled
            for name, upstream in dict(self._gateway.upstream.clusters).items()
            for dialled in (
                ([name, "connected"], upstream.dialling.begun - upstream.dialling.failed),
                ([name, "failed"], upstream.dialling.failed),
            )
        ]
        one = ["cluster"]
        yield _labelled(GaugeMetricFamily, "cluster_reachable", "Whether the cluster answers.", one, reachable)
        yield _labelled(GaugeMetricFamily, "cluster_masked", "Whether operators took it away.", one, masked)
        yield _labelled(CounterMetricFamily, "upstream_dials", "Connections dialled.", ["cluster", "outcome"], dials)
        recorder = self._gateway.members.recorder
        yield _gauge("records_facts", "Whether this gateway records what is known of clusters.", recorder.running)
        text = "When this gateway has last recorded what is known of a cluster."
        looked = [([name], ended_s) for name, ended_s in dict(recorder.looked_at).items() if name in clusters]
        yield _labelled(GaugeMetricFamily, "facts_recorded_timestamp_seconds", text, one, looked)

    def _traffic(self) -> Iterable[Metric]:
        counts = self._gateway.counts
        requests = [([_api(key), outcome], count) for (key, outcome), count in dict(counts.requests).items()]
        yield _labelled(CounterMetricFamily, "requests", "Requests of clients.", ["api", "outcome"], requests)
        refusals = [([cause], count) for cause, count in dict(counts.refusals).items()]
        yield _labelled(CounterMetricFamily, "refusals", "Partitions and requests refused.", ["cause"], refusals)
        data = [
            (["client", "in"], counts.bytes_from_clients),
            (["client", "out"], counts.bytes_to_clients),
            (["broker", "in"], counts.bytes_from_brokers),
            (["broker", "out"], counts.bytes_to_brokers),
        ]
        yield _labelled(CounterMetricFamily, "bytes", "Bytes of the data path.", ["side", "direction"], data)
        text = "Time to compose an answer out of several clusters."
        composed = HistogramMetricFamily(_name("composed_request_seconds"), text, labels=["api"])
        for key, durations in dict(counts.composed).items():
            composed.add_metric([_api(key)], durations.buckets(), durations.sum_s)
        yield composed


def _name(name: str) -> str:
    return f"switchyard_gateway_{name}"


def _labelled(
    kind: type[CounterMetricFamily | GaugeMetricFamily],
    name: str,
    text: str,
    labels: list[str],
    samples: Iterable[tuple[list[str], float]],
) -> Metric:
    family = kind(_name(name), text, labels=labels)
    for values, value in samples:
        family.add_metric(values, value)
    return family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(_name(name), text, float(value))


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(_name(name), text, float(value))


def _api(key: int) -> str:
    return ApiKey(key).name.lower() if key in ApiKey._value2member_map_ else "unknown"
