"""What was learnt of all clusters, as Parquet that grows run by run.

    ROOT/{ends,specs,commits,looks}/day=2026-11-21/part=r1763748000000/…    one run
                                                  /part=c…                  a day's runs, merged
    ROOT/last/{…}/part=r…                                                   the newest known row of each key
    ROOT/last.json                                                          which of those is in force

A part is written whole; a run that was killed leaves one without `_SUCCESS`, which nobody reads. What a merged part has
taken in is named in its `_merged` and deleted a run later, so that readers never miss a file. Between the two a row may
be read twice: rows are told apart by key and `read_at_ms`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from spark_jobs.folder import Folder
from spark_jobs.rows import frame_of, spark_schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class EndRow(NamedTuple):
    cluster: str
    topic: str
    partition: int
    start: int
    end: int
    """Log end: all that was appended."""
    read_at_ms: int


class SpecRow(NamedTuple):
    cluster: str
    topic: str
    partitions: int
    replication: int
    config: str
    """JSON of what was set on the topic itself."""
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
    """How one run found one cluster."""

    cluster: str
    reached: bool
    topics: int
    partitions: int
    groups: int
    errors: int
    """0: the look is complete, so what it did not find does not exist."""
    error: str | None
    """The first of them."""
    read_at_ms: int


class Table(NamedTuple):
    name: str
    row: type[Any]
    key: tuple[str, ...]


ENDS = Table("ends", EndRow, ("cluster", "topic", "partition"))
SPECS = Table("specs", SpecRow, ("cluster", "topic"))
COMMITS = Table("commits", CommitRow, ("cluster", "group", "topic", "partition"))
LOOKS = Table("looks", LookRow, ("cluster",))
TABLES = (ENDS, SPECS, COMMITS, LOOKS)
WRITTEN = "_SUCCESS"
MERGED = "_merged"
_POINTER = "last.json"


def day_of(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d")


class Part(NamedTuple):
    """A folder of rows: one run (`r…`), or runs merged (`c…`), thinned as well (`t…`)."""

    day: str
    name: str
    folder: Folder

    @property
    def at_ms(self) -> int:
        return int(self.name[1:])

    @property
    def kind(self) -> str:
        return self.name[0]


class History:
    """The history below one folder."""

    def __init__(self, root: str) -> None:
        self.root = Folder(root)

    def days(self, table: Table) -> list[str]:
        return [name[4:] for name in (self.root / table.name).names() if name.startswith("day=")]

    def parts(self, table: Table, day: str) -> Iterator[Part]:
        """The parts that are whole."""
        folder = self.root / table.name / f"day={day}"
        for name in folder.names():
            if name.startswith("part=") and WRITTEN in (folder / name).names():
                yield Part(day, name[5:], folder / name)

    def write(self, table: Table, rows: DataFrame, run_ms: int, kind: str = "r", day: str | None = None) -> Folder:
        """Writes one part, in place of what an earlier attempt of the same run has left."""
        folder = self.root / table.name / f"day={day or day_of(run_ms)}" / f"part={kind}{run_ms}"
        _write(rows, table, folder)
        return folder

    def read(self, spark: SparkSession, table: Table, since_ms: int = 0) -> DataFrame:
        """Rows read at `since_ms` or later; some may come twice (see the module)."""
        first = day_of(max(0, since_ms - _LONGEST_RUN_MS))
        parts = [part.folder for day in self.days(table) if day >= first for part in self.parts(table, day)]
        return read_parts(spark, table, parts).where(f"read_at_ms >= {since_ms}")

    def last(self, spark: SparkSession, table: Table) -> DataFrame:
        """The newest known row of each key."""
        pointer = self._pointer()
        return read_parts(spark, table, [self.root / "last" / table.name / f"part=r{pointer}"] if pointer else [])

    def write_last(self, tables: dict[Table, DataFrame], run_ms: int) -> None:
        """Puts these rows in force, all tables at once, and deletes those before the previous ones."""
        before = self._pointer()
        for table, rows in tables.items():
            folder = self.root / "last" / table.name / f"part=r{run_ms}"
            _write(rows, table, folder)
        self.root.write_text(_POINTER, json.dumps({"run_ms": run_ms}))
        for table in tables:
            for name in (self.root / "last" / table.name).names():
                if name not in (f"part=r{run_ms}", f"part=r{before}"):
                    (self.root / "last" / table.name / name).delete()

    def _pointer(self) -> int | None:
        text = self.root.read_text(_POINTER)
        return int(json.loads(text)["run_ms"]) if text else None


_LONGEST_RUN_MS = 6 * 3600 * 1000
"""A run's rows lie under the day of its beginning."""


def _write(rows: DataFrame, table: Table, folder: Folder) -> None:
    """In as few files as Spark thinks right for the size."""
    rows.hint("rebalance").sortWithinPartitions(*table.key).write.mode("overwrite").parquet(folder.uri)


def read_parts(spark: SparkSession, table: Table, folders: list[Folder]) -> DataFrame:
    """Rows of the parts in these folders, with the table's columns alone."""
    if not folders:
        return frame_of(spark, table.row, [])
    return spark.read.schema(spark_schema(table.row)).parquet(*(folder.uri for folder in folders))
