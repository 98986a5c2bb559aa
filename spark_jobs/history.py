"""The recorded facts of all clusters, as Parquet that grows run by run.

    ROOT/{ends,specs,commits,looks}/day=2026-11-21/part=r1763748000000/…    one run
                                                  /part=c…                  a day's runs, merged
    ROOT/last/{…}/part=r…                                                   the newest known row of each key
    ROOT/last.json                                                          the run whose parts are in force

A part is written whole; a killed run leaves one without `_SUCCESS`, which readers ignore. A merged part lists its
sources in `_merged`, and they are deleted a run later, so that readers never miss a file. In between a row may be read
twice: key and `read_at_ms` identify it.

Days from which rates are taken are not thinned: there every read counts as one window.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession, Window, functions

from spark_jobs.folder import Folder
from spark_jobs.rows import frame_of, spark_schema


class EndRow(NamedTuple):
    cluster: str
    topic: str
    partition: int
    start: int
    end: int
    """Log end, including records that are not replicated yet."""
    read_at_ms: int


class SpecRow(NamedTuple):
    cluster: str
    topic: str
    partitions: int
    replication: int
    config: str
    """JSON of the topic's own settings."""
    read_at_ms: int


class CommitRow(NamedTuple):
    cluster: str
    group: str
    live: bool
    topic: str | None
    partition: int | None
    """Both null: the group has committed nothing."""
    offset: int | None
    read_at_ms: int


class LookRow(NamedTuple):
    """Result of one run for one cluster."""

    cluster: str
    reached: bool
    topics: int
    partitions: int
    groups: int
    errors: int
    """0: the look is complete, so anything that it lacks does not exist."""
    error: str | None
    """The first error."""
    read_at_ms: int


class HistoryTable(NamedTuple):
    name: str
    row: type[Any]
    key: tuple[str, ...]


ENDS = HistoryTable("ends", EndRow, ("cluster", "topic", "partition"))
SPECS = HistoryTable("specs", SpecRow, ("cluster", "topic"))
COMMITS = HistoryTable("commits", CommitRow, ("cluster", "group", "topic", "partition"))
LOOKS = HistoryTable("looks", LookRow, ("cluster",))
TABLES = (ENDS, SPECS, COMMITS, LOOKS)
WRITTEN = "_SUCCESS"
MERGED = "_merged"
_POINTER = "last.json"
_DAY_MS = 24 * 3600 * 1000


def day_of(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d")


class HistoryPart(NamedTuple):
    """A folder of rows: one run (`r…`), merged runs (`c…`), or merged and thinned ones (`t…`)."""

    name: str
    folder: Folder

    @property
    def kind(self) -> str:
        return self.name[0]


class FactHistory:
    def __init__(self, root: str) -> None:
        self.root = Folder(root)

    def days(self, table: HistoryTable) -> list[str]:
        return [name[4:] for name in (self.root / table.name).names() if name.startswith("day=")]

    def parts(self, table: HistoryTable, day: str) -> Iterator[HistoryPart]:
        """Complete parts."""
        folder = self.root / table.name / f"day={day}"
        for name in folder.names():
            if name.startswith("part=") and WRITTEN in (folder / name).names():
                yield HistoryPart(name[5:], folder / name)

    def write(
        self, table: HistoryTable, rows: DataFrame, run_ms: int, kind: str = "r", day: str | None = None
    ) -> Folder:
        """Writes one part; replaces that of an earlier attempt of this run."""
        folder = self.root / table.name / f"day={day or day_of(run_ms)}" / f"part={kind}{run_ms}"
        _write(rows, table, folder)
        return folder

    def read(self, spark: SparkSession, table: HistoryTable, since_ms: int = 0) -> DataFrame:
        """Rows read at `since_ms` or later; some may come twice (see the module)."""
        first = day_of(max(0, since_ms - _LONGEST_RUN_MS))
        parts = [part.folder for day in self.days(table) if day >= first for part in self.parts(table, day)]
        return read_parts(spark, table, parts).where(f"read_at_ms >= {since_ms}")

    def last(self, spark: SparkSession, table: HistoryTable) -> DataFrame:
        pointer = self._pointer()
        return read_parts(spark, table, [self.root / "last" / table.name / f"part=r{pointer}"] if pointer else [])

    def write_last(self, tables: dict[HistoryTable, DataFrame], run_ms: int) -> None:
        """Puts these rows in force, all tables at once, and deletes those before the previous ones."""
        before = self._pointer()
        for table, rows in tables.items():
            _write(rows, table, self.root / "last" / table.name / f"part=r{run_ms}")
        self.root.write_text(_POINTER, [json.dumps({"run_ms": run_ms})])
        for folder in (self.root / "last" / table.name for table in tables):
            for name in folder.names():
                if name not in (f"part=r{run_ms}", f"part=r{before}"):
                    (folder / name).delete()

    def _pointer(self) -> int | None:
        text = self.root.read_text(_POINTER)
        return int(json.loads(text)["run_ms"]) if text else None


_LONGEST_RUN_MS = 6 * 3600 * 1000
"""A run's rows are stored under the day on which it began."""


def _write(rows: DataFrame, table: HistoryTable, folder: Folder) -> None:
    """Writes as few files as Spark thinks right for the size."""
    rows.hint("rebalance").sortWithinPartitions(*table.key).write.mode("overwrite").parquet(folder.uri)


def read_parts(spark: SparkSession, table: HistoryTable, folders: list[Folder]) -> DataFrame:
    if not folders:
        return frame_of(spark, table.row, [])
    return spark.read.schema(spark_schema(table.row)).parquet(*(folder.uri for folder in folders))


class Keep(NamedTuple):
    """How much of the history is kept, and in which form."""

    days: int = 30
    """Older ones are deleted."""
    whole_days: int = 2
    """Days before today that stay unthinned: at least the window of rates."""
    parts: int = 24
    """Today's runs are merged above this number."""


DEFAULT = Keep()


def thinned(rows: DataFrame, table: HistoryTable) -> DataFrame:
    """Removes duplicates, and rows equal to both of their neighbours in time."""
    contents = functions.struct(*(name for name in table.row._fields if name not in (*table.key, "read_at_ms")))
    line = Window.partitionBy(*table.key).orderBy("read_at_ms")
    once = rows.dropDuplicates([*table.key, "read_at_ms"]).withColumn("contents", contents)
    beside = once.withColumn("before", functions.lag("contents").over(line))
    beside = beside.withColumn("after", functions.lead("contents").over(line))
    return beside.where("not (contents <=> before and contents <=> after)").select(*table.row._fields)


def compact(spark: SparkSession, history: FactHistory, now_ms: int, keep: Keep = DEFAULT) -> dict[str, int]:
    """Merges, thins and deletes what is due; returns how many parts and days. After a kill, a rerun continues."""
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
            due = len(left) > (keep.parts if day == today else 1) or (
                thin and any(history_part.kind != "t" for history_part in left)
            )
            if left and due:
                _merge(spark, history, table, day, left, now_ms, thin)
                done["parts_merged"] += len(left)
    return done


def _replaced(parts: list[HistoryPart]) -> list[HistoryPart]:
    """Parts that a merged part of an earlier run contains."""
    texts = (part.folder.read_text(MERGED) for part in parts if part.kind != "r")
    names = {name for text in texts if text for name in json.loads(text)}
    return [part for part in parts if part.name in names]


def _merge(
    spark: SparkSession,
    history: FactHistory,
    table: HistoryTable,
    day: str,
    parts: list[HistoryPart],
    now_ms: int,
    thin: bool,
) -> None:
    rows = read_parts(spark, table, [part.folder for part in parts])
    rows = thinned(rows, table) if thin else rows.dropDuplicates([*table.key, "read_at_ms"])
    folder = history.write(table, rows, now_ms, kind="t" if thin else "c", day=day)
    folder.write_text(MERGED, [json.dumps([part.name for part in parts])])
