"""The metrics of several workers as those of one gateway."""

from prometheus_client.core import Metric

from gateway.process.workers.totals import Totals

TEXT = """\
# HELP switchyard_gateway_requests_total Requests.
# TYPE switchyard_gateway_requests_total counter
switchyard_gateway_requests_total{{api="fetch"}} {fetches}
switchyard_gateway_requests_total{{api="produce"}} 10
# HELP switchyard_gateway_connections Open.
# TYPE switchyard_gateway_connections gauge
switchyard_gateway_connections {connections}
# HELP switchyard_gateway_revision Revision.
# TYPE switchyard_gateway_revision gauge
switchyard_gateway_revision {revision}
# HELP switchyard_gateway_cluster_out_of_date_seconds Age.
# TYPE switchyard_gateway_cluster_out_of_date_seconds gauge
switchyard_gateway_cluster_out_of_date_seconds{{cluster="east"}} {revision}
# HELP switchyard_gateway_composed_request_seconds Time.
# TYPE switchyard_gateway_composed_request_seconds histogram
switchyard_gateway_composed_request_seconds_bucket{{api="metadata",le="0.1"}} 1
switchyard_gateway_composed_request_seconds_bucket{{api="metadata",le="+Inf"}} 2
switchyard_gateway_composed_request_seconds_count{{api="metadata"}} 2
switchyard_gateway_composed_request_seconds_sum{{api="metadata"}} 0.5
"""


def text(fetches: int = 1, connections: int = 3, revision: int = 5) -> bytes:
    return TEXT.format(fetches=fetches, connections=connections, revision=revision).encode()


def values(metrics: list[Metric]) -> dict[str, float]:
    """Name and labels' values → value, without the common prefix of names."""
    return {
        " ".join([sample.name.removeprefix("switchyard_gateway_"), *sample.labels.values()]): sample.value
        for metric in metrics
        for sample in metric.samples
    }


def begun(*starts: int) -> Totals:
    totals = Totals()
    for start in starts:
        totals.began(start)
    return totals


def test_counters_are_summed_by_name_and_labels_and_histograms_by_bucket() -> None:
    found = values(begun(1, 2).of({1: text(fetches=1, connections=3), 2: text(fetches=4, connections=2)}))
    assert found["requests_total fetch"] == 5
    assert found["requests_total produce"] == 20
    assert found["connections"] == 5
    assert found["composed_request_seconds_bucket metadata 0.1"] == 2
    assert found["composed_request_seconds_bucket metadata +Inf"] == 4
    assert found["composed_request_seconds_sum metadata"] == 1.0


def test_gauges_of_a_shared_fact_take_the_worst_value() -> None:
    found = values(begun(1, 2).of({1: text(revision=5), 2: text(revision=7)}))
    assert found["revision"] == 5
    assert found["cluster_out_of_date_seconds east"] == 7


def test_a_counter_does_not_fall_when_a_worker_dies_and_another_one_begins() -> None:
    # Given
    totals = begun(1, 2)
    totals.of({1: text(fetches=100), 2: text(fetches=1)})
    # When
    totals.ended(2)
    totals.began(3)
    # Then
    assert values(totals.of({1: text(fetches=100)}))["requests_total fetch"] == 101
    assert values(totals.of({1: text(fetches=100), 3: text(fetches=2)}))["requests_total fetch"] == 103


def test_a_worker_that_does_not_answer_counts_with_its_last_answer() -> None:
    totals = begun(1, 2)
    totals.of({1: text(fetches=100), 2: text(fetches=1)})
    found = values(totals.of({1: text(fetches=101)}))
    assert found["requests_total fetch"] == 102
    assert found["connections"] == 3


def test_an_answer_that_comes_after_its_workers_end_is_not_counted_twice() -> None:
    totals = begun(1)
    late = text(fetches=9)
    totals.of({1: late})
    totals.ended(1)
    assert values(totals.of({1: late}))["requests_total fetch"] == 9
