"""Answers of brokers are written before they are read, and deleted with the run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from spark_jobs.folder import Folder
from spark_jobs.questions import Questions
from tests.spark_jobs.fake_fleet import fleet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_answers_are_read_from_files_that_go_with_the_run_and_those_of_a_killed_one_a_day_later(
    spark: SparkSession, tmp_path: Path
) -> None:
    # Given answers that a run left when it was killed, long ago
    left_behind = tmp_path / "asked" / "1700000000000-killed"
    left_behind.mkdir(parents=True)
    reach = fleet({"east": {"topics": {"orders": [[0, 5]]}}})
    # When another run asks
    with Questions(spark, reach, Folder(str(tmp_path))) as ask:
        listed = ask.list_clusters()
        files = listed.inputFiles()
        # Then its answers are files, which may be read any number of times
        assert not left_behind.exists()
        assert files
        assert all(str(tmp_path / "asked") in file for file in files)
        assert [row["name"] for row in listed.where("what = 'topic'").collect()] == ["orders"]
    # and nothing of them is left
    assert Folder(str(tmp_path / "asked")).names() == []
