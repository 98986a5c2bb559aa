"""The questions of `asking` as DataFrames: spread over `Reach.parallel` tasks, asked once, kept for who reads them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

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

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def list_clusters(spark: SparkSession, reach: Reach) -> DataFrame:
    """`Listed` of every cluster."""
    clusters = frame_of(spark, ToList, (ToList(name) for name in reach.clusters))
    return _ask(clusters, reach, asking.list_clusters, ToList, Listed, "cluster")


def read_topics(topics: DataFrame, reach: Reach) -> DataFrame:
    """`TopicRead` of `TopicAsked` rows."""
    return _ask(topics, reach, asking.read_topics, TopicAsked, TopicRead, "cluster", "topic")


def read_commits(groups: DataFrame, reach: Reach) -> DataFrame:
    """`CommitRead` of `GroupAsked` rows."""
    return _ask(groups, reach, asking.read_commits, GroupAsked, CommitRead, "cluster", "group")


def read_producers(partitions: DataFrame, reach: Reach) -> DataFrame:
    """`ProducersRead` of `PartitionAsked` rows."""
    return _ask(
        partitions, reach, asking.read_producers, PartitionAsked, ProducersRead, "cluster", "topic", "partition"
    )


def topics_listed(listed: DataFrame) -> DataFrame:
    """`TopicAsked` of what `list_clusters` has found; internal topics are never moved, so they are left out."""
    return listed.where("what = 'topic' and not internal").selectExpr("cluster", "name as topic", "partitions")


def groups_listed(listed: DataFrame) -> DataFrame:
    """`GroupAsked` of what `list_clusters` has found."""
    return listed.where("what = 'group'").selectExpr("cluster", "name as group", "state")


def by_partition(topics: DataFrame) -> DataFrame:
    """One row for each partition of `TopicRead` rows: cluster, topic, partition, start, end, read_at_ms."""
    return (
        topics.selectExpr("cluster", "topic", "read_at_ms", "posexplode(arrays_zip(starts, ends)) as (at, told)")
        .selectExpr(
            "cluster",
            "topic",
            "cast(at as bigint) as partition",
            "told.starts as start",
            "told.ends as end",
            "read_at_ms",
        )
        .where("start is not null and end is not null")
    )


def _ask(rows: DataFrame, reach: Reach, ask: Any, takes: Any, gives: Any, *spread: str) -> DataFrame:
    """Kept in memory and on disk: evaluated again, a DataFrame would ask the brokers again."""
    from pyspark import StorageLevel

    spread_out = rows.repartition(reach.parallel, *spread)
    return map_rows(spread_out, partial(ask, reach), takes, gives).persist(StorageLevel.MEMORY_AND_DISK)
