"""The demo from beginning to end: users are switched there and back, then a topic is migrated without a fence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from stack.demo.airflow_api import AirflowApi
from stack.demo.migrating import LAGGING_GROUP, migrate_and_age
from stack.demo.report import DemoReport
from stack.demo.switching import switch_there_and_back
from stack.demo.workload import INVOICES, ORDERS
from stack.harness import Stack
from stack.history.checker import check
from stack.history.history import History
from stack.launch import Started, start
from stack.specs import cluster_spec, stack_spec

CLUSTERS = {"east": "3.9.2", "west": "4.3.1"}
Say = Callable[[str], None]


def start_stack(say: Say) -> Started:
    """Two clusters of different major versions, ZooKeeper, two gateways and Airflow."""
    specs = [cluster_spec(name, version) for name, version in CLUSTERS.items()]
    return start(stack_spec(specs, gateways=2, airflow=True, security="sasl", record_facts_s=60), None, None, say)


def tell(stack: Stack, directory: Path, plot: Path, say: Say) -> DemoReport:
    """Both acts and the check of everything; the plot of the second goes to `plot`."""
    assert stack.airflow is not None
    airflow = AirflowApi(stack.airflow["url"], stack.airflow["user"], stack.airflow["password"])
    first = switch_there_and_back(stack, airflow, directory, say)
    second = migrate_and_age(stack, airflow, directory, plot, say)
    say("checking what every client saw, and both clusters' logs")
    whole = _together(first.history, second.history)
    result = check(whole, complete_readers=[ORDERS.group, INVOICES.group, LAGGING_GROUP])
    return DemoReport(
        first.operations, first.clients, second.migration, result, f"{stack.airflow['url']}/dags/switch/runs"
    )


def _together(first: History, second: History) -> History:
    """Two histories of different topics as one."""
    clients = {**first.clients, **second.clients}
    return History(clients).with_evidence(
        (*first.cuts, *second.cuts), (*first.faults, *second.faults), (*first.logs, *second.logs)
    )
