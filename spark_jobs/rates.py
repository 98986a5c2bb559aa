"""How fast logs grow: the windows between the reads of their ends, by Spark's window functions."""

from __future__ import annotations

from pyspark.sql import DataFrame

from spark_jobs.cuts import rank

SHORTEST_WINDOW_MS = 1_000
"""Reads that follow each other faster are left out: their rate is noise of the clock."""
_WINDOWS = """
WITH reads AS (
  SELECT *, `end` < lag(`end`) OVER in_time AS shrank
  FROM {reads} WHERE read_at_ms IS NOT NULL AND `end` >= 0
  WINDOW in_time AS (PARTITION BY cluster, topic, partition ORDER BY read_at_ms, `end`)
), logs AS (
  SELECT *, count_if(shrank) OVER in_time AS log,
    count_if(shrank) OVER (PARTITION BY cluster, topic, partition) AS newest
  FROM reads
  WINDOW in_time AS (PARTITION BY cluster, topic, partition ORDER BY read_at_ms, `end`)
), newest_log AS (
  SELECT *, read_at_ms - lag(read_at_ms) OVER in_time AS since_ms
  FROM logs WHERE log = newest
  WINDOW in_time AS (PARTITION BY cluster, topic, partition ORDER BY read_at_ms, `end`)
), rated AS (
  SELECT *, (`end` - lag(`end`) OVER in_time) * 1000D / (read_at_ms - lag(read_at_ms) OVER in_time) AS rate,
    max(`end`) OVER (PARTITION BY cluster, topic, partition) AS newest_end
  FROM newest_log WHERE since_ms IS NULL OR since_ms >= {shortest_ms}
  WINDOW in_time AS (PARTITION BY cluster, topic, partition ORDER BY read_at_ms, `end`)
), ranked AS (
  SELECT *, row_number() OVER (PARTITION BY cluster, topic, partition ORDER BY rate NULLS LAST) AS nth,
    count(rate) OVER (PARTITION BY cluster, topic, partition) AS windows
  FROM rated
)
SELECT cluster, topic, partition, first(windows) AS windows,
  (max(`end`) - min(`end`)) * 1000D / nullif(max(read_at_ms) - min(read_at_ms), 0) AS mean,
  (max(read_at_ms) - min(read_at_ms)) / 1000D AS span_s,
  if(max(`end`) > min(`end`), min(if(`end` = newest_end, read_at_ms, NULL)), NULL) AS moved_at_ms,
  max(rate) AS highest, avg(rate) AS average, coalesce(stddev_samp(rate), 0D) AS deviation,
  max(if(nth = RANK, rate, NULL)) AS ranked
FROM ranked WHERE windows > 0 GROUP BY cluster, topic, partition
"""


def windows(reads: DataFrame, chance: float) -> DataFrame:
    """The fields of `spark_jobs.cuts.Windows` of each partition that has a window.

    An end that shrinks belongs to another log (the topic was made anew, or an unclean election cut it): what was read
    before says nothing about it.

    :param reads: cluster, topic, partition, read_at_ms, end; in whatever order, some twice, some with nulls.
    :param chance: of a cut to be passed too early.
    """
    query = _WINDOWS.replace("RANK", rank("windows", chance))
    return reads.sparkSession.sql(query, reads=reads, shortest_ms=SHORTEST_WINDOW_MS)
