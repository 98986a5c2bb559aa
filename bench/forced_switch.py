"""The cluster of a mirrored topic is killed, and its clients go on at the copy; repeatedly, by command and by form.

A forced switch is timed from the kill, after which the command or the form's run is triggered at once, to the first
acknowledgement of the copy's cluster. No client is restarted. Airflow stands still while the command is timed:
elsewhere it is on a machine of its own; here it takes most of two cores, and the figure would be its own.
"""

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from bench.blackout import at_work
from bench.figures import BenchOutcome, FigureTable, spread
from bench.ground import CLUSTERS, FORCED, BenchError, Say, Scale, create_topic, direct, switch
from bench.mirror_sides import command
from bench.waiting import go_on, mirrored
from ha_core.store.store import Store
from ha_core.store.zookeeper import connect
from stack.clients.process import ClientProcess
from stack.demo.airflow_api import AirflowApi, AirflowError, tell_tasks
from stack.demo.workload import ROOT
from stack.harness import Stack
from stack.history.events import Acked

TOPIC = "orders"
"""From `blackout`, as the clients are."""
PARTITIONS = 3
USER = "user:anonymous"
KINDS = ("confluent", "java")
"""The clients in pure Python would take the core that the form and the command need."""
RECORDS_S = 20.0
GOALS_S = {"command": 3.0, "form": 15.0}
FORM = "fail_over_cluster"
AIRFLOW = ("airflow/scheduler", "airflow/dag-processor", "airflow/triggerer", "airflow/api-server")


class Forced(NamedTuple):
    """Seconds from the kill; `ended_s` is the end of the command, or of the whole run."""

    by: str
    first_ack_s: float
    everybody_s: float
    """Until all producers have an acknowledgement."""
    ended_s: float


def run(scale: Scale, say: Say) -> BenchOutcome:
    say("starting two clusters, two gateways, Airflow and the job that copies mirrors")
    with (
        Stack.up(CLUSTERS, gateways=2, airflow=True, mirror=True, record_facts_s=5, full_speed=True) as stack,
        tempfile.TemporaryDirectory(prefix="switchyard-bench-") as folder,
    ):
        store = connect(stack.zookeeper, root=ROOT)
        create_topic(direct(stack, "east"), TOPIC, PARTITIONS)
        clients = at_work(stack, Path(folder), KINDS, RECORDS_S)
        try:
            go_on(clients)
            command(stack, "mirror", "link", TOPIC, "--from", "east", "--to", "west")
            forced = _forced(stack, store, clients, scale, say)
        finally:
            for client in clients:
                client.kill()
            store.close()
    return _outcome(forced)


def _forced(stack: Stack, store: Store, clients: Sequence[ClientProcess], scale: Scale, say: Say) -> list[Forced]:
    ways: dict[str, Callable[[], None]] = {
        "command": partial(_by_command, stack, say),
        "form": partial(_by_form, stack, say),
    }
    found = []
    for way, trigger in ways.items():
        for _ in range(scale.pick(5, 1)):
            mirrored(store, TOPIC, "west", PARTITIONS, RECORDS_S)
            marks = {client: client.mark() for client in clients if client.kind.endswith("producer")}
            if way == "command":
                _each(stack.pause)
            begun = time.time()
            stack.kill("cluster/east")
            trigger()
            ended_s = time.time() - begun
            go_on(clients)
            first = _first_acks(store, marks, begun)
            found.append(Forced(way, min(first), max(first), ended_s))
            say(f"forced by {way}: first acknowledgement after {min(first):.2f} s, all after {max(first):.2f} s")
            if way == "command":
                _each(stack.resume)
            _home_again(stack, store)
    return found


def _each(action: Callable[[str], None]) -> None:
    for part in AIRFLOW:
        action(part)


def _by_command(stack: Stack, say: Say) -> None:
    steps = switch(stack, USER, "east", "west", FORCED)["steps"]
    took = (f"{step['name']} {step['ms']:.0f}" for step in steps)
    say(f"steps, ms: {', '.join(took)}")


def _by_form(stack: Stack, say: Say) -> None:
    assert stack.airflow is not None
    airflow = AirflowApi(stack.airflow["url"], stack.airflow["user"], stack.airflow["password"])
    run_id = f"bench-{time.time_ns()}"
    airflow.trigger(FORM, run_id, {"cluster": "east", "reason": "benchmark"})
    try:
        tell_tasks(airflow, FORM, run_id, say)
    except AirflowError as error:
        raise BenchError(str(error)) from error


def _first_acks(store: Store, marks: Mapping[ClientProcess, int], begun: float) -> list[float]:
    """For each producer, the time of the first record that was acknowledged above the cut.

    :param marks: positions in the histories before the switch.
    """
    cuts = {partition: extents[-1].start for partition, extents in store.load().topics[TOPIC].partitions.items()}
    found = []
    for client, mark in marks.items():
        acked = (event for event in client.events(mark) if isinstance(event, Acked))
        found.append(min(one.t for one in acked if one.offset >= cuts[one.partition]) - begun)
    return found


def _home_again(stack: Stack, store: Store) -> None:
    """Make east the standby, switch back to it, and make west the standby."""
    stack.restart("cluster/east")
    stack.wait_ready("cluster/east")
    command(stack, "mirror", "reconcile", "east")
    mirrored(store, TOPIC, "east", PARTITIONS, RECORDS_S)
    switch(stack, USER, "west", "east")


def _outcome(forced: Sequence[Forced]) -> BenchOutcome:
    by: dict[str, Any] = {}
    rows = []
    for way, goal_s in GOALS_S.items():
        runs = [one for one in forced if one.by == way]
        by[way] = {name: spread([getattr(one, name) for one in runs]) for name in Forced._fields[1:]}
        cells = (f"{by[way][name]['p50']:.2f} / {by[way][name]['max']:.2f}" for name in Forced._fields[1:])
        rows.append((way, str(len(runs)), *cells, f"{goal_s:g}"))
    table = FigureTable(
        f"Forced switches: seconds from the kill of the cluster, p50 / max; {len(KINDS)} producers and consumers",
        (
            "by",
            "times",
            "first acknowledgement",
            "every producer has one",
            "command or run ended",
            "goal of the first",
        ),
        tuple(rows),
    )
    return BenchOutcome({"forced_s": by}, (table,))
