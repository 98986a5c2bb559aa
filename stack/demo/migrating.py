"""The second act: a topic is migrated with a predicted cut, without a fence, until its origin is deleted.

Its producers and its group run all the time. A slow reader starts late, from the beginning, and crosses the cut long
after the topic. Then the groups follow, retention is brought forward in the old cluster, and the migration ages.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ha_core.cli.plotting import Mark
from stack.clients.process import ClientProcess, history_of
from stack.demo.airflow_api import AirflowApi, tell_tasks
from stack.demo.command import Say, open_environment, switchyard
from stack.demo.plot import draw, tracks_of
from stack.demo.report import LaggingReader, MigrationReport, client_lines
from stack.demo.workload import INVOICES, Workload, prepare, service_account, service_settings
from stack.errors import StackError
from stack.harness import Stack
from stack.history.blackout import Move
from stack.history.events import Acked, Delivered
from stack.history.evidence import cuts_ahead, cuts_of, dump_topic
from stack.history.headers import between_batches
from stack.history.history import History, LogDump
from stack.history.standstill import bound_ms, longest

if TYPE_CHECKING:
    from ha_core.model import HistoryEntry
    from ha_core.operations.engine.environment import Environment

ORIGIN, TARGET = "east", "west"
PREPARATION_S = 4.0
"""The cut is ahead by the growth of the logs in this time, at twice the measured rate."""
QUIET_S = 2.0
LAGGING, LAGGING_GROUP = "audit-lagging", "audit"
LAGGING_PACE = 3 * len(INVOICES.producers) * INVOICES.records_per_s
"""Records per second: more than are produced, or the reader would never catch up."""
NEEDED_TIMEOUT_S = 120.0


@dataclass(frozen=True)
class Migrating:
    """Result of the act."""

    migration: MigrationReport
    history: History


def migrate_and_age(stack: Stack, airflow: AirflowApi, directory: Path, plot: Path, say: Say) -> Migrating:
    """Start the clients, cross the topic over, let the lagging reader cross the cut, age the migration."""
    topic = INVOICES.topic
    prepare(stack, INVOICES, ORIGIN)
    say(f"second act: topic {topic} with {INVOICES.partitions} partitions in cluster {ORIGIN}, user {INVOICES.user}")
    workload = Workload(stack, INVOICES, directory)
    with open_environment(stack) as environment:
        try:
            workload.start(say)
            at_work = time.time()
            report = _migrate(stack, say)
            _say_status(environment, say)
            lagging = _start_lagging(workload, say)
            operation = environment.operation(report["operation"])
            assert operation is not None
            entries = environment.store.history(operation.id)
            cuts = cuts_of([environment.store.load().topics[topic]], cuts_ahead([(operation, entries)]))
            bootstraps = {name: cluster["bootstrap"] for name, cluster in stack.clusters.items()}
            cuts = between_batches(cuts, bootstraps, service_account(stack))
            _until_unneeded(environment, workload, lagging, say)
            _bring_groups(stack, say)
            origin_logs = dump_topic(ORIGIN, stack.clusters[ORIGIN]["bootstrap"], topic, service_settings(stack))
            _expire(stack, origin_logs)
            say(f"retention brought forward: {ORIGIN} has deleted its records of {topic}")
            aging, aged_at, page = _age(airflow, say)
            _say_status(environment, say)
            time.sleep(QUIET_S)
            workload.stop()
        finally:
            workload.end()
    say(f"clients stopped; {topic} is read from {TARGET}, past the gateways")
    target_logs = dump_topic(TARGET, stack.clusters[TARGET]["bootstrap"], topic, service_settings(stack))
    history = history_of(workload.clients).with_evidence(cuts, (), (*origin_logs, *target_logs))
    begun, opened, settled = _times(entries)
    marks = (Mark(begun, "proposed"), Mark(opened, "open"), Mark(settled, "settled"), Mark(aged_at, "aged"))
    draw(tracks_of(history, LAGGING), marks, plot, topic)
    crossing = Move(begun, settled)
    lines = client_lines(history, [Move(at_work, begun), crossing])
    # Without the lagging reader: its pauses do not show how long the others stand still without a move.
    others = History({name: events for name, events in history.clients.items() if name != LAGGING})
    lines = tuple(line for line in lines if line.name != LAGGING)
    migration = MigrationReport(
        operation=operation.id,
        topic=topic,
        origin=ORIGIN,
        target=TARGET,
        result=report["result"],
        steps=tuple(report["steps"]),
        partitions=tuple(report["partitions"]),
        clients=lines,
        standstills=longest(others, [crossing]),
        standstill_bound_ms=bound_ms(others, [crossing]),
        reader=reader_of(history, settled),
        aged=bool(aging["extents"]) and all(extent["aged"] for extent in aging["extents"]),
        deleted=topic in aging["deleted"].get(ORIGIN, ()),
        airflow_url=page,
        plot=str(plot.resolve()),
    )
    return Migrating(migration, history)


def reader_of(history: History, settled: float) -> LaggingReader:
    """The lagging reader's way across the cut."""
    cuts = {cut.partition: cut.cut for cut in history.cuts}
    given = [e for e in history.clients.get(LAGGING, ()) if isinstance(e, Delivered)]
    promised = sum(
        isinstance(event, Acked) and event.t <= settled for events in history.clients.values() for event in events
    )
    lag_records = promised - sum(event.t <= settled for event in given)
    first: dict[int, float] = {}
    for event in given:
        if event.offset >= cuts.get(event.partition, 0):
            first.setdefault(event.partition, event.t)
    crossed = max(first.values()) - settled if cuts and first.keys() == cuts.keys() else None
    below = sum(event.offset < cuts.get(event.partition, 0) for event in given)
    return LaggingReader(
        LAGGING, lag_records, None if crossed is None else round(crossed, 1), below, len(given) - below
    )


def _start_lagging(workload: Workload, say: Say) -> ClientProcess:
    """It prefetches little, so that delivered records have just been fetched."""
    settings = ("fetch.message.max.bytes=20000", "queued.min.messages=500")
    lagging = workload.consume(
        "confluent-consumer", LAGGING, LAGGING_GROUP, pace=LAGGING_PACE, commit="batch", settings=settings
    )
    lagging.wait_for(50, "delivered")  # by then it has committed, so its lag keeps the extents
    say(f"{LAGGING} begins to read from the beginning, {LAGGING_PACE:.0f} records a second")
    return lagging


def _migrate(stack: Stack, say: Say) -> dict[str, Any]:
    """The report of the one operation."""
    words = ["migrate", INVOICES.topic, "--from", ORIGIN, "--to", TARGET, "--cut", "predicted"]
    output = switchyard(
        stack, [*words, "--preparation", f"{PREPARATION_S:g}", "--reason", "demo", "--yes", "--wait"], say
    )
    (report,) = output["batches"]
    assert isinstance(report, dict)
    return report


def _bring_groups(stack: Stack, say: Say) -> None:
    """A coordinator drops offsets of a topic that is deleted in its cluster, so the groups follow the topic first."""
    words = ["switch", f"user:{INVOICES.user}", "--from", ORIGIN, "--to", TARGET, "--reason", "demo", "--yes"]
    switchyard(stack, words, say)


def _say_status(environment: Environment, say: Say) -> None:
    from ha_core.plan.migration.status import status_of

    status = status_of(environment.store.load().topics[INVOICES.topic])
    assert status is not None
    cuts = ", ".join(f"{partition.partition} at {partition.end_offset}" for partition in status.partitions)
    say(f"{status.topic} is {status.status}: partition {cuts}")


def _until_unneeded(environment: Environment, workload: Workload, lagging: ClientProcess, say: Say) -> None:
    """Wait until every group has committed above the cut, and the lagging reader has caught up."""
    from ha_core.operations.migration.aging import age

    said = ""
    deadline = time.monotonic() + NEEDED_TIMEOUT_S
    while time.monotonic() < deadline:
        found = age(environment, [INVOICES.topic], dry_run=True).extents
        kinds = {block.reason for old in found for block in old.blocks}
        words = "; ".join(sorted({block.text for old in found[:1] for block in old.blocks}))
        if not said:
            say(f"what keeps the extents in {ORIGIN}, partition 0: {words}")
            said = words
        if kinds <= {"held"} and lagging.count("delivered") >= workload.promised() - INVOICES.records_per_s:
            say(f"{LAGGING} has crossed the cut and is with the others; what keeps partition 0 now: {words}")
            return
        time.sleep(0.5)
    raise StackError(f"after {NEEDED_TIMEOUT_S:.0f} s the extents in {ORIGIN} are still needed: {words}")


def _expire(stack: Stack, logs: Collection[LogDump]) -> None:
    """Delete the records at once, as retention would later."""
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    origin = {"bootstrap.servers": stack.clusters[ORIGIN]["bootstrap"], "log_level": 3}
    admin = AdminClient({**origin, **service_settings(stack)})
    for deleted in admin.delete_records(
        [TopicPartition(dump.topic, dump.partition, dump.end) for dump in logs]
    ).values():
        deleted.result(30)


def _age(airflow: AirflowApi, say: Say) -> tuple[dict[str, Any], float, str]:
    """Result, time and page of `age_migrations`."""
    run_id = "demo-age"
    conf = {"topics": [INVOICES.topic], "delete_origin": True, "reason": "demo: nothing of it is needed any more"}
    page = airflow.trigger("age_migrations", run_id, conf)
    say(f"DAG age_migrations, with the deletion of what is left in {ORIGIN}: {page}")
    tell_tasks(airflow, "age_migrations", run_id, say)
    result: dict[str, Any] = airflow.returned("age_migrations", run_id, "age")
    for extent in result["extents"]:
        why = "; ".join(block["text"] for block in extent["blocks"])
        say(f"  partition {extent['partition']} in {extent['cluster']}: {'Aged' if extent['aged'] else why}")
    for cluster, names in result["deleted"].items():
        say(f"  deleted in {cluster}: {', '.join(names)}")
    return result, time.time(), page


def _times(entries: Sequence[HistoryEntry]) -> tuple[float, float, float]:
    """Times before the cuts were proposed, when they were open, and when the last topic had settled."""
    at = {(entry.step, entry.outcome): datetime.fromisoformat(entry.at).timestamp() for entry in entries}
    return at["propose", "started"], at["open", "done"], at["settle", "done"]
