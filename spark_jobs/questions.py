"""The queries of `broker_queries` as DataFrames: spread over `Reach.parallel` tasks, run once, and stored."""

import uuid
from collections.abc import Callable, Collection, Iterator
from functools import partial, reduce
from types import TracebackType
from typing import Any, Self, get_args, get_type_hints

from pyspark.sql import DataFrame, SparkSession

from spark_jobs import broker_queries
from spark_jobs.broker_queries import Reach, ToList
from spark_jobs.folder import Folder
from spark_jobs.rows import frame_of, map_rows, spark_schema

_LEFT_BEHIND_MS = 24 * 3600 * 1000
"""Older answers belong to a run that was killed."""


class Questions:
    """The queries of one run. If evaluated twice, a DataFrame of queries would ask the brokers again and get other
    answers: so each is written to Parquet when it is run, and kept until the end of the `with`.
    """

    def __init__(self, spark: SparkSession, reach: Reach, folder: Folder) -> None:
        """:param folder: folder for answers, accessible to the driver and executors."""
        self.spark = spark
        self.reach = reach
        self._runs = folder / "asked"
        self._answers = self._runs / f"{broker_queries.now_ms()}-{uuid.uuid4().hex}"
        self._asked = 0

    def __enter__(self) -> Self:
        for name in self._runs.names():
            if int(name.partition("-")[0]) < broker_queries.now_ms() - _LEFT_BEHIND_MS:
                (self._runs / name).delete()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._answers.delete()

    def list_clusters(self, without: Collection[str] = ()) -> DataFrame:
        """`Listed` rows of every cluster except those in `without`."""
        clusters = (ToList(name) for name in self.reach.clusters if name not in without)
        return self(broker_queries.list_clusters, frame_of(self.spark, ToList, clusters))

    def __call__(self, question: Callable[..., Iterator[Any]], rows: DataFrame, **options: Any) -> DataFrame:
        """Runs a function of `broker_queries` on `rows`, which have the columns that it takes."""
        hints = get_type_hints(question)
        (takes,), (gives,) = get_args(hints["rows"]), get_args(hints["return"])
        self._asked += 1
        answers = self._answers / str(self._asked)
        ask = partial(question, self.reach, **options)
        map_rows(rows.repartition(self.reach.parallel, *takes._fields), ask, takes, gives).write.parquet(answers.uri)
        return self.spark.read.schema(spark_schema(gives)).parquet(answers.uri)


def topics_listed(listed: DataFrame) -> DataFrame:
    """`TopicAsked` rows from the result of `list_clusters`; without internal topics, which are never moved."""
    return listed.where("what = 'topic' and not internal").selectExpr("cluster", "name as topic", "partitions")


def groups_listed(listed: DataFrame) -> DataFrame:
    """`GroupAsked` rows from the result of `list_clusters`."""
    return listed.where("what = 'group'").selectExpr("cluster", "name as group", "state")


def errors(*answers: DataFrame) -> DataFrame:
    """(cluster, error) of all errors in these answers of any kind."""
    selected = (answer.select("cluster", "error") for answer in answers)
    return reduce(DataFrame.unionByName, selected).where("error is not null")


def by_partition(topics: DataFrame, *more: str) -> DataFrame:
    """One row for each partition of `TopicRead` rows: cluster, topic, partition, start, end, read_at_ms.

    `more` names further lists; null where one is shorter.
    """
    lists = ", ".join(("starts", "ends", *more))
    exploded = topics.selectExpr("cluster", "topic", "read_at_ms", f"posexplode(arrays_zip({lists})) as (at, entry)")
    place = ("cluster", "topic", "cast(at as bigint) as partition")
    found = ("entry.starts as start", "entry.ends as end", "read_at_ms", *(f"entry.{name}" for name in more))
    rows = exploded.selectExpr(*place, *found)
    return rows.where("start is not null and end is not null")
