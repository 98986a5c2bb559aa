"""Job `offsets`: starts, ends, record timestamps, rates and suggested cuts of all partitions of many clusters at once.

Ends are read now; rates come from the history of `facts`. For a cluster that does not answer the last known ends are
used, and cuts are higher by what may have been appended since. Rates and cuts never depend on timestamps, which come
from producers' clocks.
"""

import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, functions

from spark_jobs.broker_queries import TopicAsked, read_topics
from spark_jobs.cuts import Demand, SuggestedCut, Windows, rank, suggest
from spark_jobs.folder import Folder
from spark_jobs.history import ENDS, FactHistory
from spark_jobs.patterns import matching
from spark_jobs.questions import Questions, by_partition, errors, topics_listed
from spark_jobs.report import MAX_ROWS, JobOutcome, ago, table
from spark_jobs.rows import frame_of, with_columns

WORST_CASES = 10
_TIMES = ("first_record_ms", "newest_record_ms")
_SHOWN = ("cluster", "topic", "partition", "end", "rate", "upper_rate", "headroom", "cut", "how", "windows")
_SUMS = {
    "partitions": "count(*)",
    "rate": "coalesce(sum(rate), 0D)",
    "last_known_only": "count_if(not fresh)",
    "oldest_record_age_s": "round(max(read_at_ms - first_record_ms) / 1000, 1)",
    "newest_record_age_s": "round(min(read_at_ms - newest_record_ms) / 1000, 1)",
}
"""Column of each cluster's summary → its SQL."""


class Measured(NamedTuple):
    """The last known end of a partition, with the windows of its recorded reads. `end` is null if none is known."""

    end: int | None
    read_at_ms: int | None
    fresh: bool
    """True if this run has read the end."""
    windows: int | None
    """This and the following as in `Windows`; null if there is no window."""
    mean: float | None
    span_s: float | None
    moved_at_ms: int | None
    highest: float | None
    average: float | None
    deviation: float | None
    ranked: float | None


_COLUMNS = (
    *("cluster", "topic", "partition", "start", "end", "read_at_ms", "fresh", *_TIMES, "moved_at_ms"),
    *("coalesce(windows, 0) as windows", "coalesce(span_s, 0D) as span_s"),
    *("rate", "upper_rate", "headroom", "cut", "how"),
)
"""Columns of a suggestion: a partition with its cut, in its cluster's own offsets; `cuts` has the words. Rates are
records/s, timestamps those of the log: null if the partition is empty, or unknown, and in the future if a producer's
clock was."""


def suggest_one(demand: Demand, now_ms: int, one: Measured) -> SuggestedCut:
    found = Windows._make(one[-len(Windows._fields) :]) if one.windows else Windows()
    age_s = 0.0 if one.fresh or one.read_at_ms is None else max(0, now_ms - one.read_at_ms) / 1000
    return suggest(one.end, age_s, found, demand)


def read_ends(ask: Questions, topics: Sequence[str], timestamps: bool) -> tuple[DataFrame, dict[str, str]]:
    """Current ends and record timestamps, by partition; and cluster → error (the first one) if it could not be asked.
    Clusters are listed only if topics are given by pattern or not at all.
    """
    if topics and not any(sign in topic for topic in topics for sign in "*?["):
        rows = [TopicAsked(cluster, topic, 0) for cluster in ask.reach.clusters for topic in topics]
        requests, listed = frame_of(ask.spark, TopicAsked, rows), []
    else:
        listed = [ask.list_clusters()]
        requests = topics_listed(*listed).where(matching("topic", topics))
    read = ask(read_topics, requests, timestamps=timestamps)
    refused = errors(*listed, read.where("exists is null"))
    troubles: dict[str, str] = dict(refused.groupBy("cluster").agg(functions.first("error")).collect())
    return by_partition(read, *_TIMES), troubles


def measured(
    fresh: DataFrame, last: DataFrame, recorded: DataFrame, troubled: Sequence[str], chance: float
) -> DataFrame:
    """`Measured` and more: fresh ends, else the last known ones of a troubled cluster, and windows between reads."""
    key = list(ENDS.key)
    older = last.where(functions.col("cluster").isin(list(troubled))).join(fresh.select(*key), key, "left_anti")
    ends = fresh.withColumn("fresh", functions.lit(True)).unionByName(
        older.withColumn("fresh", functions.lit(False)), allowMissingColumns=True
    )
    read = [*key, "read_at_ms", "end"]
    reads = recorded.select(*read).unionByName(ends.select(*read))  # the newest read closes the last window
    return ends.join(windows(reads, chance), key, "left")


def pipeline(
    ask: Questions,
    history: FactHistory,
    topics: Sequence[str],
    demand: Demand,
    now_ms: int,
    window_s: float,
    timestamps: bool = True,
) -> tuple[DataFrame, dict[str, str]]:
    """A suggestion for each partition; and cluster → error if it could not be asked."""
    fresh, troubles = read_ends(ask, topics, timestamps)
    wanted = matching("topic", topics)
    recorded = history.read(ask.spark, ENDS, int(now_ms - window_s * 1000)).where(wanted)
    last = history.last(ask.spark, ENDS).where(wanted)
    rows = measured(fresh, last, recorded, sorted(troubles), demand.chance)
    return with_columns(rows, partial(suggest_one, demand, now_ms), Measured, SuggestedCut).selectExpr(
        *_COLUMNS
    ), troubles


def write_rates(rows: DataFrame, file: Path, demand: Demand) -> None:
    """Writes all measured rates as one JSON document, about 100 bytes a partition: for `switchyard migrate --rates`."""
    columns = ("cluster", "topic", "partition", "rate", "upper_rate", "how")
    measured_rows = rows.where("rate is not null and how != 'default'").select(*columns).orderBy(*columns[:3])
    # Row by row: the driver holds one Spark partition of them at a time.
    lines = (json.dumps(row.asDict()) for row in measured_rows.toLocalIterator())
    Folder(str(file.parent)).write_text(file.name, _document(demand.chance, lines))


def _document(chance: float, rows: Iterator[str]) -> Iterator[str]:
    yield f'{{"chance": {json.dumps(chance)}, "partitions": ['
    for number, row in enumerate(rows):
        yield f",\n{row}" if number else f"\n{row}"
    yield "\n]}\n"


def keep(output: Folder, results: int | None) -> None:
    """Deletes all but the newest `results` results; None: deletes nothing."""
    if results is not None:
        folder = output / "offsets"
        for name in folder.names()[:-results]:
            (folder / name).delete()


def report(rows: DataFrame, output: Folder, troubles: dict[str, str], demand: Demand, now_ms: int) -> JobOutcome:
    folder = output / "offsets" / f"part=r{now_ms}"
    rows.write.mode("overwrite").parquet(folder.uri)
    written = rows.sparkSession.read.parquet(folder.uri)
    counts = {row["how"]: row["count"] for row in written.groupBy("how").count().collect()}
    by_cluster = written.groupBy("cluster").agg(*(functions.expr(sql).alias(name) for name, sql in _SUMS.items()))
    clusters = {
        name: {**dict(zip(_SUMS, sums, strict=True)), "error": troubles.get(name)}
        for name, *sums in by_cluster.collect()
    }
    nothing = {"partitions": 0, "rate": 0.0, "last_known_only": 0}
    for name, why in troubles.items():
        clusters.setdefault(name, {**dict.fromkeys(_SUMS), **nothing, "error": why})
    # Furthest first: clients have to write the records between end and cut before the move is done.
    worst = written.orderBy(functions.expr("cut - end").desc_nulls_first()).limit(MAX_ROWS).collect()
    total = sum(counts.values())
    summary = {
        "job": "offsets",
        "run_ms": now_ms,
        "demand": demand._asdict(),
        "partitions": total,
        "how": counts,
        "clusters": clusters,
        "worst": [row.asDict() for row in worst[:WORST_CASES]],
        "path": folder.uri,
    }
    columns = (*_SHOWN[:4], "rate/s", "upper/s", *_SHOWN[6:], "end is", "first record", "newest")
    shown = [
        (
            *(row[name] for name in _SHOWN),
            "fresh" if row["fresh"] else "last known",
            *(ago(row[name], row["read_at_ms"]) for name in _TIMES),
        )
        for row in worst
    ]
    title = (
        f"Suggested cuts: {demand.preparation_s:g} s of preparation, passed too early in at most {demand.chance:.2%} of"
        " cases; the furthest first"
    )
    not_asked = (f"not asked: {why}" for why in troubles.values())
    return JobOutcome(summary, "\n".join([table(title, columns, shown, total), *not_asked]))


SHORTEST_WINDOW_MS = 1_000
"""Reads in faster succession are dropped: their rate is noise of the clock."""
_WINDOWS = """
WITH reads AS (
  SELECT *, `end` < lag(`end`) OVER IN_TIME AS shrank FROM {reads} WHERE read_at_ms IS NOT NULL AND `end` >= 0
), logs AS (
  SELECT *, count_if(shrank) OVER IN_TIME AS log,
    count_if(shrank) OVER (PARTITION BY cluster, topic, partition) AS newest
  FROM reads
), newest_log AS (
  SELECT *, read_at_ms - lag(read_at_ms) OVER IN_TIME AS since_ms FROM logs WHERE log = newest
), rated AS (
  SELECT *, (`end` - lag(`end`) OVER IN_TIME) * 1000D / (read_at_ms - lag(read_at_ms) OVER IN_TIME) AS rate
  FROM newest_log WHERE since_ms IS NULL OR since_ms >= {shortest_ms}
)
SELECT cluster, topic, partition, count(rate) AS windows,
  (max(`end`) - min(`end`)) * 1000D / nullif(max(read_at_ms) - min(read_at_ms), 0) AS mean,
  (max(read_at_ms) - min(read_at_ms)) / 1000D AS span_s,
  if(max(`end`) > min(`end`), min_by(read_at_ms, struct(-`end`, read_at_ms)), NULL) AS moved_at_ms,
  max(rate) AS highest, avg(rate) AS average, coalesce(stddev_samp(rate), 0D) AS deviation,
  get(sort_array(collect_list(rate)), int(RANK) - 1) AS ranked
FROM rated GROUP BY cluster, topic, partition HAVING windows > 0
"""
_IN_TIME = "(PARTITION BY cluster, topic, partition ORDER BY read_at_ms, `end`)"


def windows(reads: DataFrame, chance: float) -> DataFrame:
    """The fields of `spark_jobs.cuts.Windows` for each partition that has a window.

    An end that shrinks belongs to another log (the topic was re-created, or an unclean election truncated it): earlier
    reads say nothing about it.

    :param reads: cluster, topic, partition, read_at_ms, end; in any order, with duplicates and nulls.
    :param chance: accepted chance that a cut is passed too early.
    """
    query = _WINDOWS.replace("IN_TIME", _IN_TIME).replace("RANK", rank("count(rate)", chance))
    return reads.sparkSession.sql(query, reads=reads, shortest_ms=SHORTEST_WINDOW_MS)
