"""Runs in a real Airflow whose parts die, or whose operators change their mind, while a fence stands."""

import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from ha_core.model import GatewayRecord, Mirror, MirrorReport, PartitionReport
from ha_core.operations.clusters.last_seen import record
from ha_core.operations.engine.environment import Environment
from ha_core.store.commits import StateChange
from stack.demo.airflow_api import AirflowApi
from stack.harness import Stack
from tests.dags.conftest import Workload
from tests.kit.stacks import own_stack
from tests.kit.waiting import until

pytestmark = [
    pytest.mark.stack,
    pytest.mark.airflow,
    pytest.mark.long("dags", "ha_core/operators", "ha_core/operations/running/engine.py"),
]


@pytest.fixture(scope="module", autouse=True)
def short_rto() -> Iterator[None]:
    """Airflow starts with a deadline that each failover misses."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW__SWITCHYARD__RTO_S", "1")
        yield


stack = own_stack(gateways=0, airflow=True)


@pytest.fixture(scope="module")
def airflow(stack: Stack) -> AirflowApi:
    assert stack.airflow is not None
    return AirflowApi(stack.airflow["url"], stack.airflow["user"], stack.airflow["password"])


def fenced(environment: Environment, workload: Workload) -> bool:
    topic = environment.store.load().topics.get(workload.topic)
    return topic is not None and topic.fence is not None


@pytest.fixture
def run_id(airflow: AirflowApi, environment: Environment, workload: Workload) -> Iterator[str]:
    """A run under its fence: it waits for a gateway that lives and never drains."""
    record = GatewayRecord(id="gw-deaf", host="127.0.0.1", port=9092, node_id=1, revision=10**9)
    registration = environment.store.register_gateway(record)
    run_id = f"run-{workload.user}"
    route = {"scope": [f"user:{workload.user}"], "from": "east", "to": "west", "reason": "a test"}
    conf = {**route, "drain_timeout_s": 300, "dry_run": False}
    airflow.trigger("switch", run_id, conf)
    until(lambda: fenced(environment, workload), "fenced")
    yield run_id
    registration.close()


def patch(airflow: AirflowApi, run_id: str, path: str, body: dict[str, Any]) -> None:
    token = airflow.token()
    request = urllib.request.Request(
        f"{airflow.url}/api/v2/dags/switch/dagRuns/{run_id}{path}",
        json.dumps(body).encode(),
        {"Content-Type": "application/json", "Authorization": f"Bearer {token}"},
        method="PATCH",
    )
    urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=30).close()


def nothing_has_moved(environment: Environment, workload: Workload) -> bool:
    view = environment.store.load()
    return not fenced(environment, workload) and not environment.store.locks() and workload.user not in view.bindings


def test_a_run_marked_as_failed_after_its_fence_releases_fence_and_locks(
    airflow: AirflowApi, environment: Environment, workload: Workload, run_id: str
) -> None:
    patch(airflow, run_id, "", {"state": "failed"})

    until(lambda: airflow.states("switch", run_id)["release"] == "success", "released")
    assert nothing_has_moved(environment, workload)


def test_a_scheduler_killed_after_the_fence_releases_everything_once_it_is_back(
    airflow: AirflowApi, stack: Stack, environment: Environment, workload: Workload, run_id: str
) -> None:
    stack.kill("airflow/scheduler")
    stack.restart("airflow/scheduler")

    until(lambda: airflow.states("switch", run_id)["release"] == "success", "released")
    assert airflow.states("switch", run_id)["cut_over"] == "failed"
    assert nothing_has_moved(environment, workload)


def page(stack: Stack, path: str, **headers: str) -> tuple[int, str, str]:
    """Status, Content-Security-Policy and body."""
    assert stack.airflow is not None
    request = urllib.request.Request(f"{stack.airflow['url']}{path}", headers=headers)
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
            return answer.status, answer.headers["Content-Security-Policy"], answer.read().decode()
    except urllib.error.HTTPError as refused:
        return refused.code, "", refused.read().decode()


def mirrored(environment: Environment, topic: str) -> Mirror:
    mirror = Mirror.of(topic, "east", "west", "link-1", "2026-11-23T10:00:00Z", "test")
    environment.store.commit(StateChange(change_id=topic, puts=(mirror,), expected={(Mirror, mirror.key): None}))
    return mirror


def test_the_page_of_mirrors_is_shown_only_to_users_who_are_logged_in(
    airflow: AirflowApi, stack: Stack, environment: Environment
) -> None:
    # Given a mirror with a name that is no text for a page
    mirror = mirrored(environment, "orders<b>")
    partition_report = PartitionReport(
        mirror=mirror.key, topic=mirror.topic, partition=0, state="stopped", reason="retention won"
    )
    report = environment.store.register(MirrorReport(slot=0, job="j", partitions=(partition_report,)))
    # When the page is requested without a login or with a wrong token, or other paths of the app are
    anonymous = {path: page(stack, f"/switchyard{path}") for path in ("/mirrors", "/openapi.json", "/docs", "/")}
    forged = page(stack, "/switchyard/mirrors", Authorization="Bearer e30.e30.x")
    # Then nothing is shown
    assert {path: status for path, (status, *_) in anonymous.items() if status not in {401, 404}} == {}
    assert (anonymous["/mirrors"][0], forged[0]) == (401, 403)
    assert not any("orders" in body for *_, body in (*anonymous.values(), forged))
    # But who is logged in sees the mirror, by a token or by the cookie that the UI has
    token = airflow.token()
    until(lambda: "retention won" in page(stack, "/switchyard/mirrors", Cookie=f"_token={token}")[2], "the first look")
    for login in ({"Authorization": f"Bearer {token}"}, {"Cookie": f"_token={token}"}):
        status, policy, body = page(stack, "/switchyard/mirrors", **login)
        assert (status, policy.split(";")[0]) == (200, "default-src 'none'")
        assert "orders&lt;b&gt;: east → west" in body
        assert "retention won" in body
        assert "<b>" not in body
    # And the navigation leads there
    listed = json.loads(page(stack, "/api/v2/plugins", Authorization=f"Bearer {token}")[2])["plugins"]
    views = [view["href"] for plugin in listed for view in plugin["external_views"]]
    assert "/switchyard/mirrors" in views
    report.close()


def test_the_outcome_of_a_run_is_a_tab_on_its_page_with_the_next_step_whole(
    airflow: AirflowApi, stack: Stack, workload: Workload
) -> None:
    # Given a dry run that has ended
    run_id = f"dry+{workload.user}"
    route = {"scope": [f"user:{workload.user}"], "from": "east", "to": "west", "reason": "INC-7 <b>"}
    airflow.trigger("switch", run_id, route)
    until(lambda: airflow.states("switch", run_id).get("report") == "success", "reported")
    # When its tab is read with a login, and without
    path = f"/switchyard/runs/switch/{quote(run_id)}"
    anonymous = page(stack, path)
    status, policy, body = page(stack, path, Authorization=f"Bearer {airflow.token()}")
    listed = json.loads(page(stack, "/api/v2/plugins", Authorization=f"Bearer {airflow.token()}")[2])["plugins"]
    # Then only users who are logged in see all of it, and the UI has the tab
    assert anonymous[0] == 401
    assert (status, policy.split(";")[0]) == (200, "default-src 'none'")
    assert "DRY RUN: would move 1 topic and 1 group from east to west" in body
    assert "INC-7 &lt;b&gt;" in body
    assert "expected fence: " in body
    assert "Next: Trigger ▸ Trigger again with this config, untick Dry run" in body
    views = {view["name"]: view for plugin in listed for view in plugin["external_views"]}
    assert views["Outcome"]["destination"] == "dag_run"


def test_a_limit_that_a_run_gives_a_mirror_is_on_the_page(
    airflow: AirflowApi, stack: Stack, environment: Environment
) -> None:
    mirror = mirrored(environment, "limited")
    conf = {"topics": ["limited"], "max_bytes_s": "2500000", "reason": "a test", "dry_run": False}

    airflow.trigger("throttle_mirror", "throttled", conf)

    until(lambda: airflow.states("throttle_mirror", "throttled").get("report") == "success", "reported")
    assert airflow.states("throttle_mirror", "throttled")["throttle"] == "success"
    assert environment.store.load().mirrors[mirror.key].max_bytes_s == 2_500_000
    login = {"Authorization": f"Bearer {airflow.token()}"}
    until(lambda: "2.5 MB/s" in page(stack, "/switchyard/mirrors", **login)[2], "shown")


def test_a_migration_waits_for_its_cuts_without_a_worker_and_ends_when_it_is_time(
    airflow: AirflowApi, environment: Environment, workload: Workload
) -> None:
    run_id = f"cuts-{workload.user}"
    conf = {"topics": [workload.topic], "from": "east", "to": "west", "reason": "a test", "cut": "predicted"}
    airflow.trigger("migrate_topics", run_id, {**conf, "finish_after_s": 20, "dry_run": False})

    until(lambda: airflow.states("migrate_topics", run_id).get("await_cuts") == "deferred", "deferred")
    crossing = environment.store.load().topics[workload.topic].crossing
    until(lambda: airflow.states("migrate_topics", run_id)["report"] == "success", "reported")

    assert crossing is not None
    topic = environment.store.load().topics[workload.topic]
    assert (topic.writer, topic.crossing) == ("west", None)
    assert environment.store.locks() == []


def test_a_run_is_named_as_waiting_for_approval_until_it_is_rejected(
    airflow: AirflowApi, environment: Environment, workload: Workload
) -> None:
    run_id = f"asks-{workload.user}"
    route = {"scope": [f"user:{workload.user}"], "from": "east", "to": "west", "reason": "a drill"}
    airflow.trigger("switch", run_id, {**route, "approval": "anybody", "dry_run": False})

    asked = {"deferred", "awaiting_input"}  # before and since Airflow 3.2
    until(lambda: airflow.states("switch", run_id).get("approve") in asked, "asked")
    (waiting,) = environment.store.waiting_approvals()
    time.sleep(5)  # Airflow takes an answer that comes at once for a failure, and asks again (`ApproveOperator`).
    patch(airflow, run_id, "/taskInstances/approve/-1/hitlDetails", {"chosen_options": ["Reject"], "params_input": {}})
    until(lambda: airflow.states("switch", run_id)["report"] == "success", "reported")

    assert (waiting.run, waiting.reason) == (f"airflow:switch/{run_id}", "a drill")
    assert environment.store.waiting_approvals() == []
    assert nothing_has_moved(environment, workload)


def test_a_failover_that_misses_its_rto_is_an_alarm_of_airflow_and_succeeds(
    airflow: AirflowApi, stack: Stack, environment: Environment, workload: Workload
) -> None:
    """Last in this file: it kills east."""
    words = "A MOVE IS OLDER THAN ITS RTO: the run fail_over_cluster/late"
    record(environment)
    stack.kill("cluster/east")

    airflow.trigger("fail_over_cluster", "late", {"cluster": "east", "reason": "it died"})

    def alarms() -> list[Path]:
        logs = [*Path(stack.dir).rglob("*.log"), *Path(stack.dir).rglob("*.txt")]
        return [log for log in logs if words in log.read_text("utf-8", "replace")]

    assert {state for _, state, _ in airflow.follow("fail_over_cluster", "late", 240.0)} == {"success"}
    until(lambda: bool(alarms()), "an alarm in a log")
    assert environment.store.load().topics[workload.topic].writer == "west"
