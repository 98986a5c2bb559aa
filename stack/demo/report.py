"""The demo's report, for people and machines."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from stack.history.blackout import Move, blackouts
from stack.history.checker import Result
from stack.history.events import Acked, Delivered
from stack.history.history import History
from stack.history.lost_tails import LostTailCounts
from stack.history.standstill import LongestStandstills


@dataclass(frozen=True)
class MoveReport:
    """One move as Airflow has reported it."""

    operation: str
    user: str
    origin: str
    target: str
    result: str
    revision: int
    steps: tuple[dict[str, Any], ...]
    partitions: tuple[dict[str, Any], ...]
    airflow_url: str
    move: Move

    def fenced_ms(self) -> float:
        """From fence to cut."""
        return sum(
            float(step["ms"]) for step in self.steps if step["name"] in {"fence", "drain", "ends", "offsets", "cut"}
        )

    def to_json(self) -> dict[str, Any]:
        document = asdict(self)
        del document["move"]
        document["from"], document["to"] = document.pop("origin"), document.pop("target")
        return document


@dataclass(frozen=True)
class ClientLine:
    """One client. A producer's `delivered` counts its records that were delivered to the group."""

    name: str
    role: str
    blackout_ms: tuple[float | None, ...]
    acknowledged: int
    delivered: int


@dataclass(frozen=True)
class LaggingReader:
    """The lagging reader's way across the cut. Counts are of delivered records."""

    name: str
    lag_records: int
    """Records acknowledged but not yet delivered to it when the topic had settled."""
    crossed_after_s: float | None
    """Seconds until it had crossed the cut in every partition; None: it never did."""
    below_cut: int
    from_cut_on: int


@dataclass(frozen=True)
class MigrationReport:
    """A topic's migration with a predicted cut."""

    operation: str
    topic: str
    origin: str
    target: str
    result: str
    steps: tuple[dict[str, Any], ...]
    partitions: tuple[dict[str, Any], ...]
    clients: tuple[ClientLine, ...]
    """Each with two blackouts: the longest standstill before, and the longest one while the topic was crossing."""
    standstills: tuple[LongestStandstills, ...]
    """Standstills per consumer and partition."""
    standstill_bound_ms: float
    """Limit of each while the topic is crossing."""
    reader: LaggingReader
    aged: bool
    deleted: bool
    """Whether the topic was deleted in the origin."""
    airflow_url: str
    plot: str
    """File."""

    @property
    def sound(self) -> bool:
        """It succeeded and aged, all clients and the reader crossed the cut, and no consumer stood still too long."""
        went_on = all(standstills.moving_ms <= self.standstill_bound_ms for standstills in self.standstills)
        across = self.reader.crossed_after_s is not None and bool(self.reader.below_cut)
        back = all(client.blackout_ms[-1] is not None for client in self.clients)
        return self.result == "succeeded" and self.aged and self.deleted and across and back and went_on

    def to_json(self) -> dict[str, Any]:
        reader = asdict(self.reader)
        reader["behind"] = reader.pop("lag_records")
        return {**_document(self), "reader": reader, "cut": "predicted"}


@dataclass(frozen=True)
class Failover:
    """Failover of a mirrored topic whose cluster was killed."""

    operation: str
    topic: str
    origin: str
    target: str
    result: str
    account: LostTailCounts
    counted: int
    """Records counted by `mirror reconcile`."""
    violations: tuple[str, ...]
    """The lost tail, in words."""
    tails: tuple[dict[str, Any], ...]
    """Results of `mirror reconcile`, one per partition."""
    first_answer_after_kill_s: float
    first_answer_after_trigger_s: float
    command_s: float
    """Duration of the forced switch command."""
    clients: tuple[ClientLine, ...]
    """Each with two blackouts: the longest standstill before the kill, and the one after it."""
    standby_equal: bool
    """Whether the returned cluster, now the standby, has all records of its topic."""
    plot: str
    """File."""

    @property
    def sound(self) -> bool:
        """Every record is accounted for, and every client and the cluster came back."""
        back = all(client.blackout_ms[-1] is not None for client in self.clients)
        exact = self.account.exact and self.counted == self.account.reported and not self.violations
        return self.result == "succeeded" and exact and back and self.standby_equal

    def to_json(self) -> dict[str, Any]:
        document = _document(self)
        document |= document.pop("account")
        document["missing"], document["strange"] = self.account.missing[:100], self.account.strange[:100]
        return document


def _document(act: MigrationReport | Failover) -> dict[str, Any]:
    document = asdict(act)
    document["from"], document["to"] = document.pop("origin"), document.pop("target")
    for client in document["clients"]:
        client["standstill_before_ms"], client["blackout_ms"] = client["blackout_ms"]
    return document


@dataclass(frozen=True)
class DemoReport:
    operations: tuple[MoveReport, ...]
    clients: tuple[ClientLine, ...]
    migration: MigrationReport
    failover: Failover
    result: Result
    """The report of all acts, without reported losses."""
    airflow_url: str

    @property
    def sound(self) -> bool:
        """No record lost, duplicated or renumbered; all clients came back; all operations succeeded."""
        back = all(ms is not None for client in self.clients for ms in client.blackout_ms)
        moved = bool(self.operations) and all(report.result == "succeeded" for report in self.operations)
        whole = self.result.sound and not self.result.lost and not self.result.doubled
        return whole and back and moved and self.migration.sound and self.failover.sound

    def to_json(self) -> dict[str, Any]:
        return {
            "operations": [operation.to_json() for operation in self.operations],
            "clients": [asdict(client) for client in self.clients],
            "migration": self.migration.to_json(),
            "failover": self.failover.to_json(),
            "acknowledged": self.result.acknowledged,
            "delivered": self.result.delivered,
            "lost": self.result.lost,
            "doubled": self.result.doubled,
            "violations": [str(violation) for violation in self.result.violations[:100]],
            "airflow_url": self.airflow_url,
        }

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.to_json(), indent=1, ensure_ascii=False) + "\n", "utf-8")


def client_lines(history: History, moves: Sequence[Move]) -> tuple[ClientLine, ...]:
    """One line per client, producers first."""
    given = {e.value for events in history.clients.values() for e in events if isinstance(e, Delivered)}
    still = blackouts(history, moves)
    lines = []
    for name, started in history.started().items():
        events = history.clients[name]
        acked = {event.value for event in events if isinstance(event, Acked)}
        mine = {event.value for event in events if isinstance(event, Delivered)}
        delivered = len(acked & given) if started.role == "producer" else len(mine)
        lines.append(ClientLine(name, started.role, still[name], len(acked), delivered))
    return tuple(sorted(lines, key=lambda line: (line.role != "producer", line.name)))


def _table(*columns: str) -> Table:
    made = Table(box=None, pad_edge=False)
    for column in columns:
        made.add_column(column, no_wrap=True)
    return made


def show(console: Console, report: DemoReport) -> None:
    """Print the report on a terminal."""
    console.print()
    moves = _table("move", "who", "from", "to", "fence to cut", "operation")
    for number, move_report in enumerate(report.operations, 1):
        row = (
            str(number),
            move_report.user,
            move_report.origin,
            move_report.target,
            f"{move_report.fenced_ms():.0f} ms",
            move_report.operation,
        )
        moves.add_row(*(Text(cell) for cell in row))
    console.print(moves)
    console.print()
    columns = [f"blackout {number}" for number in range(1, len(report.operations) + 1)]
    console.print(_clients(report.clients, columns))
    console.print()
    _show_migration(console, report.migration)
    _show_failover(console, report.failover, report.result.doubled)
    result = report.result
    colour = "bold green" if report.sound else "bold red"
    counts = f"all acts, without reported losses: {result.acknowledged} acknowledged, {result.delivered} delivered"
    counts += f", {result.lost} lost, {result.doubled} doubled"
    console.print(Text(counts, style=colour))
    for violation in result.violations[:20]:
        console.print(Text(f"  {violation}", style="red"))
    console.print()
    for operation in report.operations:
        console.print(
            Text(f"every step of {operation.origin} → {operation.target}: {operation.airflow_url}"), soft_wrap=True
        )
    console.print(Text(f"every step of the aging: {report.migration.airflow_url}"), soft_wrap=True)
    console.print(Text(f"plot of the migration: {report.migration.plot}"), soft_wrap=True)
    console.print(Text(f"plot of the failover: {report.failover.plot}"), soft_wrap=True)


def _clients(lines: Sequence[ClientLine], columns: Sequence[str]) -> Table:
    clients = _table("client", "role", *columns, "acknowledged", "delivered")
    for client in lines:
        still = ["never back" if ms is None else f"{ms:.0f} ms" for ms in client.blackout_ms]
        acknowledged = str(client.acknowledged) if client.role == "producer" else ""
        clients.add_row(*(Text(c) for c in (client.name, client.role, *still, acknowledged, str(client.delivered))))
    return clients


def _show_migration(console: Console, migration: MigrationReport) -> None:
    heads = _table("migration", "from", "to", "cut", "fence", "operation")
    cuts = ", ".join(f"{partition['partition']} at {partition['cut']}" for partition in migration.partitions)
    row = (migration.topic, migration.origin, migration.target, f"predicted: {cuts}", "none", migration.operation)
    heads.add_row(*(Text(cell) for cell in row))
    console.print(heads)
    console.print()
    console.print(_clients(migration.clients, ("longest gap before", "while crossing over")))
    console.print()
    stood = _table("consumer", "partition", "longest standstill before", "while crossing over")
    for standstills in migration.standstills:
        long = standstills.moving_ms > migration.standstill_bound_ms
        cells = (
            standstills.reader,
            str(standstills.partition),
            f"{standstills.usual_ms:.0f} ms",
            f"{standstills.moving_ms:.0f} ms",
        )
        stood.add_row(*(Text(cell, style="bold red" if long else "") for cell in cells))
    console.print(stood)
    console.print()
    reader = migration.reader
    across = "never" if reader.crossed_after_s is None else f"{reader.crossed_after_s:.1f} s later"
    console.print(
        Text(
            f"{reader.name} was {reader.lag_records} records below the end when {migration.topic} had crossed over, "
            "and crossed "
            f"the cut {across}: {reader.below_cut} records from below it, {reader.from_cut_on} from it on"
        )
    )
    console.print(
        Text(
            f"afterwards {migration.topic} {'is Aged' if migration.aged else 'did not age'}, and its topic in "
            f"{migration.origin} {'is deleted' if migration.deleted else 'is still there'}"
        )
    )
    console.print()


def _show_failover(console: Console, failover: Failover, doubled: int) -> None:
    heads = _table("failover", "from", "to", "command", "first answer after the kill", "after the trigger", "operation")
    kill_s, trigger_s = failover.first_answer_after_kill_s, failover.first_answer_after_trigger_s
    times = (f"{failover.command_s:.1f} s", f"{kill_s:.1f} s", f"{trigger_s:.1f} s")
    row = (failover.topic, failover.origin, failover.target, *times, failover.operation)
    heads.add_row(*(Text(cell) for cell in row))
    console.print(heads)
    console.print()
    console.print(_clients(failover.clients, ("longest gap before", "at the kill")))
    console.print()
    console.print(Text(f"{failover.account}, {doubled} doubled", style="bold" if failover.sound else "bold red"))
    unknown = [*(f"missing: {one}" for one in failover.account.missing[:20])]
    unknown += [f"not acknowledged, or lost, and delivered: {one}" for one in failover.account.strange[:20]]
    for text in (*failover.violations[:20], *unknown):
        console.print(Text(f"  {text}", style="red"))
    same = "equals" if failover.standby_equal else "DIFFERS FROM"
    console.print(
        Text(f"{failover.origin} is the standby of {failover.topic} now, and {same} it, except for the lost tail")
    )
    console.print()
