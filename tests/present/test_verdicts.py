"""Verdicts as people and programs get them: the same rows."""

from __future__ import annotations

import json
import re
from dataclasses import asdict
from pathlib import Path
from typing import get_args

from ha_core.operations.report import Report
from ha_core.plan.verdict import Code, error, info
from ha_core.present.moves import report_page, verdicts_page
from ha_core.present.page import Table, log_lines

LAGS = error("copy-lags", "topic orders", "It is behind.", "Wait.", number=4210, unit="records")
GOES = info("goes-to-copy", "topic orders", "It goes there.")


def test_a_row_of_the_table_has_what_the_row_of_the_json_has() -> None:
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


def test_a_report_shows_what_took_the_operation_back() -> None:
    report = Report("switch-1", "undone", 0, error="It was undone.", verdicts=(LAGS,))

    assert "  error: topic orders: It is behind. Wait. (copy-lags)" in list(log_lines(report_page(report)))
    assert report.to_json()["verdicts"][0]["number"] == 4210


def test_the_page_on_verdicts_names_codes_that_there_are() -> None:
    rows = re.findall(r"^\| (`[^|]+) \|", Path("docs/verdicts.md").read_text(), re.MULTILINE)
    named = {code for row in rows for code in re.findall(r"`([^`]+)`", row)}
    assert len(named) > 20
    assert named <= set(get_args(Code))
