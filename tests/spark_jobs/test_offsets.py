"""Suggested cuts on a real Spark session."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from ha_core.moves.crossing.rates import from_summary
from spark_jobs.cuts import Demand
from spark_jobs.folder import Folder
from spark_jobs.history import ENDS, EndRow, History
from spark_jobs.offsets import Measured, Selection, Suggested, pipeline, report, suggest_all, write_rates
from spark_jobs.questions import Questions
from spark_jobs.rows import frame_of, from_batches
from tests.spark_jobs.fake_fleet import fleet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NOW_MS = time.time_ns() // 1_000_000
DEMAND = Demand(preparation_s=300, default_rate=10)


def recorded(spark: SparkSession, root: Path, rows: list[EndRow]) -> History:
    history = History(str(root))
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
    # Given a steady partition, one without history, one whose topic was made anew, and a cluster that is dead
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
            "east": {"topics": {"orders": [[5, 100_000], [0, 0]], "anew": [[0, 7]], "half": [None]}},
            "dead": {"down": True},
        }
    )
    # When cuts are suggested for all of them
    rows, troubles = pipeline(Questions(spark, reach), history, Selection(), DEMAND, NOW_MS, window_s=3600)
    outcome = report(rows, Folder(str(tmp_path / "out")), troubles, DEMAND, NOW_MS)
    # Then each says how it was chosen
    written = spark.read.parquet(outcome.summary["path"]).toArrow().to_batches()
    found = {(one.cluster, one.topic, one.partition): one for one in from_batches(Suggested, written)}
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
    dead = found["dead", "orders", 0]
    assert (dead.fresh, dead.end, dead.cut) == (False, 94_000, 94_000 + 100 * 360)
    # and the summary says who could not be asked
    assert outcome.summary["how"] == {"deviation": 2, "default": 2}
    assert "cannot be reached" in outcome.summary["clusters"]["dead"]["error"]
    assert "not asked: Cluster dead" in outcome.text
    # and its rates are what a migration reads
    write_rates(spark.read.parquet(outcome.summary["path"]), tmp_path / "rates.json", DEMAND)
    rates = from_summary(tmp_path / "rates.json", "dead")
    assert rates.per_s == {("orders", 0): 100.0}
    assert "chance of 0.01" in rates.words


def test_topics_are_chosen_by_name_or_pattern(spark: SparkSession, tmp_path: Path) -> None:
    held = {"topics": {name: [[0, 1]] for name in ("orders", "orders-eu", "it's.odd", "bills")}}
    reach, history = fleet({"east": held}), History(str(tmp_path))

    def chosen(selection: Selection) -> set[str]:
        rows, _ = pipeline(Questions(spark, reach), history, selection, DEMAND, NOW_MS, 3600)
        return {row["topic"] for row in rows.select("topic").collect()}

    assert chosen(Selection(names=("orders", "missing", "it's.odd"))) == {"orders", "it's.odd"}
    assert chosen(Selection(names=("bills",), patterns=("orders-*", "it?s.*"))) == {"bills", "orders-eu", "it's.odd"}


def test_rows_with_holes_give_an_answer_too() -> None:
    odd = [
        Measured("east", "t", 0, None, None, None, True, None, None),
        Measured("east", "t", 1, -5, -1, NOW_MS, True, [1, 2], [-3, -4]),
        Measured("east", "t", 2, 0, 5, NOW_MS, True, [], []),
    ]

    found = list(suggest_all(DEMAND, NOW_MS, odd))

    assert [one.how for one in found] == ["none", "none", "default"]
    assert [one.cut for one in found] == [None, None, 3_005]
