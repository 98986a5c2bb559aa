"""Prometheus metrics of the job that copies mirrors."""

from collections.abc import Iterator

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ha_core.model import Mirror, MirrorReport, MirrorSync, PairWork, PartitionReport, SyncFinding
from ha_core.model.mirror_job import OffsetKind
from spark_jobs.inputs import InputError
from spark_jobs.mirror import metrics as metrics_module
from spark_jobs.mirror.job import serving
from spark_jobs.mirror.metrics import MirrorMetrics

ORDERS = Mirror.of("orders", "east", "west", "link-1", "2026-11-23T02:00:00Z", "ann")
PAIR = {"source": "east", "target": "west"}


def samples(metrics: MirrorMetrics) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    families = text_string_to_metric_families(metrics.render().decode())
    return {(one.name, frozenset(one.labels.items())): one.value for family in families for one in family.samples}


def value(metrics: MirrorMetrics, name: str, **labels: str) -> float | None:
    return samples(metrics).get((f"switchyard_mirror_{name}", frozenset(labels.items())))


def part(partition: int, lag: int = 0) -> PartitionReport:
    return PartitionReport(
        mirror=ORDERS.key, topic="orders", partition=partition, state="copying", source_end=lag,
        lag_records=lag, lag_bytes=100 * lag, lag_ms=1_500, rpo_s=2, bytes_s=300,
    )  # fmt: skip


def report(*parts: PartitionReport, slot: int = 0, task: str = "a", copied: int = 0, left_out: int = 0) -> MirrorReport:
    work = PairWork(id=task, source="east", target="west", copied_bytes=10 * copied, copied_records=copied, takeovers=1)
    return MirrorReport(slot=slot, job="j", partitions=parts, work=(work,), left_out=left_out)


def test_partitions_that_no_task_reports_are_counted_while_the_driver_leads() -> None:
    metrics = MirrorMetrics()

    metrics.follow([ORDERS], {0: report(part(0), left_out=3)}, wanted=6)

    assert value(metrics, "untended_partitions") == 2
    metrics.follow([ORDERS], {0: report(part(0), part(1))}, wanted=2)
    assert value(metrics, "untended_partitions") == 0
    metrics.follow([ORDERS], {}, wanted=2)
    assert value(metrics, "untended_partitions") == 2
    metrics.leave()
    assert value(metrics, "untended_partitions") == 0


def test_lags_are_shown_per_partition_and_per_pair_of_clusters() -> None:
    metrics = MirrorMetrics()
    stopped = part(1).changed(
        state="stopped", source_end=None, lag_records=None, lag_bytes=None, lag_ms=None, rpo_s=70, reason="why"
    )

    metrics.follow([ORDERS], {0: report(part(0, 4), stopped), 1: report(part(2, 6), slot=1, task="b", left_out=3)})

    of_one = {**PAIR, "topic": "orders", "partition": "0"}
    found = [value(metrics, f"lag_{unit}", **of_one) for unit in ("records", "bytes", "seconds")]
    assert found == [4, 400, 1.5]
    assert value(metrics, "bytes_per_second", **of_one) == 300
    assert value(metrics, "rpo_seconds", **{**of_one, "partition": "1"}) == 70
    assert value(metrics, "lag_records", **{**of_one, "partition": "1"}) is None
    assert value(metrics, "total_lag_records", **PAIR) == 10
    assert value(metrics, "unknown_lag_partitions", **PAIR) == 1
    assert value(metrics, "longest_rpo_seconds", **PAIR) == 70
    assert value(metrics, "partitions", **PAIR, state="stopped") == 1
    assert value(metrics, "partitions", **PAIR, state="copying") == 2
    assert value(metrics, "unreported_partitions") == 3
    assert (value(metrics, "leads"), value(metrics, "mirrors")) == (1, 1)


def test_groups_are_counted_by_the_offsets_that_the_target_gets_of_them() -> None:
    # Given a sync with a group in a wrong kind
    metrics = MirrorMetrics()
    findings = (
        SyncFinding(what="offsets", about="group till", reason="both ways", stop=True),
        SyncFinding(what="offsets", about="group late", reason="it has members"),
    )
    kinds: dict[OffsetKind, int] = {"client": 7, "translated": 2}
    metrics.synced(MirrorSync.of("east", "west", "groups", "t", 9, findings, kinds))
    # When this driver leads
    assert value(metrics, "groups", **PAIR, offsets="client") is None
    metrics.follow([ORDERS], {0: report(part(0))})
    # Then
    assert [value(metrics, "groups", **PAIR, offsets=kind) for kind in ("client", "translated")] == [7, 2]
    assert value(metrics, "groups_stopped", **PAIR) == 1


def test_counters_sum_up_all_tasks_and_never_fall_or_count_twice() -> None:
    metrics = MirrorMetrics()
    metrics.follow([ORDERS], {0: report(copied=5), 1: report(slot=1, task="b", copied=7)})
    assert value(metrics, "copied_records_total", **PAIR) == 12
    # When a task dies, the next one of its slot begins at zero, and a report is missing for a moment
    metrics.follow([ORDERS], {0: report(task="c", copied=2)})
    metrics.follow([ORDERS], {0: report(task="c", copied=3), 1: report(slot=1, task="b", copied=9)})
    assert value(metrics, "copied_records_total", **PAIR) == 5 + 9 + 3
    assert value(metrics, "copied_bytes_total", **PAIR) == 170
    assert value(metrics, "takeovers_total", **PAIR) == 3
    # And when the lead is lost, another driver shows the lags
    metrics.leave()
    assert (value(metrics, "leads"), value(metrics, "copied_records_total", **PAIR)) == (0, 17)
    assert value(metrics, "partitions", **PAIR, state="copying") is None


def test_new_mirror_has_counters_at_zero() -> None:
    metrics = MirrorMetrics()
    metrics.follow([ORDERS], {})
    assert value(metrics, "copied_records_total", **PAIR) == 0
    assert value(metrics, "partitions", **PAIR, state="copying") == 0


def test_number_of_shown_partitions_is_bounded_and_the_worst_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_module, "MOST_PARTITIONS", 2)
    metrics = MirrorMetrics()

    metrics.follow([ORDERS], {0: report(part(0), part(1, 9), part(2).changed(state="waiting"))})

    shown = {dict(labels)["partition"] for name, labels in samples(metrics) if name == "switchyard_mirror_rpo_seconds"}
    assert shown == {"1", "2"}
    assert value(metrics, "total_lag_records", **PAIR) == 9


@pytest.fixture
def port() -> Iterator[int]:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as free:
        yield int(free.getsockname()[1])


def test_metrics_are_served_and_a_port_that_is_taken_is_named(port: int) -> None:
    with (
        pytest.raises(InputError, match=f"127.0.0.1:{port}.*--metrics-port"),
        serving(MirrorMetrics(), ("127.0.0.1", port)),
    ):
        pass


def test_without_a_port_nothing_is_served() -> None:
    with serving(MirrorMetrics(), None):
        pass


def test_prometheus_accepts_the_text() -> None:
    from ha_core.metrics.http import HttpServer

    server = HttpServer("127.0.0.1", 0, MirrorMetrics().render, tuple, "a port")
    try:
        answer = httpx.get(f"http://127.0.0.1:{server.start()}/metrics")
    finally:
        server.stop()
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "switchyard_mirror_leads 0.0" in answer.text
