"""`switchyard history verify FILE` on forged files names fields that no seal covers, too."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ha_core.cli.app import build
from ha_core.model import Cluster
from ha_core.operations.audit.checking import MAX_FAULTS
from stack.memory_store import MemoryStore
from tests.kit.operations import a_switch

from .invoking import run, seeded, use

Verify = Callable[[list[str]], tuple[int, dict[str, Any]]]


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines of an export: an operation of an earlier version, and three with seals."""
    store = seeded(Cluster(name="east", bootstrap="127.0.0.1:1", default=True))
    use(store, monkeypatch)
    store.create_operation(a_switch(id="old", state="succeeded", ended="2026-01-01T00:00:00.000Z"), [])
    for n in range(1, 4):
        _end(store, f"switch-{n}", f"2026-11-2{n}T10:00:00.000Z")
    exported = CliRunner().invoke(build(), ["history", "export", "--ndjson"])
    assert exported.exit_code == 0, exported.stderr
    return exported.stdout.splitlines()


def _end(store: MemoryStore, name: str, at: str) -> None:
    operation = a_switch(id=name, state="failed", ended=at, result="undone")
    store.release_locks(name, store.create_operation(operation, [f"topic:{name}"]), at)


@pytest.fixture
def verify(tmp_path: Path) -> Verify:
    def check(lines: list[str]) -> tuple[int, dict[str, Any]]:
        file = tmp_path / "export.ndjson"
        file.write_text("\n".join(lines) + "\n", "utf-8")
        return run("history", "verify", str(file))

    return check


def changed(line: str, **fields: Any) -> str:
    return json.dumps(json.loads(line) | fields)


def kinds(report: dict[str, Any]) -> list[tuple[str, str]]:
    return [(fault["kind"], fault["about"]) for fault in report["faults"]]


def test_an_export_and_one_that_another_program_has_written_again_have_no_fault(
    whole: list[str], verify: Verify
) -> None:
    for lines in (whole, [json.dumps(json.loads(line), indent=None) for line in whole]):
        code, report = verify(lines)

        assert (code, report["checked"], report["earlier"], report["faults"]) == (0, 3, 1, [])


@pytest.mark.parametrize(
    "forged",
    [
        {"type": "switchyard.operation.succeeded"},
        {"time": "2026-11-01T00:00:00.000Z"},
        {"subject": "switch-9"},
        {"id": "switch-9"},
        {"sequence": "00000000000000000009"},
        {"source": "/switchyard/another"},
        {"comment": "approved by the board"},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_an_event_that_says_something_else_than_its_sealed_operation_is_named(
    whole: list[str], verify: Verify, forged: dict[str, str]
) -> None:
    code, report = verify([*whole[:2], changed(whole[2], **forged), whole[3]])

    assert code == 6
    assert kinds(report) == [("changed", "switch-2")]
    assert next(iter(forged)) in report["faults"][0]["text"]


def test_further_data_beside_the_sealed_operation_is_named(whole: list[str], verify: Verify) -> None:
    event = json.loads(whole[3])

    code, report = verify([*whole[:3], changed(whole[3], data={**event["data"], "approved_by": "bob"})])

    assert (code, kinds(report)) == (6, [("changed", "switch-3")])


def test_a_value_that_stands_twice_is_refused_for_programs_differ_in_the_one_that_they_take(
    whole: list[str], verify: Verify
) -> None:
    twice = whole[1].replace('"state":"failed"', '"state":"succeeded","state":"failed"')
    assert twice != whole[1]

    code, report = verify([whole[0], twice, *whole[2:]])

    assert code == 2
    assert "line 2" in report["error"]
    assert "the key 'state' stands in it twice" in report["error"]


def test_the_last_operation_does_not_pass_as_one_of_an_earlier_version_once_its_seal_is_cut_out(
    whole: list[str], verify: Verify
) -> None:
    event = json.loads(whole[3])
    del event["data"]["seal"], event["sequence"]
    event["data"]["operation"]["reason"] = "forged"

    for lines in ([*whole[:3], json.dumps(event)], [json.dumps(event), *whole[:3]]):
        code, report = verify(lines)

        assert (code, kinds(report)) == (6, [("unsealed", "switch-3")])
        assert (report["checked"], report["earlier"]) == (2, 1)


def test_the_first_seal_of_all_follows_none(whole: list[str], verify: Verify) -> None:
    event = json.loads(whole[1])
    event["data"]["seal"]["before"] = "ab" * 32

    code, report = verify([json.dumps(event)])

    assert (code, kinds(report)) == (6, [("forged", "seal 1")])


@pytest.mark.parametrize(
    "value",
    ["[" * 100_000, "9" * 10_000, '"\\ud800"', "NaN", "-1e999", '{"a":' * 5_000],
    ids=["deep", "long number", "half a character", "no number", "infinite", "deep objects"],
)
def test_values_that_no_export_has_end_in_a_verdict(whole: list[str], verify: Verify, value: str) -> None:
    line = whole[1].replace('"revision":', f'"forged":{value},"revision":', 1)
    assert line != whole[1]

    code, report = verify([whole[0], line, *whole[2:]])

    assert code in {2, 6}
    assert report.get("faults") or "line 2" in report["error"]


def test_a_file_of_nothing_but_faults_does_not_keep_more_of_them_than_are_shown(
    whole: list[str], verify: Verify, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[int] = []
    from ha_core.operations.audit import checking

    ordinary = checking._Faults.add

    def add(self: Any, more: Any) -> None:
        ordinary(self, more)
        kept.append(len(self.found))

    monkeypatch.setattr(checking._Faults, "add", add)

    code, report = verify([whole[0], *[whole[1]] * (2 * MAX_FAULTS)])

    assert code == 6
    assert len(report["faults"]) == MAX_FAULTS == max(kept)
