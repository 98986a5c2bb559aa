"""Suggested cuts on a real Spark session."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ha_core.operations.migration.crossing.cuts import from_summary
from spark_jobs.cuts import Demand, Windows
from spark_jobs.folder import Folder
from spark_jobs.history import ENDS, EndRow, FactHistory
from spark_jobs.offsets import Measured, keep, pipeline, report, suggest_one, write_rates
from spark_jobs.questions import Questions
from spark_jobs.report import ago
from spark_jobs.rows import frame_of
from tests.spark_jobs.fake_fleet import fleet
from tests.spark_jobs.reference import windows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW_MS = time.time_ns() // 1_000_000
HOUR_MS = 3600 * 1000
DAY_MS = 24 * HOUR_MS
DEMAND = Demand(preparation_s=300, default_rate=10)
NO_WINDOW = (None,) * len(Windows._fields)


def recorded(spark: SparkSession, root: Path, rows: list[EndRow]) -> FactHistory:
    history = FactHistory(str(root))
    frame = frame_of(spark, EndRow, rows)
    history.write(ENDS, frame.repartition(1), NOW_MS - 60_000)
    latest = {row[:3]: row for row in sorted(rows, key=lambda row: row.read_at_ms)}
    history.write_last({ENDS: frame_of(spark, EndRow, latest.values())}, NOW_MS - 60_000)
    return history


def steady(cluster: str, topic: str, partition: int, rate: int, end: int) -> list[EndRow]:
    """Reads every minute for ten minutes, the last a minute ago; `end` is reached now."""
    minutes = range(10, 0, -1)
    return [
        EndRow(cluster, topic, partition, 0, end - rate * 60 * minute, NOW_MS - 60_000 * minute) for minute in minutes
    ]


def test_cuts_of_many_clusters_at_once_with_histories_of_every_kind(spark: SparkSession, tmp_path: Path) -> None:
    # Given a steady partition, one without history, one whose topic was re-created, and a cluster that is dead
    history = recorded(
        spark,
        tmp_path,
        [
            *steady("east", "orders", 0, 100, 100_000),
            *steady("east", "anew", 0, 100, 100_000),
            *steady("dead", "orders", 0, 100, 100_000),
            *steady("east", "deleted", 0, 1, 1_000),
        ],
    )
    reach = fleet(
        {
            "east": {
                "topics": {
                    "orders": [[5, 100_000, NOW_MS - 90 * DAY_MS, NOW_MS + 10 * HOUR_MS], [0, 0, None, None]],
                    "anew": [[0, 7, NOW_MS - 3 * HOUR_MS, None]],
                    "half": [None],
                }
            },
            "dead": {"down": True},
        }
    )
    # When cuts are suggested for all of them
    rows, troubles = pipeline(Questions(spark, reach, history.root), history, (), DEMAND, NOW_MS, window_s=3600)
    outcome = report(rows, Folder(str(tmp_path / "out")), troubles, DEMAND, NOW_MS)
    # Then each has its method
    written = spark.read.parquet(outcome.summary["path"]).collect()
    found = {(one.cluster, one.topic, one.partition): one for one in written}
    assert set(found) == {
        ("east", "orders", 0),
        ("east", "orders", 1),
        ("east", "anew", 0),
        ("dead", "orders", 0),
    }
    steady_one = found["east", "orders", 0]
    assert (steady_one.how, steady_one.windows, steady_one.fresh, steady_one.start) == ("deviation", 10, True, 5)
    assert steady_one.rate is not None
    assert round(steady_one.rate * steady_one.span_s) == 60_000, "the last window ends when the executor looks"
    assert (found["east", "orders", 1].how, found["east", "orders", 1].cut) == ("default", 3_000)
    assert (found["east", "anew", 0].how, found["east", "anew", 0].cut) == ("default", 3_007)
    # and the timestamps of its records if known: an empty one, an old broker, a dead cluster
    assert {key: (one.first_record_ms, one.newest_record_ms) for key, one in found.items()} == {
        ("east", "orders", 0): (NOW_MS - 90 * DAY_MS, NOW_MS + 10 * HOUR_MS),
        ("east", "orders", 1): (None, None),
        ("east", "anew", 0): (NOW_MS - 3 * HOUR_MS, None),
        ("dead", "orders", 0): (None, None),
    }
    dead = found["dead", "orders", 0]
    assert (dead.fresh, dead.end, dead.cut) == (False, 94_000, 94_000 + 100 * 360)
    # and the summary lists clusters that could not be asked
    assert outcome.summary["how"] == {"deviation": 2, "default": 2}
    assert "cannot be reached" in outcome.summary["clusters"]["dead"]["error"]
    assert "not asked: Cluster dead" in outcome.text
    assert outcome.summary["clusters"]["dead"]["oldest_record_age_s"] is None
    east = outcome.summary["clusters"]["east"]
    since_s = time.time() - NOW_MS / 1000 + 1  # whenever this file was read
    assert 0 <= east["oldest_record_age_s"] - 90 * 24 * 3600 < since_s
    assert 0 <= east["newest_record_age_s"] + 36_000 < since_s, "a clock that is ahead gives an age below zero"
    # and people read the age
    shown = {tuple(line.split()[:3]): line for line in outcome.text.splitlines()}
    assert shown["east", "orders", "0"].endswith("fresh       90 d ago      in 9 h")
    assert shown["east", "orders", "1"].endswith("fresh       -             -")
    assert shown["east", "anew", "0"].endswith("fresh       3 h ago       -")
    assert shown["dead", "orders", "0"].endswith("last known  -             -")
    # and its rates are those that a migration reads
    write_rates(spark.read.parquet(outcome.summary["path"]), tmp_path / "rates.json", DEMAND)
    rates = from_summary(tmp_path / "rates.json", "dead")
    assert {key: rate.highest for key, rate in rates.by_partition.items()} == {("orders", 0): 100.0}
    assert "chance of 0.01" in rates.words


def test_timestamps_are_reported_unchanged(spark: SparkSession, tmp_path: Path) -> None:
    # Given times since 1970, before any, and beyond all (micro- for milliseconds is a common mistake)
    held = [[0, 9, 0, 2**63 - 1], [0, 9, None, 5], [0, 9]]
    reach, history = fleet({"east": {"topics": {"t": held}}}), FactHistory(str(tmp_path))

    # When
    rows, _ = pipeline(Questions(spark, reach, history.root), history, ("t",), DEMAND, NOW_MS, 3600)
    found = sorted(rows.collect(), key=lambda row: row.partition)
    # Then
    told = [(one.cut, one.first_record_ms, one.newest_record_ms) for one in found]
    assert told == [(3_009, 0, 2**63 - 1), (3_009, None, 5), (3_009, None, None)]


def test_a_cut_rests_on_windows_between_reads() -> None:
    found_windows = windows([1_000, 61_000, 121_000, 181_000, 241_000], [0, 60, 120, 180, 240])

    cut = suggest_one(DEMAND, NOW_MS, Measured(240, 241_000, True, *found_windows))

    assert (cut.cut, cut.rate, cut.upper_rate) == (540, 1.0, 1.0)


def test_topics_are_chosen_by_name_or_pattern_and_timestamps_only_if_wanted(
    spark: SparkSession, tmp_path: Path
) -> None:
    held = {"topics": {name: [[0, 1, 5, 6]] for name in ("orders", "orders-eu", "it's.odd", "bills")}}
    reach, history = fleet({"east": held}), FactHistory(str(tmp_path))

    def chosen(*topics: str) -> set[str]:
        rows, _ = pipeline(
            Questions(spark, reach, history.root), history, topics, DEMAND, NOW_MS, 3600, timestamps=False
        )
        found = rows.collect()
        assert {row["newest_record_ms"] for row in found} == {None}
        return {row["topic"] for row in found}

    assert chosen("orders", "missing", "it's.odd") == {"orders", "it's.odd"}
    assert chosen("bills", "orders-*", "it?s.*") == {"bills", "orders-eu", "it's.odd"}


def test_rows_with_holes_give_an_answer_too() -> None:
    odd = [
        Measured(None, None, True, *NO_WINDOW),
        Measured(-1, NOW_MS, True, *windows([1, 2], [-3, -4])),
        Measured(5, NOW_MS, True, *NO_WINDOW),
    ]

    cuts = [suggest_one(DEMAND, NOW_MS, measured) for measured in odd]

    assert [cut.how for cut in cuts] == ["none", "none", "default"]
    assert [cut.cut for cut in cuts] == [None, None, 3_005]


def test_requested_number_of_earlier_results_is_kept(tmp_path: Path) -> None:
    for run_ms in (1_795_000_000_001, 1_795_000_000_002, 1_795_000_000_003):
        (tmp_path / "offsets" / f"part=r{run_ms}").mkdir(parents=True)

    keep(Folder(str(tmp_path)), None)
    assert len(Folder(str(tmp_path / "offsets")).names()) == 3
    keep(Folder(str(tmp_path)), 2)

    assert Folder(str(tmp_path / "offsets")).names() == ["part=r1795000000002", "part=r1795000000003"]


AT_MS = 20_000 * DAY_MS


@pytest.mark.parametrize(
    ("then_ms", "words"),
    [
        (None, None),
        (AT_MS, "now"),
        (AT_MS - 999, "now"),
        (AT_MS - 61_000, "1 min ago"),
        (AT_MS + 7_300_000, "in 2 h"),
        (AT_MS - 400 * DAY_MS, "400 d ago"),
        (-1, f"{AT_MS // DAY_MS:,} d ago"),
    ],
)
def test_relative_time_uses_the_largest_unit_that_it_fills(then_ms: int | None, words: str | None) -> None:
    assert ago(then_ms, AT_MS) == words
    assert ago(then_ms, None) is None
