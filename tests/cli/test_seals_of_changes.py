"""`switchyard history verify` on changes of users and rights: in the database, and in an exported file."""

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ha_core.model import Cluster
from stack.memory_store import MemoryStore

from .invoking import run, seeded, use
from .recorded import ended, lines

Line = dict[str, Any]


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> MemoryStore:
    seeded_store = seeded(Cluster(name="east", bootstrap="127.0.0.1:1", default=True))
    use(seeded_store, monkeypatch)
    ended(seeded_store, "switch-1")
    return seeded_store


@pytest.fixture
def file(tmp_path: Path, store: MemoryStore) -> Path:
    """A database in which a user got a password and three quotas, of which the last was taken away."""
    file = tmp_path / "platform.db"
    to = ("--reason", "INC-7", "--database", f"sqlite:///{file}")
    secret = tmp_path / "password"
    secret.write_text("s3cret-enough\n")
    assert run("users", "create", "erin", "--password-file", str(secret), *to)[0] == 0
    for rate in ("50000", "60000"):
        assert run("quotas", "set", "--user", "erin", "--consumer-byte-rate", rate, *to)[0] == 0
    assert run("quotas", "delete", "--user", "erin", *to)[0] == 0
    return file


def verified(file: Path, *words: str) -> dict[str, Any]:
    report: dict[str, Any]
    code, report = run("history", "verify", "--database", f"sqlite:///{file}", *words)
    assert code == (6 if report["faults"] else 0)
    return report


def faults(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [(fault["kind"], fault["about"].partition("/")[0]) for fault in report["faults"]]


def test_changes_that_are_as_they_were_made_have_no_fault_and_a_fingerprint(file: Path) -> None:
    report = verified(file)

    assert (report["faults"], report["changes"]["checked"], report["changes"]["earlier"]) == ([], 4, 0)
    fingerprint = report["changes"]["newest"]
    assert verified(file, "--expect-platform", fingerprint)["faults"] == []
    number, _, digest = fingerprint.partition(":")
    other = f"{number}:{digest[::-1]}"
    assert faults(verified(file, "--expect-platform", other)) == [("head", "the platform")]


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("update changes set value = replace(value, '50000', '90000')", [("changed", "quotas")]),
        ("update changes set reason = 'INC-8' where kind = 'users'", [("changed", "users")]),
        ("update changes set by = 'cli:mallory' where version = 2", [("changed", "quotas")]),
        ("delete from changes where kind = 'quotas' and version = 2", [("changed", "quotas")]),
        (
            "delete from changes where kind = 'quotas' and version = 3",
            [("head", "the platform")],
        ),
        ("update changes set seal = null where version = 2", [("unsealed", "quotas"), ("changed", "quotas")]),
    ],
)
def test_a_change_that_was_rewritten_or_removed_is_named(
    file: Path, statement: str, expected: list[tuple[str, str]]
) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute(statement)

    assert faults(verified(file)) == expected


def test_a_tail_that_was_cut_off_with_the_noted_seal_is_found_by_the_fingerprint_alone(file: Path) -> None:
    # Given a fingerprint that is kept elsewhere
    fingerprint = verified(file)["changes"]["newest"]
    # When the newest change is removed, and the note of the newest seal rewritten
    with sqlite3.connect(file) as connection:
        connection.execute("delete from changes where kind = 'quotas' and version = 3")
        connection.execute("update clock set seal = (select seal from changes order by changed_us desc limit 1)")
    # Then only the fingerprint shows it
    assert verified(file)["faults"] == []
    assert faults(verified(file, "--expect-platform", fingerprint)) == [("head", "the platform")]


def test_changes_by_the_version_before_seals_are_counted_and_later_ones_are_checked(file: Path) -> None:
    # Given changes without seals
    with sqlite3.connect(file) as connection:
        connection.execute("update changes set seal = null")
        connection.execute("update clock set seal = null")
    # When a quota is set again
    to = ("--reason", "INC-9", "--database", f"sqlite:///{file}")
    assert run("quotas", "set", "--user", "erin", "--consumer-byte-rate", "70000", *to)[0] == 0
    # Then it is sealed
    changes = verified(file)["changes"]
    assert (changes["checked"], changes["earlier"]) == (1, 4)


def altered(**fields: Any) -> Callable[[Line], Line]:
    def alter(event: Line) -> Line:
        event["data"]["change"] |= fields
        return event

    return alter


def sealed_as(**fields: Any) -> Callable[[Line], Line]:
    def alter(event: Line) -> Line:
        event["data"]["seal"] |= fields
        return event

    return alter


def event_as(**fields: Any) -> Callable[[Line], Line]:
    return lambda event: event | fields


@pytest.mark.parametrize(
    ("at", "alter"),
    [
        (1, altered(by="mallory")),
        (1, altered(reason="INC-8")),
        (1, altered(changed="2026-01-01T00:00:00.000+00:00")),
        (1, altered(value={"user": "erin", "consumer_byte_rate": 90000})),
        (1, altered(value=None)),
        (3, altered(before={"user": "erin", "consumer_byte_rate": 10})),
        (3, altered(before=None)),
        (1, sealed_as(value={"user": "erin", "consumer_byte_rate": 90000})),
        (1, sealed_as(before="0" * 64)),
        (1, event_as(time="2026-01-01T00:00:00.000+00:00")),
        (1, event_as(subject="quotas/other")),
        (1, event_as(source="/switchyard/other")),
    ],
)
def test_a_line_of_an_export_that_was_altered_is_named(
    file: Path, tmp_path: Path, at: int, alter: Callable[[Line], Line]
) -> None:
    report = checked(file, tmp_path, lambda events: [*events[:at], alter(events[at]), *events[at + 1 :]])

    assert ("changed", "quotas") in faults(report) or ("removed", "quotas") in faults(report)


@pytest.mark.parametrize(
    ("kept", "expected"), [([0, 2, 3], "removed"), ([0, 2, 1, 3], "reordered"), ([1, 2, 3], None), ([0, 1], None)]
)
def test_lines_that_are_gone_between_others_or_out_of_order_are_named(
    file: Path, tmp_path: Path, kept: list[int], expected: str | None
) -> None:
    report = checked(file, tmp_path, lambda events: [events[number] for number in kept])

    assert {kind for kind, _ in faults(report)} >= ({expected} if expected else set())
    assert bool(report["faults"]) == (expected is not None)


def checked(file: Path, folder: Path, change: Callable[[list[Line]], list[Line]]) -> dict[str, Any]:
    """The check of an export whose changes of the platform are altered."""
    found = [json.loads(line) for line in lines("--database", f"sqlite:///{file}")]
    operations = [event for event in found if "change" not in event["data"]]
    changes = [event for event in found if "change" in event["data"]]
    assert len(changes) == 4
    export = folder / "export.ndjson"
    export.write_text("".join(json.dumps(event) + "\n" for event in [*operations, *change(changes)]))
    report: dict[str, Any]
    _, report = run("history", "verify", str(export))
    return report
