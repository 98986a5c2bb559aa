"""Merges the metrics of all workers into those of one gateway, by name and labels.

Counters and histograms are summed. Gauges of a shared fact take the value of the worker that is worst off, so that an
alarm fires for one of many workers as it does for a gateway of one process.

A counter never falls while the parent lives: a worker's last counts stay while it does not answer, and after it has
died and a new one has begun at zero.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from gateway.model.counts import PREFIX

Sample = tuple[str, tuple[tuple[str, str], ...]]
"""Name and labels."""
Combine = Callable[[Iterable[float]], float]

_WORST: Mapping[str, Combine] = {
    "ready": min,
    "revision": min,
    "lease_left_seconds": min,
    "unreadable_documents": max,
    "certificate_expires_timestamp_seconds": min,
    "fences": max,
    "fence_oldest_seconds": max,
    "cluster_reachable": min,
    "cluster_brokers_away": max,
    "cluster_leaderless_partitions": max,
    "cluster_out_of_date_seconds": max,
    "cluster_masked": max,
    "facts_recorded_timestamp_seconds": max,
    "access_rules": min,
    "access_rules_unreadable": max,
    "settings_unreadable": max,
    "quotas": min,
    "quotas_unreadable": max,
    "platform_commit_timestamp_seconds": min,
    "platform_age_seconds": max,
    "platform_unreadable": max,
    "platform_entries": min,
    "platform_members": max,
    "platform_left_out": max,
    "platform_not_kept": max,
    "platform_unreadable_entries": max,
}
"""Gauges that are not summed."""
WORST: Mapping[str, Combine] = {
    **{PREFIX + name: combine for name, combine in _WORST.items()},
    "process_start_time_seconds": min,
    "process_open_fds": max,
    "process_max_fds": min,
    "switchyard_build_info": max,
    "switchyard_state_looked_timestamp_seconds": max,
    "switchyard_state_look_due_timestamp_seconds": max,
}


class Totals:
    """Read in callers' threads, fed by the parent's loop. Each start of a worker has a number of its own."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._last: dict[int, dict[Sample, float]] = {}
        """Start → its counters at the last answer, of workers that live."""
        self._carried: dict[Sample, float] = {}
        """Counted by workers that have ended."""
        self._shapes: dict[str, Metric] = {}
        """Name → type and help of a family of counters."""

    def began(self, start: int) -> None:
        with self._guard:
            self._last[start] = {}

    def ended(self, start: int) -> None:
        """The next process counts from zero."""
        with self._guard:
            for sample, value in self._last.pop(start, {}).items():
                self._carried[sample] = self._carried.get(sample, 0.0) + value

    def of(self, texts: Mapping[int, bytes]) -> list[Metric]:
        """:param texts: start → the metrics text of each worker that has answered."""
        gauges: dict[str, tuple[Metric, dict[Sample, list[float]]]] = {}
        with self._guard:
            for start, text in texts.items():
                if start not in self._last:
                    continue  # it has ended since
                for family in text_string_to_metric_families(text.decode()):
                    samples = {(each.name, tuple(sorted(each.labels.items()))): each.value for each in family.samples}
                    if family.type == "gauge":
                        _, kept = gauges.setdefault(family.name, (_empty(family), {}))
                        for sample, value in samples.items():
                            kept.setdefault(sample, []).append(value)
                    else:
                        self._shapes.setdefault(family.name, _empty(family))
                        self._last[start] |= samples
            return [*_combined(gauges), *self._counted()]

    def _counted(self) -> Iterable[Metric]:
        sums = dict(self._carried)
        for counted in self._last.values():
            for sample, value in counted.items():
                sums[sample] = sums.get(sample, 0.0) + value
        names = {name + suffix: name for name in self._shapes for suffix in ("", "_total", "_bucket", "_sum", "_count")}
        by_family: dict[str, list[tuple[Sample, float]]] = {}
        for sample, value in sums.items():
            by_family.setdefault(names[sample[0]], []).append((sample, value))
        for name, shape in self._shapes.items():
            yield _filled(shape, by_family.get(name, ()))


def _combined(gauges: Mapping[str, tuple[Metric, dict[Sample, list[float]]]]) -> Iterable[Metric]:
    for name, (shape, samples) in gauges.items():
        combine = WORST.get(name, sum)
        yield _filled(shape, [(sample, combine(values)) for sample, values in samples.items()])


def _filled(shape: Metric, samples: Collection[tuple[Sample, float]]) -> Metric:
    family = _empty(shape)
    for (name, labels), value in samples:
        family.add_sample(name, dict(labels), value)
    return family


def _empty(family: Metric) -> Metric:
    return Metric(family.name, family.documentation, family.type)
