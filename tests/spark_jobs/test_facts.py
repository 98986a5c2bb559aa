"""The history of facts on a real Spark session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from spark_jobs.facts import record
from spark_jobs.history import COMMITS, ENDS, LOOKS, SPECS, EndRow, FactHistory, Keep, compact, day_of, thinned
from spark_jobs.questions import Questions
from spark_jobs.rows import frame_of
from tests.spark_jobs.fake_fleet import fleet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.long("spark_jobs/facts.py", "spark_jobs/questions.py")
DAY_MS = 24 * 3600 * 1000
NOON_MS = 20_000 * DAY_MS + DAY_MS // 2
EAST = {
    "topics": {"orders": [[0, 5], [2, 9]], "__consumer_offsets": [[0, 1]], "empty": [[0, 0]]},
    "configs": {"orders": {"retention.ms": "1000"}},
    "groups": {
        "billing": {"state": "Stable", "commits": [["orders", 1, 4]]},
        "idle": {"state": "Empty", "commits": []},
    },
}


def rows_of(frame: DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.select(*columns).collect())


def test_a_run_records_ends_specs_and_commits_and_a_dead_cluster_stays_known_with_its_age(
    spark: SparkSession, tmp_path: Path
) -> None:
    history = FactHistory(str(tmp_path))
    # Given a run that saw both clusters
    first = record(Questions(spark, fleet({"east": EAST, "west": EAST}), history.root), history, NOON_MS)
    assert first.summary["clusters"]["east"] == {
        "reached": True,
        "topics": 2,
        "partitions": 3,
        "groups": 2,
        "errors": 0,
        "error": None,
        "last_known_age_s": 0.0,
    }
    # When one is dead a minute later, and the other one has lost a topic and a group
    smaller = {"topics": {"orders": [[0, 6], [2, 9]]}, "groups": {}}
    second = record(
        Questions(spark, fleet({"east": smaller, "west": {"down": True}}), history.root), history, NOON_MS + 60_000
    )
    # Then the dead one is a row with an error, and all its facts are still known
    assert second.summary["not_reached"] == ["west"]
    assert second.summary["clusters"]["west"]["last_known_age_s"] == 60.0
    assert "cannot be reached" in second.summary["clusters"]["west"]["error"]
    assert second.text.splitlines()[2].startswith("west")
    assert rows_of(history.last(spark, ENDS), "cluster", "topic", "partition", "start", "end") == [
        ("east", "orders", 0, 0, 6),
        ("east", "orders", 1, 2, 9),
        ("west", "empty", 0, 0, 0),
        ("west", "orders", 0, 0, 5),
        ("west", "orders", 1, 2, 9),
    ]
    assert rows_of(history.last(spark, SPECS), "cluster", "topic", "partitions", "config") == [
        ("east", "orders", 2, "{}"),
        ("west", "empty", 1, "{}"),
        ("west", "orders", 2, '{"retention.ms": "1000"}'),
    ]
    groups = history.last(spark, COMMITS)
    assert rows_of(groups.where("topic is not null"), "cluster", "group", "live", "partition", "offset") == [
        ("west", "billing", True, 1, 4)
    ]
    assert groups.where("cluster = 'west' and group = 'idle' and topic is null").count() == 1
    assert history.read(spark, ENDS).count() == 8
    assert rows_of(history.read(spark, LOOKS), "cluster", "reached") == [
        ("east", True),
        ("east", True),
        ("west", False),
        ("west", True),
    ]


def test_thinning_keeps_the_first_and_last_of_equal_rows(spark: SparkSession) -> None:
    ends = [5, 5, 5, 5, 7, 7, 5, 5, 5]
    rows = [EndRow("east", "t", 0, 0, end, at_ms) for at_ms, end in enumerate(ends)]
    alone = EndRow("east", "t", 1, 0, 5, 3)

    kept = thinned(frame_of(spark, EndRow, [*rows, *rows, alone]), ENDS)

    assert rows_of(kept.where("partition = 0"), "read_at_ms") == [(0,), (3,), (4,), (5,), (6,), (8,)]
    assert kept.where("partition = 1").count() == 1


def test_history_is_merged_thinned_and_deleted_without_gaps_for_readers(spark: SparkSession, tmp_path: Path) -> None:
    history = FactHistory(str(tmp_path))
    now_ms = NOON_MS

    def run(at_ms: int, end: int) -> None:
        rows = frame_of(spark, EndRow, [EndRow("east", "t", 0, 0, end, at_ms)])
        history.write(ENDS, rows.repartition(1), at_ms)

    def state() -> dict[str, str]:
        return {day: "".join(part.kind for part in history.parts(ENDS, day)) for day in history.days(ENDS)}

    # Given runs of today, of a week ago (idle) and of long ago, and one that was killed while it wrote
    for minute in range(3):
        run(now_ms - minute * 60_000, 10 - minute)
        run(now_ms - 7 * DAY_MS + minute * 60_000, 4)
    run(now_ms - 40 * DAY_MS, 1)
    (tmp_path / "ends" / f"day={day_of(now_ms)}" / "part=r7").mkdir()
    # When the history is compacted
    keep = Keep(days=30, whole_days=2, parts=2)
    done = compact(spark, history, now_ms, keep)
    # Then runs still exist beside the merged part, for current readers
    assert done == {"parts_merged": 6, "parts_deleted": 0, "days_deleted": 1}
    assert state() == {day_of(now_ms - 7 * DAY_MS): "rrrt", day_of(now_ms): "crrr"}
    # and are gone a run later
    assert compact(spark, history, now_ms + 60_000, keep) == {
        "parts_merged": 0,
        "parts_deleted": 6,
        "days_deleted": 0,
    }
    assert state() == {day_of(now_ms - 7 * DAY_MS): "t", day_of(now_ms): "c"}
    # and today has all its reads, while the idle day has its first and last
    assert rows_of(history.read(spark, ENDS, now_ms - DAY_MS), "end") == [(8,), (9,), (10,)]
    assert history.read(spark, ENDS).where(f"read_at_ms < {now_ms - DAY_MS}").count() == 2


def test_an_empty_history_and_a_fleet_without_topics_are_no_trouble(spark: SparkSession, tmp_path: Path) -> None:
    history = FactHistory(str(tmp_path / "new"))
    assert history.read(spark, ENDS).count() == 0
    assert history.last(spark, ENDS).count() == 0

    outcome = record(Questions(spark, fleet({"east": {}}), history.root), history, NOON_MS)

    assert outcome.summary["not_reached"] == []
    assert history.last(spark, ENDS).count() == 0
