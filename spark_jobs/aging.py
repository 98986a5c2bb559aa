"""Job `aging`: is the origin of each moved partition still needed? A verdict with evidence for every closed extent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession, functions

from ha_core.model import Topic
from ha_core.plan.extents import physical_end
from spark_jobs import questions
from spark_jobs.aged import Held, Verdict, verdict
from spark_jobs.asking import Reach, TopicAsked
from spark_jobs.facts import Outcome
from spark_jobs.folder import Folder
from spark_jobs.history import ENDS, History
from spark_jobs.report import MOST_ROWS, table
from spark_jobs.rows import frame_of, map_rows

WORST_CASES = 10
GROUPS_NAMED = 3


class Closed(NamedTuple):
    """A closed extent, as `Held` says."""

    topic: str
    partition: int
    cluster: str
    start: int
    end: int
    base: int
    ignored: bool
    writer_again: bool
    newest_end: int


class Home(NamedTuple):
    """A cluster that coordinates a group for those who are known to use it."""

    group: str
    home: str


def closed_extents(topics: Iterable[Topic]) -> Iterator[Closed]:
    """All closed extents of all maps."""
    for topic in topics:
        for partition, extents in sorted(topic.partitions.items()):
            writer = extents[-1].cluster if extents else None
            newest = {one.cluster: end for one in extents if (end := physical_end(one)) is not None}
            for one in extents:
                if one.end is not None:
                    yield Closed(
                        topic.name,
                        partition,
                        one.cluster,
                        one.start,
                        one.end,
                        one.base,
                        one.ignored,
                        one.cluster == writer,
                        newest[one.cluster],
                    )


def judge(now_ms: int, quiet_s: float, rows: Iterable[Held]) -> Iterator[Verdict]:
    for row in rows:
        yield verdict(row, now_ms, quiet_s)


def below_cut(closed: DataFrame, commits: DataFrame, homes: DataFrame) -> DataFrame:
    """By closed extent: how many groups have a committed offset below its end, and the lowest.

    A group that was moved leaves its old offsets where it was. So one without members counts at home only; where nobody
    knows a group's home, and for live groups, every cluster counts.
    """
    known = homes.select("group").distinct().withColumn("known", functions.lit(True))
    at_home = homes.withColumn("at_home", functions.lit(True)).withColumnRenamed("home", "cluster")
    counting = (
        commits.where("offset is not null")
        .join(known, "group", "left")
        .join(at_home, ["group", "cluster"], "left")
        .where("live or known is null or at_home")
        .groupBy("group", "topic", "partition")
        .agg(functions.min("offset").alias("offset"), functions.max("live").alias("live"))
    )
    key = ["topic", "partition"]
    return (
        closed.select(*key, "cluster", "end")
        .join(counting, key)
        .where("offset < end")
        .groupBy(*key, "cluster", "end")
        .agg(
            functions.count_if("live").alias("live_groups"),
            functions.count_if(functions.expr("not live")).alias("idle_groups"),
            functions.min("offset").alias("lowest_commit"),
            functions.slice(functions.sort_array(functions.collect_set("group")), 1, GROUPS_NAMED).alias("groups"),
        )
    )


def evidence(
    closed: DataFrame,
    topics: DataFrame,
    producers: DataFrame,
    below: DataFrame,
    earlier: DataFrame,
    untold_groups: str | None,
) -> DataFrame:
    """`Held` rows: each closed extent with all that was found out about it."""
    of_topic = topics.selectExpr(
        "cluster", "topic", "exists", 'config like \'%"cleanup.policy": "%compact%\' as compacted', "error as refused"
    )
    ends = questions.by_partition(topics).withColumnsRenamed({"start": "log_start", "end": "log_end"})
    key = ["cluster", "topic", "partition"]
    asked = producers.withColumnRenamed("error", "refused_producers")
    trouble = functions.concat_ws(
        "; ",
        functions.when(functions.col("exists").isNull(), functions.coalesce("refused", functions.lit("not asked"))),
        functions.col("refused_producers"),
        functions.lit(untold_groups),
    )
    return (
        closed.join(of_topic, ["cluster", "topic"], "left")
        .join(ends, key, "left")
        .join(asked, key, "left")
        .join(earlier, key, "left")
        .join(below, [*key, "end"], "left")
        .withColumn("trouble", functions.when(trouble != "", trouble))
        .fillna(0, ["live_groups", "idle_groups"])
    )


def pipeline(
    spark: SparkSession,
    reach: Reach,
    maps: Mapping[str, Topic],
    homes: Mapping[str, frozenset[str]],
    history: History | None,
    now_ms: int,
    quiet_s: float,
) -> DataFrame:
    """`Verdict` rows of all closed extents of `maps`."""
    closed = frame_of(spark, Closed, closed_extents(maps.values())).persist()
    # The size of a request counts all partitions of a topic, wherever they were moved from.
    origins = {
        TopicAsked(extent.cluster, topic.name, len(topic.partitions))
        for topic in maps.values()
        for extents in topic.partitions.values()
        for extent in extents
        if extent.end is not None
    }
    topics = questions.read_topics(frame_of(spark, TopicAsked, sorted(origins)), reach)
    key = ["cluster", "topic", "partition"]
    there = questions.by_partition(topics).select(*key)
    sent_to = closed.where("not writer_again").select(*key).distinct().join(there, key)
    producers = questions.read_producers(sent_to, reach)
    listed = questions.list_clusters(spark, reach)
    commits = questions.read_commits(questions.groups_listed(listed), reach)
    refused = listed.select("error").unionByName(commits.select("error")).where("error is not null").head()
    untold = f"not all groups could be asked: {refused['error']}" if refused else None
    known = frame_of(spark, Home, (Home(group, one) for group, found in homes.items() for one in sorted(found)))
    before_ms = now_ms - int(quiet_s * 1000)
    recorded = history.read(spark, ENDS) if history else frame_of(spark, ENDS.row, [])
    earlier = (
        recorded.where(f"read_at_ms <= {before_ms}")
        .join(sent_to, key, "left_semi")
        .groupBy(*key)
        .agg(functions.max_by("end", "read_at_ms").alias("earlier_end"))
    )
    rows = evidence(closed, topics, producers, below_cut(closed, commits, known), earlier, untold)
    return map_rows(rows, partial(judge, now_ms, quiet_s), Held, Verdict)


def report(rows: DataFrame, output: Folder, now_ms: int, quiet_s: float) -> Outcome:
    """Writes the verdicts and sums them up."""
    folder = output / "aging" / f"part=r{now_ms}"
    rows.write.mode("overwrite").parquet(folder.uri)
    written = rows.sparkSession.read.parquet(folder.uri)
    total, aged = written.count(), written.where("aged").count()
    blocked = written.select(functions.explode("blocks").alias("what")).groupBy("what").count().collect()
    topics = (
        written.groupBy("topic", "cluster")
        .agg(functions.min("aged").alias("aged"), functions.count("*").alias("extents"))
        .where("aged")
    )
    whole = [(row["topic"], row["cluster"]) for row in topics.orderBy("topic", "cluster").limit(MOST_ROWS).collect()]
    worst = [
        row.asDict()
        for row in written.where("not aged")
        .orderBy(functions.size("blocks").desc(), functions.col("readable").desc_nulls_first(), "topic", "partition")
        .limit(MOST_ROWS)
        .collect()
    ]
    summary = {
        "job": "aging",
        "run_ms": now_ms,
        "quiet_s": quiet_s,
        "extents": total,
        "aged": aged,
        "blocked_by": {row["what"]: row["count"] for row in blocked},
        "topics_aged": topics.count(),
        "some_topics_aged": [f"{topic} in {cluster}" for topic, cluster in whole],
        "worst": worst[:WORST_CASES],
        "path": folder.uri,
    }
    shown = [(row["topic"], row["partition"], row["cluster"], ", ".join(row["blocks"]), row["why"]) for row in worst]
    title = f"{aged:,} of {total:,} closed extents have aged; what stands against the others:"
    return Outcome(summary, table(title, ("topic", "partition", "origin", "blocked by", "why"), shown, total - aged))
