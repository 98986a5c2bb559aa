"""Growth rates of logs: the windows between the reads of their ends, by Spark's window functions."""

from __future__ import annotations

from pyspark.sql import DataFrame

from spark_jobs.cuts import rank

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
