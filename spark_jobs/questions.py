"""The questions of `asking` as DataFrames: spread over `Reach.parallel` tasks, asked once, and written down."""

from __future__ import annotations

import uuid
from collections.abc import Collection
from functools import partial, reduce
from types import TracebackType
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession

from spark_jobs import asking
from spark_jobs.asking import GroupAsked, PartitionAsked, Reach, ToList, TopicAsked
from spark_jobs.folder import Folder
from spark_jobs.rows import frame_of, map_rows, spark_schema

_LEFT_BEHIND_MS = 24 * 3600 * 1000
"""Answers that are older belong to a run that was killed."""


class Questions:
    """What one run asks. Evaluated twice, a DataFrame of questions would ask the brokers again and get other answers:
    so each is written to Parquet when it is asked, until the end of the `with`.
    """

    def __init__(self, spark: SparkSession, reach: Reach, folder: Folder) -> None:
        """:param folder: in which answers lie, for the driver and executors to see."""
        self.spark = spark
        self.reach = reach
        self._runs = folder / "asked"
        self._answers = self._runs / f"{asking.now_ms()}-{uuid.uuid4().hex}"
        self._asked = 0

    def __enter__(self) -> Self:
        for name in self._runs.names():
            if int(name.partition("-")[0]) < asking.now_ms() - _LEFT_BEHIND_MS:
                (self._runs / name).delete()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._answers.delete()

    def list_clusters(self, without: Collection[str] = ()) -> DataFrame:
        """`Listed` of every cluster, but for those that nobody wants to be asked."""
        clusters = frame_of(self.spark, ToList, (ToList(name) for name in self.reach.clusters if name not in without))
        return self._ask(clusters, asking.list_clusters, ToList, asking.Listed, "cluster")

    def read_topics(self, topics: DataFrame, timestamps: bool = False) -> DataFrame:
        """`TopicRead` of `TopicAsked` rows."""
        ask = partial(asking.read_topics, timestamps=timestamps)
        return self._ask(topics, ask, TopicAsked, asking.TopicRead, "cluster", "topic")

    def read_commits(self, groups: DataFrame) -> DataFrame:
        """`CommitRead` of `GroupAsked` rows."""
        return self._ask(groups, asking.read_commits, GroupAsked, asking.CommitRead, "cluster", "group")

    def read_producers(self, partitions: DataFrame) -> DataFrame:
        """`ProducersRead` of `PartitionAsked` rows."""
        key = ("cluster", "topic", "partition")
        return self._ask(partitions, asking.read_producers, PartitionAsked, asking.ProducersRead, *key)

    def _ask(self, rows: DataFrame, ask: Any, takes: Any, gives: Any, *spread: str) -> DataFrame:
        spread_out = rows.repartition(self.reach.parallel, *spread)
        self._asked += 1
        answers = self._answers / str(self._asked)
        map_rows(spread_out, partial(ask, self.reach), takes, gives).write.parquet(answers.uri)
        return self.spark.read.schema(spark_schema(gives)).parquet(answers.uri)


def topics_listed(listed: DataFrame) -> DataFrame:
    """`TopicAsked` of what `list_clusters` has found; internal topics are never moved, so they are left out."""
    return listed.where("what = 'topic' and not internal").selectExpr("cluster", "name as topic", "partitions")


def groups_listed(listed: DataFrame) -> DataFrame:
    """`GroupAsked` of what `list_clusters` has found."""
    return listed.where("what = 'group'").selectExpr("cluster", "name as group", "state")


def errors(*answers: DataFrame) -> DataFrame:
    """cluster, error: what went wrong in any of these answers, whatever they are."""
    told = (one.select("cluster", "error") for one in answers)
    return reduce(DataFrame.unionByName, told).where("error is not null")


def by_partition(topics: DataFrame, *more: str) -> DataFrame:
    """One row for each partition of `TopicRead` rows: cluster, topic, partition, start, end, read_at_ms.

    `more` are further lists of theirs; null where one is shorter.
    """
    lists = ", ".join(("starts", "ends", *more))
    told = topics.selectExpr("cluster", "topic", "read_at_ms", f"posexplode(arrays_zip({lists})) as (at, told)")
    place = ("cluster", "topic", "cast(at as bigint) as partition")
    found = ("told.starts as start", "told.ends as end", "read_at_ms", *(f"told.{name}" for name in more))
    rows = told.selectExpr(*place, *found)
    return rows.where("start is not null and end is not null")
