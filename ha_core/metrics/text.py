"""Metrics in Prometheus' format: gauges and counters of values that are counted elsewhere, made at each scrape."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from prometheus_client import disable_created_metrics, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Samples = float | Mapping[Any, float]
"""By label, or by the tuple of all labels where there are several."""

disable_created_metrics()  # type: ignore[no-untyped-call]


def render(collector: Collector) -> bytes:
    return generate_latest(collector)


class Families:
    """Metrics of one part of Switchyard, whose names begin alike."""

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    def gauge(self, name: str, text: str, samples: Samples, *labels: str) -> Metric:
        return _filled(GaugeMetricFamily(self._prefix + name, text, labels=labels), samples)

    def counter(self, name: str, text: str, samples: Samples, *labels: str) -> Metric:
        return _filled(CounterMetricFamily(self._prefix + name, text, labels=labels), samples)


def _filled(family: GaugeMetricFamily | CounterMetricFamily, samples: Samples) -> Metric:
    for labels, value in samples.items() if isinstance(samples, Mapping) else [((), samples)]:
        family.add_metric([labels] if isinstance(labels, str) else labels, value)
    return family
