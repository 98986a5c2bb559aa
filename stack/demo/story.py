"""The whole demo: a user is switched there and back, a topic is migrated, a cluster is killed."""

from collections.abc import Callable
from pathlib import Path

from stack.demo.airflow_api import AirflowApi
from stack.demo.failing_over import AUDITOR, fail_over
from stack.demo.migrating import LAGGING_GROUP, migrate_and_age
from stack.demo.report import DemoReport
from stack.demo.switching import switch_there_and_back
from stack.demo.workload import INVOICES, ORDERS, PAYMENTS
from stack.harness import Stack
from stack.history.checker import check
from stack.history.history import History
from stack.launch import StartedStack, start
from stack.specs import StackSpec, cluster_spec

CLUSTERS = {"east": "3.9.2", "west": "4.3.1"}
Say = Callable[[str], None]


def start_stack(say: Say) -> StartedStack:
    """Two clusters of different major versions, ZooKeeper, two gateways, Airflow, and Spark with the mirror job."""
    specs = tuple(cluster_spec(name, version) for name, version in CLUSTERS.items())
    spec = StackSpec(specs, gateways=2, airflow=True, security="sasl", mirror=True, record_facts_s=60)
    return start(spec, None, None, say)


def tell(stack: Stack, directory: Path, plot: Path, say: Say) -> DemoReport:
    """Run all acts and check the result; the second act's plot goes to `plot`, the third's beside it."""
    assert stack.airflow is not None
    airflow = AirflowApi(stack.airflow["url"], stack.airflow["user"], stack.airflow["password"])
    first = switch_there_and_back(stack, airflow, directory, say)
    second = migrate_and_age(stack, airflow, directory, plot, say)
    third = fail_over(stack, directory, plot.with_name(f"{plot.stem}-failover{plot.suffix}"), say)
    say("checking the clients' histories and both clusters' logs")
    whole = _together(first.history, second.history, third.left)
    readers = [ORDERS.group, INVOICES.group, LAGGING_GROUP, PAYMENTS.group, AUDITOR]
    result = check(whole, complete_readers=readers)
    runs = f"{stack.airflow['url']}/dags/switch/runs"
    return DemoReport(first.operations, first.clients, second.migration, third.failover, result, runs)


def _together(*histories: History) -> History:
    """Merge histories of different topics."""
    whole = History({name: events for one in histories for name, events in one.clients.items()})
    for history in histories:
        whole = whole.with_evidence(history.cuts, history.faults, history.logs)
    return whole
