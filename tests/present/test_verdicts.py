"""Verdicts as people and programs get them: the same rows."""

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import get_args

from ha_core.operations.engine.report import PartitionCut, Report
from ha_core.plan.facts.verdict import Code, error, info
from ha_core.present.moves import report_page, verdicts_page
from ha_core.present.page import Table, log_lines

LAGS = error("copy-lags", "topic orders", "It is behind.", "Wait.", number=4210, unit="records")
GOES = info("goes-to-copy", "topic orders", "It goes there.")


def test_a_row_of_the_table_has_the_values_of_the_json() -> None:
    (table,) = verdicts_page([LAGS, GOES])
    assert isinstance(table, Table)
    assert [tuple(map(str, row)) for row in table.rows] == [
        ("error", "copy-lags", "topic orders", "4,210 records", "It is behind.", "Wait."),
        ("info", "goes-to-copy", "topic orders", "", "It goes there.", ""),
    ]
    row = json.loads(json.dumps(asdict(LAGS)))
    assert {key: row[key] for key in ("level", "code", "about", "number", "unit", "text", "remedy")} == {
        "level": "error",
        "code": "copy-lags",
        "about": "topic orders",
        "number": 4210,
        "unit": "records",
        "text": "It is behind.",
        "remedy": "Wait.",
    }


def test_a_log_has_them_as_sentences_with_their_code() -> None:
    assert list(log_lines(verdicts_page([LAGS]))) == ["  error: topic orders: It is behind. Wait. (copy-lags)"]


def test_a_report_shows_the_reason_of_the_undo() -> None:
    report = Report("switch-1", "undone", 0, error="It was undone.", verdicts=(LAGS,))

    assert "  error: topic orders: It is behind. Wait. (copy-lags)" in list(log_lines(report_page(report)))
    assert report.to_json()["verdicts"][0]["number"] == 4210


def test_a_report_names_offsets_without_records_and_how_a_group_skips_them() -> None:
    cuts = (PartitionCut("orders", 0, 3_001_000_024, "east", "west", 3_001_000_000),)
    report = Report("switch-1", "succeeded", 7, partitions=(*cuts, PartitionCut("paid", 0, 9, "east", "west")))

    lines = list(log_lines(report_page(report)))

    (at,) = (at for at, line in enumerate(lines) if "--reset-offsets --to-offset BELOW" in line)
    assert lines[at + 1] == "  orders-0 has no record at the 3,001,000,000 offsets below 3001000024"
    assert not any("paid" in line for line in lines[at:])
    assert [row.get("hole") for row in report.to_json()["partitions"]] == [3_001_000_000, None]


def test_the_page_on_verdicts_names_codes_that_there_are() -> None:
    rows = re.findall(r"^\| (`[^|]+) \|", Path("docs/verdicts.md").read_text(), re.MULTILINE)
    named = {code for row in rows for code in re.findall(r"`([^`]+)`", row)}
    assert len(named) > 20
    assert named <= set(get_args(Code))


def test_an_amount_of_one_has_its_unit_in_the_singular() -> None:
    amounts = [error("copy-lags", "topic orders", "", number=count, unit="records").amount for count in (0, 1, 2)]

    assert amounts == ["0 records", "1 record", "2 records"]
    assert error("copy-lags", "topic orders", "", number=1, unit="ms").amount == "1 ms"
