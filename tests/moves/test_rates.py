"""Rates as the job `offsets` leaves them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ha_core.moves.crossing.rates import from_summary
from ha_core.moves.errors import RefusedError


def write(tmp_path: Path, document: object) -> Path:
    file = tmp_path / "rates.json"
    file.write_text(document if isinstance(document, str) else json.dumps(document))
    return file


def test_the_upper_rate_of_the_origin_counts_and_its_chance_is_said(tmp_path: Path) -> None:
    rows = [
        {"cluster": "east", "topic": "orders", "partition": 0, "rate": 5.0, "upper_rate": 9.5},
        {"cluster": "east", "topic": "orders", "partition": 1, "rate": 4.0, "upper_rate": None},
        {"cluster": "west", "topic": "orders", "partition": 2, "rate": 7.0, "upper_rate": 8.0},
    ]

    rates = from_summary(write(tmp_path, {"chance": 0.01, "partitions": rows}), "east")

    assert rates.per_s == {("orders", 0): 9.5, ("orders", 1): 4.0}
    assert rates.of(("orders", 2)) == 0.0
    assert "rates.json" in rates.words
    assert "0.01" in rates.words


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", {"partitions": [{"cluster": "east"}]}, {"partitions": [1]}])
def test_what_is_no_summary_is_refused_with_the_way_out(content: object, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="leave --rates out"):
        from_summary(write(tmp_path, content), "east")
