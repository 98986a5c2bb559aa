"""Job `facts`: records the contents of every cluster, so that they are known after a cluster has died.

Each run adds to the history, and renews the *last known* rows: for a completely read cluster those of this run, for
others the newest of this and earlier runs.
"""

from pyspark.sql import DataFrame, Window, functions

from spark_jobs.broker_queries import ToList, read_commits, read_topics
from spark_jobs.history import COMMITS, DEFAULT, ENDS, LOOKS, SPECS, FactHistory, HistoryTable, Keep, LookRow, compact
from spark_jobs.questions import Questions, by_partition, errors, groups_listed, topics_listed
from spark_jobs.report import JobOutcome, table
from spark_jobs.rows import frame_of, from_batches

_SUMMARY_FIELDS = ("reached", "topics", "partitions", "groups", "errors", "error")


def record(ask: Questions, history: FactHistory, now_ms: int, keep: Keep = DEFAULT) -> JobOutcome:
    spark = ask.spark
    listed = ask.list_clusters()
    topics = ask(read_topics, topics_listed(listed))
    commits = ask(read_commits, groups_listed(listed))
    specs = topics.where("exists").select(*SPECS.row._fields)
    ends = by_partition(topics)
    readable = commits.where("error is null").select(*COMMITS.row._fields)

    clusters = frame_of(spark, ToList, map(ToList, ask.reach.clusters))
    looks = look(listed, topics, commits, clusters, now_ms)
    looked = frame_of(spark, LookRow, looks)
    frames = {ENDS: ends, SPECS: specs, COMMITS: readable, LOOKS: looked}
    written = {table.name: history.write(table, rows, now_ms).uri for table, rows in frames.items()}

    complete = [one.cluster for one in looks if one.errors == 0]
    reached = looked.where("reached")  # the last known look is one that found something
    newest = {
        table: last_known(history.last(spark, table), reached if table is LOOKS else rows, table, complete)
        for table, rows in frames.items()
    }
    history.write_last(newest, now_ms)
    compacted = compact(spark, history, now_ms, keep)
    known = {one.cluster: one for one in from_batches(LookRow, history.last(spark, LOOKS).toArrow().to_batches())}
    ages_s = {name: round((now_ms - one.read_at_ms) / 1000, 1) for name, one in known.items()}
    by_cluster = {
        one.cluster: {
            **{name: getattr(one, name) for name in _SUMMARY_FIELDS},
            "last_known_age_s": ages_s.get(one.cluster),
        }
        for one in looks
    }
    summary = {
        "job": "facts",
        "run_ms": now_ms,
        "clusters": by_cluster,
        "not_reached": [one.cluster for one in looks if not one.reached],
        "partitions": sum(one.partitions for one in looks),
        "written": written,
        "compaction": compacted,
    }
    return JobOutcome(summary, _text(looks, ages_s))


def look(listed: DataFrame, topics: DataFrame, commits: DataFrame, clusters: DataFrame, now_ms: int) -> list[LookRow]:
    """Result of this run per cluster; a cluster without any rows was not reached."""
    troubles = errors(listed, topics, commits).groupBy("cluster")
    failed = troubles.agg(functions.count("*").alias("errors"), functions.first("error").alias("error"))
    counts = listed.groupBy("cluster").agg(
        functions.count_if(functions.expr("what = 'topic' and not internal")).alias("topics"),
        functions.sum(functions.expr("if(internal, 0, partitions)")).alias("partitions"),
        functions.count_if(functions.expr("what = 'group'")).alias("groups"),
        functions.count_if(functions.expr("what <> 'error'")).alias("named"),
    )
    looks = clusters.join(counts, "cluster", "left").join(failed, "cluster", "left").orderBy("cluster")
    # A new cluster may be empty: a cluster is reached if it named something, or raised no error.
    columns = ["cluster", "coalesce(named, 0) > 0 or errors is null as reached"]
    columns += [f"coalesce({name}, 0) as {name}" for name in ("topics", "partitions", "groups", "errors")]
    found = looks.selectExpr(*columns, "error", f"cast({now_ms} as bigint) as read_at_ms")
    return list(from_batches(LookRow, found.toArrow().to_batches()))


def last_known(before: DataFrame, frame: DataFrame, table: HistoryTable, complete: list[str]) -> DataFrame:
    """The newest row of each key; for completely read clusters only rows of this run."""
    older = before.where(~functions.col("cluster").isin(complete)) if complete else before
    newest_first = Window.partitionBy(*table.key).orderBy(functions.col("read_at_ms").desc())
    numbered = frame.unionByName(older).withColumn("age", functions.row_number().over(newest_first))
    return numbered.where("age = 1").drop("age")


def _text(looks: list[LookRow], ages_s: dict[str, float]) -> str:
    troubled_first = sorted(looks, key=lambda row: (row.reached, -row.errors, row.cluster))
    rows = [
        (
            look_row.cluster,
            "yes" if look_row.reached else "no",
            look_row.topics,
            look_row.partitions,
            look_row.groups,
            ages_s.get(look_row.cluster),
            look_row.errors,
            look_row.error or "",
        )
        for look_row in troubled_first
    ]
    columns = ("cluster", "reached", "topics", "partitions", "groups", "last known, s", "errors", "first error")
    return table("Recorded facts", columns, rows, len(rows))
