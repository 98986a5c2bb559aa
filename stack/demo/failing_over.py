"""The third act: a mirrored topic's cluster is killed, its clients go on at the copy, and the lost tail is counted.

The job mirrors the topic all the time, with a lag of milliseconds. Just before the kill it is stopped for a moment, as
by a slow network: otherwise there would be nothing to count. No client is restarted. When the cluster is back it is
reconciled, and becomes the standby.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ha_core.cli.plotting import Mark
from stack.clients.process import history_of
from stack.demo.command import Say, open_environment, switchyard
from stack.demo.failover_plot import acks, draw, track_of
from stack.demo.report import Failover, client_lines
from stack.demo.workload import PAYMENTS, Workload, dump_everywhere, prepare
from stack.errors import StackError
from stack.harness import Stack
from stack.history.blackout import Move
from stack.history.events import Acked, Delivered
from stack.history.history import History
from stack.history.lost_tails import ForcedLoss, account, tail_violations, what_is_left

if TYPE_CHECKING:
    from ha_core.operations.engine.environment import Environment

ORIGIN, TARGET = "east", "west"
AUDITOR = "settlement-audit"
"""Starts at the end of the act, and reads everything from the beginning."""
QUIET_S = 8.0
"""Load before the kill, in seconds: groups' offsets are copied every 5 s."""
STALL_S = 1.5
GO_ON = 200
"""Records per client after which it counts as working."""
KNOWN_COMMITS_S = 15.0
"""Commits younger than this may be lost with their cluster: they are copied every 5 s, by a busy machine."""
MIRRORED_TIMEOUT_S = 300.0
"""Spark starts its tasks within seconds on an idle machine."""
READ_TIMEOUT_S = 60.0
LOOK_S = 0.5


@dataclass(frozen=True)
class FailingOver:
    """Result of the act."""

    failover: Failover
    left: History
    """Without the reported losses."""


@dataclass(frozen=True)
class _Moments:
    """Times in seconds since the epoch."""

    stalled: float
    killed: float
    triggered: float
    switched: float


def fail_over(stack: Stack, directory: Path, plot: Path, say: Say) -> FailingOver:
    """Link, kill, switch by force, return, reconcile, and account for every record."""
    topic = PAYMENTS.topic
    prepare(stack, PAYMENTS, ORIGIN)
    say(f"third act: topic {topic} with {PAYMENTS.partitions} partitions in cluster {ORIGIN}, user {PAYMENTS.user}")
    workload = Workload(stack, PAYMENTS, directory)
    with open_environment(stack) as environment:
        try:
            words = ["mirror", "link", topic, "--from", ORIGIN, "--to", TARGET, "--reason", "demo: a standby", "--yes"]
            switchyard(stack, words, say)
            workload.start(say)
            at_work = time.time()
            lag = _until_copied(environment, TARGET, round(len(PAYMENTS.producers) * PAYMENTS.records_per_s))
            say(f"{topic} is copied to {TARGET} by the Spark job, with a lag of {lag} records")
            time.sleep(QUIET_S)
            report, moments = _kill_and_switch(stack, workload, say)
            result = _come_back(stack, say)
            loss = _loss(environment, report["operation"], moments)
            _go_on(workload)
            for producer in workload.producers:
                producer.stop()
            workload.consume("confluent-consumer", AUDITOR, "", seek="beginning")
            _until_read(workload, loss)
            for consumer in workload.consumers:
                consumer.stop()
            say(f"clients stopped; {topic} is compared record by record with its new standby in {ORIGIN}")
            _until_copied(environment, ORIGIN, 0)
            verified = switchyard(stack, ["mirror", "verify", topic, "--to", ORIGIN], say)
        finally:
            workload.end()
    say(f"{topic} is read from both clusters, past the gateways")
    history = history_of(workload.clients).with_evidence((), (), dump_everywhere(stack, topic))
    marks = (
        Mark(moments.stalled, "copying stands still"),
        Mark(moments.killed, f"{ORIGIN} killed"),
        Mark(moments.switched, "switched"),
    )
    draw(track_of(history, loss, PAYMENTS.group), marks, moments.killed, plot, topic)
    cuts = {partition: extents[-1].start for partition, extents in loss.topic.partitions.items()}
    first = min(ack.t for ack in acks(history) if ack.offset >= cuts[ack.partition])
    lines = client_lines(history, [Move(at_work, moments.stalled), Move(moments.killed, moments.switched)])
    failover = Failover(
        operation=report["operation"],
        topic=topic,
        origin=ORIGIN,
        target=TARGET,
        result=report["result"],
        account=account(history, loss, AUDITOR),
        counted=result["records"],
        violations=tuple(str(violation) for violation in tail_violations(history, loss)),
        tails=tuple(result["tails"]),
        first_answer_after_kill_s=round(first - moments.killed, 2),
        first_answer_after_trigger_s=round(first - moments.triggered, 2),
        command_s=round(moments.switched - moments.triggered, 2),
        clients=tuple(line for line in lines if line.name != AUDITOR),
        standby_equal=bool(verified["equal"]),
        plot=str(plot.resolve()),
    )
    return FailingOver(failover, what_is_left(history, loss))


def _kill_and_switch(stack: Stack, workload: Workload, say: Say) -> tuple[dict[str, Any], _Moments]:
    stalled = time.time()
    stack.pause("mirror")
    say(f"the copying job stands still (SIGSTOP): what is written from now on is in {ORIGIN} only")
    time.sleep(STALL_S)
    killed = time.time()
    stack.kill(f"cluster/{ORIGIN}")
    say(f"{ORIGIN} is dead: kill -9 of all its brokers, under load")
    words = ["switch", f"user:{PAYMENTS.user}", "--from", ORIGIN, "--to", TARGET, "--mode", "forced"]
    triggered = time.time()
    report = switchyard(stack, [*words, "--unread", "wait", "--reason", f"demo: {ORIGIN} is down", "--yes"], say)
    switched = time.time()
    _go_on(workload)
    say(f"every client goes on at {TARGET}, none was restarted")
    stack.resume("mirror")
    return report, _Moments(stalled, killed, triggered, switched)


def _come_back(stack: Stack, say: Say) -> dict[str, Any]:
    """The result of `mirror reconcile`."""
    stack.restart(f"cluster/{ORIGIN}")
    say(f"{ORIGIN} is back, with what no copy had")
    result: dict[str, Any] = switchyard(
        stack, ["mirror", "reconcile", ORIGIN, "--reason", "demo: it is back", "--yes"], say
    )
    for tail in result["tails"]:
        where = f"from offset {tail['mirrored']} to {tail['end']}"
        say(
            f"  partition {tail['partition']}: {tail['records']} records, {where}; "
            f"{tail['fetch'] or 'nothing to fetch'}"
        )
    return result


def _go_on(workload: Workload) -> None:
    """Wait until each client has made progress; raises ClientError if one has ended."""
    wanted = [(process, process.count("acknowledged") + GO_ON, "acknowledged") for process in workload.producers]
    wanted += [(process, process.count("delivered") + GO_ON, "delivered") for process in workload.consumers]
    for client, count, what in wanted:
        client.wait_for(count, what)


def _until_copied(environment: Environment, target: str, lag_records: int) -> int:
    """Wait until all partitions are copied to `target`, with at most this lag in all; returns it. Raises StackError."""
    from ha_core.operations.clusters.mirrors import mirrors_now

    deadline = time.monotonic() + MIRRORED_TIMEOUT_S
    while True:
        rows = [row for row in mirrors_now(environment).rows if (row.topic, row.target) == (PAYMENTS.topic, target)]
        lags = [row.lag_records for row in rows if row.state == "copying" and row.lag_records is not None]
        if len(lags) == PAYMENTS.partitions and sum(lags) <= lag_records:
            return sum(lags)
        if time.monotonic() > deadline:
            said = "; ".join(f"{row.partition}: {row.state}, {row.lag_records}, {row.reason}" for row in rows)
            raise StackError(f"{PAYMENTS.topic} is not copied to {target} after {MIRRORED_TIMEOUT_S:.0f} s: {said}")
        time.sleep(LOOK_S)


def _loss(environment: Environment, operation: str, moments: _Moments) -> ForcedLoss:
    from ha_core.model import Topic

    found = environment.store.read(Topic, PAYMENTS.topic)
    assert found is not None
    (tail,) = (lost_tail for lost_tail in environment.store.lost_tails() if lost_tail.operation == operation)
    entries = environment.store.history(operation)
    cut_at = next(datetime.fromisoformat(o.at).timestamp() for o in entries if (o.step, o.outcome) == ("cut", "done"))
    return ForcedLoss(found[0], tail, cut_at, moments.killed - KNOWN_COMMITS_S)


def _until_read(workload: Workload, loss: ForcedLoss) -> None:
    """Wait until the group and the auditor have everything above. The check reports records that never arrive."""
    readers = [tuple(PAYMENTS.consumers), (AUDITOR,)]
    deadline = time.monotonic() + READ_TIMEOUT_S
    while time.monotonic() < deadline:
        history = history_of(workload.clients)
        promised = {ack.value for ack in acks(history) if not _in_tail(ack, loss)}
        given = [
            {event.value for name in names for event in history.clients[name] if isinstance(event, Delivered)}
            for names in readers
        ]
        if all(promised <= one for one in given):
            return
        time.sleep(LOOK_S)


def _in_tail(ack: Acked, loss: ForcedLoss) -> bool:
    tail = loss.tail.partitions[ack.partition]
    return tail.client <= ack.offset < tail.client + (tail.end or 0) - tail.mirrored
