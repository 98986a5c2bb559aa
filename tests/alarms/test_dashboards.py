"""The dashboards of `deploy/grafana`: what their generator makes, and what a real Prometheus answers to each query."""

import json
import runpy
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from stack.harness import Stack
from tests.alarms.recording import rules
from tests.kit.prometheus import Prometheus, missing
from tests.kit.running import Run, bind, bootstrap, create_topic, switchyard
from tests.kit.stacks import TWO_CLUSTERS
from tests.kit.waiting import until

FOLDER = Path(__file__).parents[2] / "deploy" / "grafana"
FILES = sorted(FOLDER.glob("*.json"))
EVERY_S = 2
SOMETIMES = ("switchyard_problems", "switchyard_gateway_fence_oldest_seconds", "switchyard_gateway_refusals_total")
"""Metrics without a sample on a day without trouble."""


def queries() -> list[tuple[str, str]]:
    """(panel, expression) of all dashboards."""
    panels = [panel for file in FILES for panel in json.loads(file.read_text())["panels"]]
    return [(panel["title"], target["expr"]) for panel in panels for target in panel.get("targets", ())]


def test_the_files_are_what_the_generator_makes() -> None:
    generator = runpy.run_path(str(FOLDER / "dashboards.py"))
    made = {generator["path_of"](board): generator["made"](board) for board in generator["BOARDS"]}

    assert {file: file.read_text("utf-8") for file in FILES} == made


def test_each_target_of_a_panel_has_a_name_of_its_own() -> None:
    for file in FILES:
        for panel in json.loads(file.read_text())["panels"]:
            names = [target["refId"] for target in panel.get("targets", ())]
            assert all(names), panel["title"]
            assert len(set(names)) == len(names), panel["title"]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    """It scrapes a stack with clients, a mirror, and a topic that has moved."""
    folder = tmp_path_factory.mktemp("dashboards")
    with ExitStack() as opened:
        stack = opened.enter_context(Stack.up(TWO_CLUSTERS, mirror=True, record_facts_s=5))
        for topic in ("stays", "moves", "mirrored"):
            create_topic(bootstrap(stack, "east"), topic)
            bind(stack, topic, "east")
        switchyard(stack, "mirror", "link", "mirrored", "--from", "east", "--to", "west", "--reason", "test", "--yes")
        for topic in ("stays", "moves"):
            run = Run(stack, folder / topic, user=topic)
            opened.callback(run.end)
            run.start("confluent-producer", "w", topic, rate=50, idempotence="on").wait_for(20, "acknowledged")
            run.start("confluent-consumer", "r", topic, group=topic)
        assert stack.mirror is not None
        targets = {
            "switchyard-gateway": [one["http"].removeprefix("http://") for one in stack.gateways],
            "switchyard-mirror": [stack.mirror["metrics"]],
        }
        opened.enter_context(running := Prometheus(folder / "prometheus", targets, EVERY_S))
        switchyard(stack, "switch", "user:moves", "--from", "east", "--to", "west", "--reason", "test", "--yes")
        until(lambda: bool(running.query("switchyard_migrations")), "the state was looked at", 120)
        until(lambda: bool(running.query("switchyard_mirror_total_lag_records")), "the mirror reports", 120)
        yield running


@pytest.mark.stack
@pytest.mark.timeout(600)
@pytest.mark.long("deploy/grafana", "deploy/prometheus", "gateway/process/metrics.py", "spark_jobs/mirror/metrics.py")
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_every_query_has_an_answer_on_a_running_stack(prometheus: Prometheus) -> None:
    asked = {title: expression.replace("$__rate_interval", "20s") for title, expression in queries()}
    deadline = time.monotonic() + 60

    def silent() -> dict[str, str]:
        return {
            title: expression
            for title, expression in asked.items()
            if not prometheus.query(expression) and not any(name in expression for name in SOMETIMES)
        }

    while silent() and time.monotonic() < deadline:
        time.sleep(2)

    assert silent() == {}


@pytest.mark.stack
@pytest.mark.timeout(600)
@pytest.mark.long("deploy/grafana", "deploy/prometheus", "gateway/process/metrics.py", "spark_jobs/mirror/metrics.py")
@pytest.mark.skipif(bool(missing()), reason=missing())
def test_no_alarm_of_a_running_stack_has_its_condition(prometheus: Prometheus) -> None:
    def raised() -> dict[str, list[Any]]:
        found = {rule["alert"]: prometheus.query(rule["expr"]) for rule in rules()}
        return {alert: samples for alert, samples in found.items() if samples}

    until(lambda: not raised(), "every alarm is silent", 60)
