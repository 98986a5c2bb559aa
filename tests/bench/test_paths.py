"""The tables of paths that were measured in turns."""

import pytest

from bench.gateway import parse
from bench.ground import BenchError
from bench.paths import Path, SingleRequests, call_table, flow_table

DIRECT = Path("direct", "a:1", None, "t")
GATEWAY = Path("gateway", "a:2", 4711, "t", "direct")


def test_a_load_is_compared_with_its_base_round_by_round() -> None:
    # Given a second round in which the whole machine was ten times slower
    found = {
        "direct": {"mb_s": [100.0, 10.0], "cpu_s_per_gb": [0.0, 0.0], "broker_s_per_gb": [2.0, 4.0]},
        "gateway": {"mb_s": [90.0, 9.0], "cpu_s_per_gb": [1.0, 2.0], "broker_s_per_gb": [2.0, 4.0]},
    }

    rows = flow_table([DIRECT, GATEWAY], {"produce": found}, with_broker=True).rows

    assert rows == (
        ("produce", "direct", "55", "1.00", "-", "3.0", "3.0"),
        ("produce", "gateway", "50", "0.90", "1.5", "3.0", "4.5"),
    )


def test_a_request_shows_the_latency_that_its_path_adds() -> None:
    found = {
        "direct": {"seconds": [100e-6, 200e-6], "cpu_us": []},
        "gateway": {"seconds": [150e-6, 290e-6], "cpu_us": [80.0]},
    }

    rows = call_table([DIRECT, GATEWAY], {SingleRequests("fetch"): found}).rows

    assert rows == (
        ("fetch", "1,024 B", "1", "direct", "100 / 200", "-"),
        ("fetch", "1,024 B", "1", "gateway", "50 / 90", "80"),
    )


@pytest.mark.parametrize("text", ["gateway", "gateway=host", "gateway=host:1,x", "=host:1"])
def test_a_path_of_another_form_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(BenchError, match=r"as in gateway=127\.0\.0\.1:9092,4711"):
        parse([text], "t")


def test_the_first_path_is_the_base_of_the_others() -> None:
    paths = parse(["direct=a:1", "gateway=a:2,7"], "t")

    assert [(path.name, path.pid, path.base) for path in paths] == [("direct", None, None), ("gateway", 7, "direct")]
