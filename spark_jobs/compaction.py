"""Keeps the history small: runs of a day merged, old days thinned, older ones deleted.

Thinning drops a row that says the same as the row before and the row after it. The log ends of a partition that stood
still keep the first and the last such read, so nothing that can be computed of ends over time is lost. Days that rates
are taken from are not thinned: there every read counts as one window.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession, Window, functions

from spark_jobs.history import MERGED, TABLES, History, Part, Table, day_of, read_parts
from spark_jobs.rows import spark_schema

_DAY_MS = 24 * 3600 * 1000


class Keep(NamedTuple):
    """How much of the history stays, and in which shape."""

    days: int = 30
    """Older ones are deleted."""
    whole_days: int = 2
    """Days before today that stay unthinned: at least as many as the window of rates has."""
    parts: int = 24
    """Today's runs are merged when there are more."""


DEFAULT = Keep()


def thinned(rows: DataFrame, table: Table) -> DataFrame:
    """Without doubled rows, and without those that say what their neighbours in time say."""
    columns = [name.split("`")[1] for name in spark_schema(table.row).split(", ")]
    said = functions.struct(*(functions.col(name) for name in columns if name not in (*table.key, "read_at_ms")))
    line = Window.partitionBy(*table.key).orderBy("read_at_ms")
    once = rows.dropDuplicates([*table.key, "read_at_ms"]).withColumn("said", said)
    beside = once.withColumn("before", functions.lag("said").over(line)).withColumn(
        "after", functions.lead("said").over(line)
    )
    dull = functions.col("said").eqNullSafe(functions.col("before")) & functions.col("said").eqNullSafe(
        functions.col("after")
    )
    return beside.where(~dull).select(*columns)


def compact(spark: SparkSession, history: History, now_ms: int, keep: Keep = DEFAULT) -> dict[str, int]:
    """Merges, thins and deletes what is due; returns how many parts and days. Killed anywhere, a rerun goes on."""
    done = {"parts_merged": 0, "parts_deleted": 0, "days_deleted": 0}
    today, oldest = day_of(now_ms), day_of(now_ms - keep.days * _DAY_MS)
    whole_from = day_of(now_ms - keep.whole_days * _DAY_MS)
    for table in TABLES:
        for day in history.days(table):
            if day < oldest:
                (history.root / table.name / f"day={day}").delete()
                done["days_deleted"] += 1
                continue
            parts = list(history.parts(table, day))
            gone = _replaced(parts)
            done["parts_deleted"] += len(gone)
            for part in gone:
                part.folder.delete()
            left = [part for part in parts if part not in gone]
            thin = day < whole_from
            due = len(left) > (keep.parts if day == today else 1) or (thin and any(one.kind != "t" for one in left))
            if left and due:
                _merge(spark, history, table, day, left, now_ms, thin)
                done["parts_merged"] += len(left)
    return done


def _replaced(parts: list[Part]) -> list[Part]:
    """Those that a merged part of an earlier run has taken in."""
    names: set[str] = set()
    for part in parts:
        if part.kind != "r" and (text := part.folder.read_text(MERGED)):
            names.update(json.loads(text))
    return [part for part in parts if part.name in names]


def _merge(
    spark: SparkSession, history: History, table: Table, day: str, parts: list[Part], now_ms: int, thin: bool
) -> None:
    rows = read_parts(spark, table, [part.folder for part in parts])
    rows = thinned(rows, table) if thin else rows.dropDuplicates([*table.key, "read_at_ms"])
    folder = history.write(table, rows, now_ms, kind="t" if thin else "c", day=day)
    folder.write_text(MERGED, json.dumps([part.name for part in parts]))
