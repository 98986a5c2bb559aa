"""The demo from beginning to end."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stack.demo.airflow_api import AirflowApi
from stack.demo.report import DemoReport, Operation, client_lines
from stack.demo.workload import GROUP, PARTITIONS, RECORDS_PER_S, TOPIC, USER, Workload, prepare
from stack.harness import Stack
from stack.history.blackout import Move
from stack.history.checker import check
from stack.launch import Started, start
from stack.specs import cluster_spec, stack_spec

CLUSTERS = {"east": "3.9.2", "west": "4.3.1"}
RUN_TIMEOUT_S = 120.0
QUIET_S = 3.0
"""Under load before, between and after the moves."""
Say = Callable[[str], None]


def start_stack(say: Say) -> Started:
    """Two clusters of different major versions, ZooKeeper, two gateways and Airflow."""
    specs = [cluster_spec(name, version) for name, version in CLUSTERS.items()]
    return start(stack_spec(specs, gateways=2, airflow=True, security="sasl"), None, None, say)


def tell(stack: Stack, directory: Path, say: Say) -> DemoReport:
    """Clients at work, east to west, west to east, the check."""
    assert stack.airflow is not None
    assert stack.service is not None
    airflow = AirflowApi(stack.airflow["url"], stack.airflow["user"], stack.airflow["password"])
    settings = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": stack.service["user"],
        "sasl.password": stack.service["password"],
    }
    prepare(stack, settings, "east")
    say(f"topic {TOPIC} with {PARTITIONS} partitions in cluster east, user {USER} is bound to east")
    workload = Workload(stack, directory)
    operations = []
    try:
        workload.start()
        names = ", ".join(client.name for client in workload.clients)
        say(f"clients at work, {RECORDS_PER_S:.0f} records a second per producer: {names}")
        _dry_run(airflow, say)
        time.sleep(QUIET_S)
        for number, (origin, target) in enumerate((("east", "west"), ("west", "east")), 1):
            operations.append(_move(airflow, number, origin, target, say))
            time.sleep(QUIET_S)
        workload.stop()
    finally:
        workload.end()
    say("clients stopped; checking what every one of them saw, and both clusters' logs")
    history = workload.history(settings)
    result = check(history, complete_readers=[GROUP])
    lines = client_lines(history, [one.move for one in operations])
    return DemoReport(tuple(operations), lines, result, f"{stack.airflow['url']}/dags/switch/runs")


def _dry_run(airflow: AirflowApi, say: Say) -> None:
    """What an operator does first; and it wakes up Airflow's workers."""
    run_id = "demo-0-dry-run"
    conf = {"users": [USER], "from": "east", "to": "west", "reason": "demo: a dry run", "dry_run": True}
    page = airflow.trigger("switch", run_id, conf)
    say(f"DAG switch, dry run: what would move with {USER}? {page}")
    _say_tasks(airflow, run_id, say)
    told = airflow.returned("switch", run_id, "report")["proposal"]
    for what, why in sorted(told["moves"]["reasons"].items()):
        say(f"  {what.replace(':', ' ', 1)}, because {why}")
    for verdict in told["verdicts"]:
        say(f"  {verdict['level']}: {verdict['about']}: {verdict['text']}")


def _say_tasks(airflow: AirflowApi, run_id: str, say: Say) -> None:
    for task, state, seconds in airflow.follow("switch", run_id, RUN_TIMEOUT_S):
        if state == "success":
            say(f"  {task} {state} after {seconds:.2f} s")
        else:
            say(f"  {task} {state}")


def _move(airflow: AirflowApi, number: int, origin: str, target: str, say: Say) -> Operation:
    run_id = f"demo-{number}-{origin}-to-{target}"
    conf = {"users": [USER], "from": origin, "to": target, "reason": f"demo: {origin} to {target}"}
    begun = time.time()
    page = airflow.trigger("switch", run_id, conf)
    say(f"DAG switch: {USER} from {origin} to {target}; {page}")
    _say_tasks(airflow, run_id, say)
    ended = time.time()
    told: dict[str, Any] = airflow.returned("switch", run_id, "report")
    return Operation(
        told["operation"],
        USER,
        origin,
        target,
        told["result"],
        told["revision"],
        tuple(told["steps"]),
        tuple(told["partitions"]),
        page,
        Move(begun, ended),
    )
