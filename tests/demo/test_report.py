"""The demo's report: its criteria of success, and its JSON."""

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

from rich.console import Console

from stack.demo.report import (
    ClientLine,
    DemoReport,
    Failover,
    LaggingReader,
    MigrationReport,
    MoveReport,
    client_lines,
    show,
)
from stack.history.blackout import Move
from stack.history.checker import Result
from stack.history.events import Acked, ClientStarted, Delivered, Event
from stack.history.history import History
from stack.history.lost_tails import LostTailCounts
from stack.history.standstill import LongestStandstills
from stack.history.violation import Violation

MOVE = Move(10.0, 11.0)
OPERATION = MoveReport(
    "switch-1",
    "orders-app",
    "east",
    "west",
    "succeeded",
    4,
    ({"name": "cut", "ms": 2.5},),
    (),
    "http://airflow/run",
    MOVE,
)
SOUND = Result((), acknowledged=2, delivered=2, lost=0, doubled=0, repeated=0, excused=0)
MIGRATION = MigrationReport(
    operation="migrate-1",
    topic="invoices",
    origin="east",
    target="west",
    result="succeeded",
    steps=({"name": "settle", "ms": 20.0},),
    partitions=({"topic": "invoices", "partition": 0, "cut": 700, "from": "east", "to": "west"},),
    clients=(ClientLine("two", "producer", (21.0, 23.5), 3, 3),),
    standstills=(LongestStandstills("four", "invoices", 1, 120.0, 210.0),),
    standstill_bound_ms=2000.0,
    reader=LaggingReader("slow", 500, 4.2, 700, 90),
    aged=True,
    deleted=True,
    airflow_url="http://airflow/age",
    plot="/plots/report.png",
)
CLIENTS = (ClientLine("one", "producer", (12.5,), 2, 2),)
ACCOUNT = LostTailCounts(acknowledged=12, reported=4, lost=3, came_again=1, delivered=9, missing=(), strange=())
FAILOVER = Failover(
    operation="switch-3",
    topic="payments",
    origin="east",
    target="west",
    result="succeeded",
    account=ACCOUNT,
    counted=4,
    violations=(),
    tails=({"partition": 0, "mirrored": 6, "end": 10, "records": 4},),
    first_answer_after_kill_s=3.5,
    first_answer_after_trigger_s=3.4,
    command_s=4.8,
    clients=(ClientLine("three", "consumer", (250.0, 4100.0), 0, 9),),
    standby_equal=True,
    plot="/plots/report-failover.png",
)
REPORT = DemoReport((OPERATION,), CLIENTS, MIGRATION, FAILOVER, SOUND, "http://airflow/runs")


def acked(t: float, value: str) -> Acked:
    return Acked("p", t, "orders", 0, 0, value)


def given(t: float, value: str) -> Delivered:
    return Delivered("c", t, "orders", 0, 0, value, "billing")


def test_the_json_report_has_its_promised_fields(tmp_path: Path) -> None:
    # Given a report of a switch and a migration
    path = tmp_path / "new" / "report.json"
    # When it is written
    REPORT.write(path)
    # Then its document has the promised fields of both
    document = json.loads(path.read_text("utf-8"))
    assert {"operations", "clients", "lost", "doubled", "airflow_url"} <= set(document)
    assert set(document["clients"][0]) == {"name", "role", "blackout_ms", "acknowledged", "delivered"}
    (switch,) = document["operations"]
    assert (switch["operation"], switch["from"], switch["to"]) == ("switch-1", "east", "west")
    migration = document["migration"]
    assert (migration["operation"], migration["cut"], migration["plot"]) == (
        "migrate-1",
        "predicted",
        "/plots/report.png",
    )
    assert (migration["from"], migration["to"]) == ("east", "west")
    assert migration["clients"][0] == {
        "name": "two",
        "role": "producer",
        "standstill_before_ms": 21.0,
        "blackout_ms": 23.5,
        "acknowledged": 3,
        "delivered": 3,
    }
    assert (migration["reader"]["behind"], migration["reader"]["crossed_after_s"]) == (500, 4.2)
    assert migration["standstill_bound_ms"] == 2000.0
    assert migration["standstills"] == [
        {"reader": "four", "topic": "invoices", "partition": 1, "usual_ms": 120.0, "moving_ms": 210.0}
    ]
    failover = document["failover"]
    assert (failover["acknowledged"], failover["lost"], failover["reported"], failover["delivered"]) == (12, 3, 4, 9)
    assert (failover["from"], failover["to"], failover["first_answer_after_trigger_s"]) == ("east", "west", 3.4)
    assert (failover["clients"][0]["blackout_ms"], failover["tails"][0]["records"]) == (4100.0, 4)


def test_a_demo_is_sound_only_when_complete_and_without_loss() -> None:
    violation = Violation("renumbered", "c", "orders", 0, "p-1", (1, 2), "offset 1 became 2")

    assert REPORT.sound
    assert not replace(REPORT, result=replace(SOUND, lost=1)).sound
    assert not replace(REPORT, result=replace(SOUND, doubled=1)).sound
    assert not replace(REPORT, result=replace(SOUND, violations=(violation,))).sound
    assert not replace(REPORT, operations=(replace(OPERATION, result="failed"),)).sound
    assert not replace(REPORT, operations=()).sound
    assert not replace(REPORT, clients=(ClientLine("one", "consumer", (None,), 0, 1),)).sound


def test_a_demo_migration_is_sound_only_when_all_clients_crossed_and_the_origin_is_deleted() -> None:
    stuck = ClientLine("two", "producer", (21.0, None), 3, 3)

    assert MIGRATION.sound
    assert replace(MIGRATION, clients=(ClientLine("slow", "consumer", (None, 20.0), 0, 3),)).sound
    assert not replace(MIGRATION, clients=(stuck,)).sound
    stood = LongestStandstills("four", "invoices", 1, 120.0, 2000.1)
    assert not replace(MIGRATION, standstills=(*MIGRATION.standstills, stood)).sound
    assert not replace(MIGRATION, result="crossing").sound
    assert not replace(MIGRATION, aged=False).sound
    assert not replace(MIGRATION, deleted=False).sound
    assert not replace(MIGRATION, reader=replace(MIGRATION.reader, crossed_after_s=None)).sound
    assert not replace(REPORT, migration=replace(MIGRATION, aged=False)).sound


def test_a_failover_is_sound_only_with_all_records_accounted_for_and_all_clients_back() -> None:
    assert FAILOVER.sound
    assert not replace(FAILOVER, account=replace(ACCOUNT, delivered=8, missing=("p-1",))).sound
    assert not replace(FAILOVER, account=replace(ACCOUNT, delivered=10, strange=("p-1",))).sound
    assert not replace(FAILOVER, account=replace(ACCOUNT, lost=2)).sound
    assert not replace(FAILOVER, counted=5).sound
    assert not replace(FAILOVER, violations=("miscounted",)).sound
    assert not replace(FAILOVER, result="undone").sound
    assert not replace(FAILOVER, standby_equal=False).sound
    assert not replace(FAILOVER, clients=(ClientLine("three", "consumer", (250.0, None), 0, 9),)).sound
    assert not replace(REPORT, failover=replace(FAILOVER, counted=5)).sound


def test_a_client_line_has_its_blackout_and_its_counts() -> None:
    # Given a producer with a pause over the move, and a consumer with a longer one
    producer: tuple[Event, ...] = (
        ClientStarted("p", 1.0, "producer", "test", ("orders",)),
        acked(9.9, "p-1"),
        acked(10.4, "p-2"),
        acked(11.5, "p-3"),
        acked(11.6, "p-3"),
    )
    consumer: tuple[Event, ...] = (
        ClientStarted("c", 1.0, "consumer", "test", ("orders",), "billing"),
        given(9.9, "p-1"),
        given(12.0, "p-2"),
    )
    # When their lines are made
    lines = client_lines(History({"c": consumer, "p": producer}), [MOVE])
    # Then each has its longest pause, and its records
    assert lines == (
        ClientLine("p", "producer", (1100.0,), 3, 2),
        ClientLine("c", "consumer", (2100.0,), 0, 2),
    )


def test_the_terminal_report_shows_switches_the_migration_and_the_failover() -> None:
    console = Console(width=160, file=StringIO(), highlight=False)

    show(console, REPORT)

    text = console.file.getvalue()  # type: ignore[attr-defined]  # it is the StringIO from above
    for words in ("blackout 1", "while crossing over", "predicted: 0 at 700", "crossed the cut 4.2 s later"):
        assert words in text
    assert "is Aged, and its topic in east is deleted" in text
    assert "2 acknowledged, 2 delivered, 0 lost, 0 doubled" in text
    assert "/plots/report.png" in text
    assert "12 acknowledged - 3 lost (4 reported, 1 of them written again at the copy) = 9 delivered, 0 doubled" in text
    assert "east is the standby of payments now, and equals it" in text


def test_the_terminal_report_names_the_records_that_an_inexact_account_misses() -> None:
    console = Console(width=160, file=StringIO(), highlight=False)
    wrong = replace(FAILOVER, account=replace(ACCOUNT, delivered=8, missing=("p-7",)), standby_equal=False)

    show(console, replace(REPORT, failover=wrong))

    text = console.file.getvalue()  # type: ignore[attr-defined]  # it is the StringIO from above
    assert "≠ 8 delivered" in text
    assert "missing: p-7" in text
    assert "DIFFERS FROM" in text
