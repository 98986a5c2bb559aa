"""Health, readiness and metrics as probes and Prometheus see them."""

import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from gateway.config import Config
from gateway.model.counts import Counts
from gateway.model.topology import ClusterTopology, Topology
from gateway.process.metrics import GatewayMetrics
from gateway.quotas.charges import Meters
from gateway.runtime.loop_lag import LoopLag
from gateway.session.snapshot import Lease, Snapshot
from ha_core.metrics.http import HttpServer
from ha_core.model import Cluster, Mask, View
from ha_core.operations.overview.measures import CrossingPartitions, RunningOperations, StateMeasures

CONFIG = Config.model_validate({"id": "gw-1", "zookeeper": {"hosts": "z:1"}, "authentication": {"anonymous": True}})
STATE = StateMeasures(
    operations=(RunningOperations("switch", "fenced", 2, 31.5),),
    migrations={"Migrating": 1, "Aged": 3},
    crossing=CrossingPartitions(reached=1, short=2, unknown=0, missing_records=70),
    approvals=1,
    approvals_oldest_s=60.0,
    problems={"cluster-away": 1},
).to_json()


def gateway(reasons: list[str], counts: Counts) -> Any:
    clusters = {
        "east": Cluster(name="east", bootstrap="e:1"),
        "west": Cluster(name="west", bootstrap="w:1", masked=Mask(since="", reason="fire", by="ops")),
    }
    east = ClusterTopology("east", reachable=True, brokers_away=frozenset({2}), leaderless=3)
    topology = Topology({"east": east, "west": ClusterTopology("west", brokers_away=frozenset({1}))})
    return SimpleNamespace(
        snapshot=Snapshot(View(revision=17, clusters=clusters), topology),
        lease=Lease(),
        clients=SimpleNamespace(
            open={1, 2},
            accepted=5,
            turned_away=Counter({"max_connections": 1}),
            ended=Counter({"idle": 2}),
            kept_bytes=9,
            brokers=SimpleNamespace(further=6, refused=1),
        ),
        upstream=SimpleNamespace(
            out_of_date={"west": 1e9},
            waiting=Counter(east=3),
            turned_away=Counter(),
            clusters={"east": SimpleNamespace(dialling=SimpleNamespace(begun=4, failed=1), hang_ups=Counter({29: 2}))},
        ),
        members=SimpleNamespace(
            recorder=SimpleNamespace(
                running=True, looked_at={"east": 1e9, "gone": 1e9}, state=STATE, state_at=1e9, state_due_at=1e9 + 15
            ),
        ),
        shared=SimpleNamespace(
            authentication=SimpleNamespace(login_rate_limiter=SimpleNamespace(unchecked=4)),
            held=SimpleNamespace(bytes=7),
        ),
        config=CONFIG,
        settings=None,
        platform=None,
        logins=SimpleNamespace(waiting=1),
        rules=None,
        meters=Meters(),
        quotas=SimpleNamespace(unreadable={"/config/users/x": "why"}, throttled=2),
        unready=reasons,
        counts=counts,
        loop_lag=LoopLag(),
        fenced_since={"switch-1": 0.0},
        unreadable={},
    )


@pytest.fixture
def reasons() -> list[str]:
    return []


@pytest.fixture
def counts() -> Counts:
    return Counts()


@pytest.fixture
def observed(reasons: list[str], counts: Counts) -> Any:
    return gateway(reasons, counts)


@pytest.fixture
def address(observed: Any) -> Iterator[str]:
    server = HttpServer("127.0.0.1", 0, GatewayMetrics(observed).render, lambda: observed.unready, "http.port")
    yield f"http://127.0.0.1:{server.start()}"
    server.stop()


def samples(text: str) -> dict[tuple[str, ...], float]:
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name.removeprefix("switchyard_gateway_"), *sample.labels.values()] = sample.value
    return found


def test_a_gateway_that_lives_is_healthy_whatever_its_clusters_do(address: str, reasons: list[str]) -> None:
    reasons.append("ZooKeeper has not confirmed the lease")

    assert httpx.get(f"{address}/healthz").status_code == 200


def test_a_gateway_is_ready_without_reasons_against_it(address: str) -> None:
    answer = httpx.get(f"{address}/readyz")

    assert (answer.status_code, answer.json()) == (200, {"ready": True, "reasons": []})


def test_a_gateway_that_is_not_ready_says_why(address: str, reasons: list[str]) -> None:
    reasons.append("no listener is open yet")

    answer = httpx.get(f"{address}/readyz")

    assert (answer.status_code, answer.json()["reasons"]) == (503, ["no listener is open yet"])


def test_metrics_show_state_clients_clusters_and_traffic(address: str, counts: Counts) -> None:
    counts.requests[0, "passed"] += 3
    counts.requests[12_345, "refused"] += 1
    counts.refusals["fence"] += 2
    counts.broker_bytes["east"].sent += 100
    counts.composed.labels("metadata").observe(0.003)
    counts.composed.labels("metadata").observe(60.0)

    found = samples(httpx.get(f"{address}/metrics").text)

    assert found["revision",] == 17
    assert found["ready",] == 1
    assert found["lease_left_seconds",] == 0
    assert found["connections",] == 2
    assert found["connections_accepted_total",] == 5
    assert found["connections_ended_total", "idle"] == 2
    assert (found["cluster_reachable", "east"], found["cluster_reachable", "west"]) == (1, 0)
    assert (found["cluster_brokers_away", "east"], found["cluster_leaderless_partitions", "east"]) == (1, 3)
    assert ("cluster_brokers_away", "west") not in found  # of a cluster that is away, nothing is known
    assert found["cluster_masked", "west"] == 1
    assert (found["quotas",], found["quotas_unreadable",], found["quotas_throttled",]) == (0, 1, 2)
    assert found["quota_used_total", "produce"] == 0
    assert (found["logins_braked_total",], found["logins_waiting",], found["access_rules",]) == (4, 1, 0)
    assert found["records_facts",] == 1
    assert [key[1:] for key in found if key[0] == "facts_recorded_timestamp_seconds"] == [("east",)]
    assert found["facts_recorded_timestamp_seconds", "east"] == 1e9
    assert found["upstream_dials_total", "east", "connected"] == 3
    assert found["upstream_dials_total", "east", "failed"] == 1
    assert found["upstream_hang_ups_total", "describe_acls", "east"] == 2
    assert found["requests_total", "produce", "passed"] == 3
    assert found["requests_total", "unknown", "refused"] == 1
    assert found["refusals_total", "fence"] == 2
    assert found["bytes_total", "out", "broker"] == 100
    assert (found["cluster_bytes_total", "east", "out"], found["cluster_bytes_total", "east", "in"]) == (100, 0)
    assert found["composed_request_seconds_bucket", "metadata", "0.0025"] == 0
    assert found["composed_request_seconds_bucket", "metadata", "0.005"] == 1
    assert found["composed_request_seconds_bucket", "metadata", "+Inf"] == 2
    assert found["composed_request_seconds_count", "metadata"] == 2


def test_the_gateway_that_records_facts_shows_the_state_and_no_old_one(address: str, observed: Any) -> None:
    found = samples(httpx.get(f"{address}/metrics").text)

    assert found["switchyard_operations", "switch", "fenced"] == 2
    assert found["switchyard_operations_oldest_seconds", "switch", "fenced"] == 31.5
    assert found["switchyard_migrations", "Migrating"] == 1
    assert found["switchyard_crossing_missing_records",] == 70
    assert found["switchyard_crossing_partitions", "short"] == 2
    assert found["switchyard_approvals_oldest_seconds",] == 60
    assert found["switchyard_problems", "cluster-away"] == 1
    assert found["switchyard_state_look_due_timestamp_seconds",] == 1e9 + 15
    assert (found["fences",], found["process_resident_memory_bytes",] > 0) == (1, True)

    observed.members.recorder.running = False
    gone = samples(httpx.get(f"{address}/metrics").text)

    assert [key for key in gone if key[0].startswith(("switchyard_operations", "switchyard_problems"))] == []


def test_an_unknown_path_names_those_that_exist(address: str) -> None:
    answer = httpx.get(f"{address}/nothing")

    assert answer.status_code == 404
    assert "/readyz" in answer.text


def test_silent_callers_that_hang_up_do_not_keep_others_out(address: str) -> None:
    host, port = address.removeprefix("http://").split(":")
    silent = [socket.create_connection((host, int(port))) for _ in range(40)]
    for caller in silent:
        caller.close()

    with httpx.Client(transport=httpx.HTTPTransport(retries=5)) as client:
        assert client.get(f"{address}/healthz").status_code == 200


def test_a_port_that_is_taken_is_named(address: str) -> None:
    port = int(address.rpartition(":")[2])
    second = HttpServer("127.0.0.1", port, GatewayMetrics(gateway([], Counts())).render, list, "http.port")

    with pytest.raises(OSError, match=rf"http 127\.0\.0\.1:{port}: Address already in use; change http\.port"):
        second.start()


def test_callers_that_never_finish_their_request_do_not_keep_a_probe_out(address: str) -> None:
    # Given more callers than are served at once, each of which says a letter now and then
    host, port = address.removeprefix("http://").split(":")
    callers = [socket.create_connection((host, int(port))) for _ in range(40)]
    for caller in callers:
        caller.sendall(b"G")
    # When a probe comes
    answer = httpx.get(f"{address}/healthz", timeout=2)
    # Then it is answered
    assert answer.status_code == 200
    for caller in callers:
        caller.close()


def test_no_two_metrics_have_the_same_help_text(address: str) -> None:
    # Given all families that a gateway shows
    text = httpx.get(f"{address}/metrics").text
    said = [line.split(" ", 3)[2:] for line in text.splitlines() if line.startswith("# HELP ")]
    # When they are put together by their texts
    named: dict[str, list[str]] = {}
    for name, help_ in said:
        named.setdefault(help_, []).append(name)
    # Then each has one of its own
    assert len(said) > 40
    assert {help_: names for help_, names in named.items() if len(names) > 1} == {}


def test_metrics_are_rendered_for_one_caller_at_a_time() -> None:
    running, most = 0, 0
    guard = threading.Lock()

    def render() -> bytes:
        nonlocal running, most
        with guard:
            running += 1
            most = max(most, running)
        time.sleep(0.01)
        with guard:
            running -= 1
        return b"done"

    server = HttpServer("127.0.0.1", 0, render, list, "http.port")
    url = f"http://127.0.0.1:{server.start()}/metrics"
    with ThreadPoolExecutor(8) as callers:
        answers = list(callers.map(lambda _: httpx.get(url, trust_env=False).text, range(16)))
    server.stop()
    assert answers == ["done"] * 16
    assert most == 1


def test_a_page_gets_the_host_name_of_the_request() -> None:
    server = HttpServer("127.0.0.1", 0, bytes, list, "http.port", {"/asked": lambda asked: (200, {"host": asked.host})})
    url = f"http://127.0.0.1:{server.start()}/asked"
    try:
        told = [httpx.get(url, headers={"Host": host}) for host in ("rebound.example:80", "[::1]:8080", "[")]
    finally:
        server.stop()
    assert [(one.status_code, one.json().get("host")) for one in told] == [
        (200, "rebound.example"),
        (200, "::1"),
        (400, None),
    ]
