"""The first act: a user with its topic and its group is switched from east to west and back, by Airflow."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stack.clients.process import history_of
from stack.demo.airflow_api import AirflowApi, tell_tasks
from stack.demo.report import ClientLine, MoveReport, client_lines
from stack.demo.workload import ORDERS, ROOT, Workload, dump_everywhere, prepare
from stack.harness import Stack
from stack.history.blackout import Move
from stack.history.evidence import cuts_of
from stack.history.history import History

QUIET_S = 3.0
"""Seconds of load before, between and after the moves."""
Say = Callable[[str], None]


@dataclass(frozen=True)
class Switching:
    """Result of the act."""

    operations: tuple[MoveReport, ...]
    clients: tuple[ClientLine, ...]
    history: History


def switch_there_and_back(stack: Stack, airflow: AirflowApi, directory: Path, say: Say) -> Switching:
    """Start the clients, switch from east to west, and back."""
    prepare(stack, ORDERS, "east")
    say(
        f"topic {ORDERS.topic} with {ORDERS.partitions} partitions in cluster east, user {ORDERS.user} is bound to east"
    )
    workload = Workload(stack, ORDERS, directory)
    operations = []
    try:
        workload.start(say)
        _dry_run(airflow, say)
        time.sleep(QUIET_S)
        for number, (origin, target) in enumerate((("east", "west"), ("west", "east")), 1):
            operations.append(_move(airflow, number, origin, target, say))
            time.sleep(QUIET_S)
        workload.stop()
    finally:
        workload.end()
    history = _history(stack, workload)
    return Switching(tuple(operations), client_lines(history, [operation.move for operation in operations]), history)


def _history(stack: Stack, workload: Workload) -> History:
    """The clients' histories, the cuts of the map, and both clusters' logs, read without gateways."""
    from ha_core.store.zookeeper import connect

    topic = ORDERS.topic
    store = connect(stack.zookeeper, root=ROOT)
    try:
        cuts = cuts_of([store.load().topics[topic]])
    finally:
        store.close()
    return history_of(workload.clients).with_evidence(cuts, (), dump_everywhere(stack, topic))


def _dry_run(airflow: AirflowApi, say: Say) -> None:
    """An operator's first step. It also warms up Airflow's workers."""
    run_id = "demo-0-dry-run"
    conf = {"scope": [f"user:{ORDERS.user}"], "from": "east", "to": "west", "reason": "demo: a dry run"}
    page = airflow.trigger("switch", run_id, conf)
    say(f"DAG switch, dry run: what would move with {ORDERS.user}? {page}")
    tell_tasks(airflow, "switch", run_id, say)
    proposal = airflow.returned("switch", run_id, "report")["proposal"]
    for what, why in sorted(proposal["moves"]["reasons"].items()):
        say(f"  {what.replace(':', ' ', 1)}, because {why}")
    for verdict in proposal["verdicts"]:
        say(f"  {verdict['level']}: {verdict['about']}: {verdict['text']}")


def _move(airflow: AirflowApi, number: int, origin: str, target: str, say: Say) -> MoveReport:
    run_id = f"demo-{number}-{origin}-to-{target}"
    scope, reason = [f"user:{ORDERS.user}"], f"demo: {origin} to {target}"
    conf = {"scope": scope, "from": origin, "to": target, "reason": reason, "dry_run": False}
    begun = time.time()
    page = airflow.trigger("switch", run_id, conf)
    say(f"DAG switch: {ORDERS.user} from {origin} to {target}; {page}")
    tell_tasks(airflow, "switch", run_id, say)
    ended = time.time()
    report: dict[str, Any] = airflow.returned("switch", run_id, "report")
    return MoveReport(
        report["operation"],
        ORDERS.user,
        origin,
        target,
        report["result"],
        report["revision"],
        tuple(report["steps"]),
        tuple(report["partitions"]),
        page,
        Move(begun, ended),
    )
