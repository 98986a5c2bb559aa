"""Prometheus metrics of a worker: MirrorMaker 2's, under the names that dashboards use, and Switchyard's own.

The names are those that Strimzi's JMX exporter gives to MirrorMaker 2's MBeans. `metric.names.formats` chooses between
the forms of KIP-382 (`legacy`) and KIP-1280, since Kafka 4.3 (`new`). `docs/guides/mirror-maker.md` has the table.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import NamedTuple

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ha_core.metrics.http import Families, render
from ha_core.metrics.process import ProcessMetrics
from ha_core.mirror.measures import CopyMeasures
from ha_core.mirror.sampled import Recent, Sampled
from ha_core.mirror_maker.running_flow import RunningFlow
from ha_core.mirror_maker.states import FlowState, state_of

MOST_PARTITIONS = 20_000
"""Maximum number of partitions with their own metrics, per worker."""
_families = Families("switchyard_flow_")
_FLOW = ("flow",)
_PARTITION = ("source", "target", "topic", "partition")
_GROUP = ("source", "target", "group", "topic", "partition")


class _Form(NamedTuple):
    """Names of the metrics in one format.

    :ivar source: prefix of the source connector's metrics.
    :ivar checkpoint: prefix of the checkpoint connector's metrics.
    :ivar source_labels: additional labels of each of the source connector's metrics.
    :ivar checkpoint_labels: additional labels of each of the checkpoint connector's metrics.
    """

    source: str
    checkpoint: str
    source_labels: Mapping[str, str] = {}
    checkpoint_labels: Mapping[str, str] = {}


_MIRROR = "kafka_connect_mirror_"
FORMS = {
    "legacy": _Form(f"{_MIRROR}mirrorsourceconnector_", f"{_MIRROR}mirrorcheckpointconnector_"),
    "new": _Form(
        "kafka_connect_plugins_",
        "kafka_connect_plugins_",
        {"connector": "MirrorSourceConnector"},
        {"connector": "MirrorCheckpointConnector"},
    ),
}
"""Value of `metric.names.formats` → names."""


_SAMPLED: Mapping[str, tuple[str, Callable[[CopyMeasures], Sampled]]] = {
    "record_bytes": ("Bytes of a batch for each of its records.", attrgetter("record_bytes")),
    "record_age_ms": ("Age of records when they are sent to the target.", attrgetter("age_ms")),
    "replication_latency_ms": ("Age of records when the target has them.", attrgetter("latency_ms")),
}


class FlowMetrics:
    """Renders the metrics of the running flows; from any thread."""

    def __init__(self, running: Callable[[], Iterable[RunningFlow]]) -> None:
        self._running = running
        self._process = ProcessMetrics()

    def render(self) -> bytes:
        return render(self, self._process)

    def collect(self) -> Iterable[Metric]:
        flows = list(self._running())
        yield from _own([state_of(flow) for flow in flows], flows)
        for name, form in FORMS.items():
            of_form = [flow for flow in flows if name in flow.flow.metric_formats]
            if of_form:
                yield from _copy_metrics(form, of_form)
                yield from _checkpoint_metrics(form, of_form)


def _copy_metrics(form: _Form, flows: Iterable[RunningFlow]) -> Iterator[Metric]:
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    found: list[tuple[tuple[str, ...], CopyMeasures, float]] = []
    for flow in flows:
        if flow.parts is None:
            continue
        statuses = flow.parts.copier.statuses()
        for id_, measures in flow.parts.copier.measures().items():
            its = flow.flow.source, flow.flow.target, id_.topic, str(id_.partition)
            found.append((its, measures, statuses[id_].bytes_s if id_ in statuses else 0.0))
    shown = sorted(found, key=lambda one: -one[1].records)[:MOST_PARTITIONS]
    labels = (*_PARTITION, *form.source_labels)
    more = tuple(form.source_labels.values())
    counts = CounterMetricFamily(f"{form.source}record_count", "Records replicated to the target.", labels=labels)
    sizes = CounterMetricFamily(f"{form.source}byte_count", "Bytes replicated to the target.", labels=labels)
    rates = GaugeMetricFamily(f"{form.source}byte_rate", "Bytes replicated per second.", labels=labels)
    for values, measures, bytes_s in shown:
        counts.add_metric((*values, *more), measures.records)
        sizes.add_metric((*values, *more), measures.bytes)
        rates.add_metric((*values, *more), bytes_s)
    # Kafka's MBeans are called `record-count`: exporters keep that name, without Prometheus' suffix.
    yield from (_without_suffix(counts), _without_suffix(sizes), rates)
    for name, (text, sampled) in _SAMPLED.items():
        recents = {(*values, *more): sampled(measures).recent(now) for values, measures, _ in shown}
        yield from _spread(f"{form.source}{name}", text, labels, recents)


def _checkpoint_metrics(form: _Form, flows: Iterable[RunningFlow]) -> Iterator[Metric]:
    now = time.monotonic()
    labels, more = (*_GROUP, *form.checkpoint_labels), tuple(form.checkpoint_labels.values())
    recents: dict[tuple[str, ...], Recent | None] = {}
    for flow in flows:
        if flow.parts is None or flow.parts.groups is None:
            continue
        for (group, topic, partition), sampled in list(flow.parts.groups.latency_ms.items())[:MOST_PARTITIONS]:
            values = flow.flow.source, flow.flow.target, group, topic, str(partition)
            recents[*values, *more] = sampled.recent(now)
    text = "Time from reading a group's offset to the acknowledgement of its checkpoint."
    yield from _spread(f"{form.checkpoint}checkpoint_latency_ms", text, labels, recents)


def _spread(
    name: str, text: str, labels: tuple[str, ...], recents: Mapping[tuple[str, ...], Recent | None]
) -> Iterator[Metric]:
    """Last value, minimum, maximum and average. Partitions without a recent measurement are left out: unknown is not
    0."""
    families = {
        suffix: GaugeMetricFamily(f"{name}{suffix}", text, labels=labels) for suffix in ("", "_min", "_max", "_avg")
    }
    for values, recent in recents.items():
        if recent is not None:
            for family, value in zip(
                families.values(), (recent.last, recent.least, recent.most, recent.average), strict=True
            ):
                family.add_metric(values, value)
    yield from families.values()


def _without_suffix(counter: CounterMetricFamily) -> Metric:
    """The counter as a gauge, as JMX exporters show it."""
    gauge = Metric(counter.name, counter.documentation, "gauge")
    gauge.samples = [sample._replace(name=counter.name) for sample in counter.samples]
    return gauge


def _own(states: Iterable[FlowState], flows: Iterable[RunningFlow]) -> Iterator[Metric]:
    by_flow = {(state.flow,): state for state in states}
    up = {key: not state.trouble for key, state in by_flow.items()}
    yield _families.gauge("up", "1 if the flow has started.", up, *_FLOW)
    topics = {key: state.topics for key, state in by_flow.items()}
    yield _families.gauge("topics", "Topics that the flow copies.", topics, *_FLOW)
    partitions = {
        (*key, name): state.partitions.get(name, 0)
        for key, state in by_flow.items()
        for name in ("copying", "waiting", "stopped")
    }
    text = "Partitions of this worker; stopped ones need an operator."
    yield _families.gauge("partitions", text, partitions, *_FLOW, "state")
    lags = {key: state.lag_records for key, state in by_flow.items() if state.lag_records is not None}
    yield _families.gauge("lag_records", "Records that are not copied yet; missing if not known.", lags, *_FLOW)
    times = {key: state.lag_ms / 1000 for key, state in by_flow.items() if state.lag_ms is not None}
    yield _families.gauge("longest_lag_seconds", "The longest lag by timestamps of records.", times, *_FLOW)
    skipped = {key: state.skipped_topics_in_all for key, state in by_flow.items()}
    yield _families.gauge("skipped_topics", "Topics that the flow names and does not copy now.", skipped, *_FLOW)
    groups = {key: state.skipped_groups_in_all for key, state in by_flow.items()}
    yield _families.gauge("skipped_groups", "Groups without a checkpoint, or partitions of them.", groups, *_FLOW)
    failing = {(*key, name): bool(why) for key, state in by_flow.items() for name, why in state.duties.items()}
    yield _families.gauge("duty_failing", "1 if the last round of a duty failed.", failing, *_FLOW, "duty")
    offsets = {(*key, name): count for key, state in by_flow.items() for name, count in state.offsets.items()}
    yield _families.gauge("translated_offsets", "Group offsets by precision.", offsets, *_FLOW, "precision")
    hops = {
        (flow.flow.name, "->".join(path)): age_ms / 1000
        for flow in flows
        if flow.parts is not None
        for path, age_ms in flow.parts.end_to_end.age_ms().items()
    }
    text = "Age of the newest heartbeat that came to the target over these hops."
    yield _families.gauge("heartbeat_age_seconds", text, hops, *_FLOW, "path")
