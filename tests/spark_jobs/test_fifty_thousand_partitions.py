"""The jobs over a fleet of fifty thousand partitions: fake clusters, a real Spark session.

A tenth of them shows that each is handled once; the marker `soak` runs all of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ha_core.model import Extent, Topic
from spark_jobs import aging, offsets
from spark_jobs.cuts import Demand
from spark_jobs.folder import Folder
from spark_jobs.history import FactHistory
from spark_jobs.questions import Questions
from spark_jobs.report import MAX_ROWS
from tests.spark_jobs.fake_fleet import fleet

pytestmark = pytest.mark.long("spark_jobs")

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CLUSTERS = tuple(f"c{number}" for number in range(5))
PARTITIONS = 50
sizes = pytest.mark.parametrize(
    "topics", [20, pytest.param(200, marks=pytest.mark.soak)], ids=["five thousand", "fifty thousand"]
)
CUT = 1_000
NOW_MS = 20_000 * 24 * 3600 * 1000
DEMAND = Demand(preparation_s=300, default_rate=10)


def held(cluster: str, topics: int, starts: tuple[int, ...]) -> dict[str, Any]:
    """Partitions begin at one of `starts` in turns, and end above the cut by their number."""
    parts = [[starts[p % len(starts)], CUT + p] for p in range(PARTITIONS)]
    return {"topics": {f"{cluster}-t{number}": parts for number in range(topics)}}


def moved(cluster: str, number: int) -> Topic:
    """A topic whose records below the cut are in `cluster`."""
    target = CLUSTERS[(CLUSTERS.index(cluster) + 1) % len(CLUSTERS)]
    extents = (
        Extent(cluster=cluster, start=0, end=CUT, base=0, writer_epoch=0),
        Extent(cluster=target, start=CUT, base=0, writer_epoch=1),
    )
    name = f"{cluster}-t{number}"
    return Topic(name=name, writer=target, partitions=dict.fromkeys(range(PARTITIONS), extents))


@sizes
def test_each_of_very_many_partitions_gets_one_cut_above_its_end(
    spark: SparkSession, tmp_path: Path, topics: int
) -> None:
    everything = len(CLUSTERS) * topics * PARTITIONS
    reach = fleet({cluster: held(cluster, topics, (0,)) for cluster in CLUSTERS})

    rows, troubles = offsets.pipeline(
        Questions(spark, reach, Folder(str(tmp_path))),
        FactHistory(str(tmp_path / "none")),
        (),
        DEMAND,
        NOW_MS,
        window_s=3600,
    )
    outcome = offsets.report(rows, Folder(str(tmp_path / "out")), troubles, DEMAND, NOW_MS)

    assert outcome.summary["partitions"] == everything
    written = spark.read.parquet(outcome.summary["path"])
    assert written.select("cluster", "topic", "partition").distinct().count() == everything
    assert written.where(f"end = {CUT} + partition and cut = end + 10 * 300").count() == everything
    assert len(outcome.text.splitlines()) < MAX_ROWS + 30, "people get the worst of them, not all"


@sizes
def test_each_of_very_many_extents_is_judged_once(spark: SparkSession, tmp_path: Path, topics: int) -> None:
    everything = len(CLUSTERS) * topics * PARTITIONS
    # Given clusters in which every other partition has nothing below the cut any more
    reach = fleet({cluster: held(cluster, topics, (CUT, CUT // 2)) for cluster in CLUSTERS})
    maps = {topic.name: topic for cluster in CLUSTERS for topic in (moved(cluster, n) for n in range(topics))}

    ask = Questions(spark, reach, Folder(str(tmp_path)))
    rows = aging.pipeline(ask, maps, {}, None, NOW_MS)
    outcome = aging.report(rows, Folder(str(tmp_path / "out")), NOW_MS, {})

    assert (outcome.summary["extents"], outcome.summary["aged"]) == (everything, everything // 2)
    written = spark.read.parquet(outcome.summary["path"])
    assert written.where("aged = (partition % 2 = 0)").count() == everything
    assert written.select("topic", "partition").distinct().count() == everything
