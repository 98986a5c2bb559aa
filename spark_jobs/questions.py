"""The questions of `asking` as DataFrames: spread over `Reach.parallel` tasks, asked once, kept for who reads them."""

from __future__ import annotations

import uuid
from functools import partial
from types import TracebackType
from typing import Any, Self

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from spark_jobs import asking
from spark_jobs.asking import (
    CommitRead,
    GroupAsked,
    Listed,
    PartitionAsked,
    ProducersRead,
    Reach,
    ToList,
    TopicAsked,
    TopicRead,
)
from spark_jobs.rows import frame_of, map_rows


class Questions:
    """What one run asks. Answers are kept in memory and on disk until it is closed: evaluated twice, a DataFrame would
    ask the brokers twice. Use it in `with`; a long-lived session would fill up with old answers.
    """

    def __init__(self, spark: SparkSession, reach: Reach) -> None:
        self.spark = spark
        # Spark takes equal plans for the same: without this, a later run would be answered from the memory of this one.
        self.reach = reach._replace(run=uuid.uuid4().hex)
        self._kept: list[DataFrame] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for frame in self._kept:
            frame.unpersist()

    def keep(self, frame: DataFrame) -> DataFrame:
        """`frame`, evaluated once for as long as this is open."""
        self._kept.append(frame.persist(StorageLevel.MEMORY_AND_DISK))
        return self._kept[-1]

    def list_clusters(self) -> DataFrame:
        """`Listed` of every cluster."""
        clusters = frame_of(self.spark, ToList, (ToList(name) for name in self.reach.clusters))
        return self._ask(clusters, asking.list_clusters, ToList, Listed, "cluster")

    def read_topics(self, topics: DataFrame, timestamps: bool = False) -> DataFrame:
        """`TopicRead` of `TopicAsked` rows."""
        ask = partial(asking.read_topics, timestamps=timestamps)
        return self._ask(topics, ask, TopicAsked, TopicRead, "cluster", "topic")

    def read_commits(self, groups: DataFrame) -> DataFrame:
        """`CommitRead` of `GroupAsked` rows."""
        return self._ask(groups, asking.read_commits, GroupAsked, CommitRead, "cluster", "group")

    def read_producers(self, partitions: DataFrame) -> DataFrame:
        """`ProducersRead` of `PartitionAsked` rows."""
        key = ("cluster", "topic", "partition")
        return self._ask(partitions, asking.read_producers, PartitionAsked, ProducersRead, *key)

    def _ask(self, rows: DataFrame, ask: Any, takes: Any, gives: Any, *spread: str) -> DataFrame:
        spread_out = rows.repartition(self.reach.parallel, *spread)
        return self.keep(map_rows(spread_out, partial(ask, self.reach), takes, gives))


def topics_listed(listed: DataFrame) -> DataFrame:
    """`TopicAsked` of what `list_clusters` has found; internal topics are never moved, so they are left out."""
    return listed.where("what = 'topic' and not internal").selectExpr("cluster", "name as topic", "partitions")


def groups_listed(listed: DataFrame) -> DataFrame:
    """`GroupAsked` of what `list_clusters` has found."""
    return listed.where("what = 'group'").selectExpr("cluster", "name as group", "state")


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
