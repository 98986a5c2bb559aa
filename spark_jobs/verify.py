"""Job `verify`: compares copies with their sources, range by range, on the executors.

`ha_core.mirror.comparing` says what is compared and how; this job spreads it. An executor reads both clusters itself,
so records pass through nothing else, and none of them is written down.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import NamedTuple, Self

from pyspark.sql import DataFrame, functions

from ha_core.kafka.admin import Admin
from ha_core.kafka.errors import KafkaAdminError
from ha_core.kafka.verifying import Coverage, PartitionRanges, compare, plan
from ha_core.mirror.key_states import Compacted
from ha_core.mirror.partition_diff import Range
from ha_core.mirror.progress import CopyDamagedError
from ha_core.model import Mirror, Run
from ha_core.wire.errors import RemoteProtocolError
from spark_jobs.broker_queries import HOPELESS, Reach
from spark_jobs.folder import Folder
from spark_jobs.questions import Questions
from spark_jobs.report import MAX_ROWS, JobOutcome, table
from spark_jobs.rows import frame_of

WORST_CASES = 10
_PARTITION = ("source", "target", "topic", "partition")
_ERRORS = (KafkaAdminError, CopyDamagedError, RemoteProtocolError)


class MirrorAsked(NamedTuple):
    """A mirror as it is stored, and the fields of a `Coverage`."""

    mirror: str
    share: float
    seed: int
    records: int


class PlannedRange(NamedTuple):
    """A range to compare; or, with `start` null, the facts about a partition before any comparison.

    A mirror that could not be planned is a row with an error and without partition.
    """

    source: str
    target: str
    topic: str
    partition: int | None = None
    start: int | None = None
    end: int | None = None
    target_start: int = 0
    target_end: int = 0
    base: int = 0
    source_base: int = 0
    source_compacted: bool = False
    copy_compacted: bool = False
    apart: bool = False
    most_bytes: int | None = None
    outlived: bool = False
    run_sources: Sequence[int] = ()
    run_targets: Sequence[int] = ()
    run_records: Sequence[int] = ()
    gone_in_source: int = 0
    gone_in_copy: int = 0
    lacking: int = 0
    behind: int = 0
    of: int = 0
    """Number of ranges of the partition."""
    first_difference: int | None = None
    in_copy: int | None = None
    difference: str | None = None
    error: str | None = None


class RangeCompared(NamedTuple):
    """Result of a range; or, with `start` null, the facts about its partition before any comparison."""

    source: str
    target: str
    topic: str
    partition: int | None
    start: int | None
    end: int | None
    compared: int = 0
    gone_in_source: int = 0
    gone_in_copy: int = 0
    lacking: int = 0
    """Those below the log start of the copy."""
    read: int = 0
    behind: int = 0
    of: int = 0
    first_difference: int | None = None
    in_copy: int | None = None
    difference: str | None = None
    error: str | None = None


HOPELESS_S = 60.0
"""How long to skip a cluster that did not answer: a task may have a whole fleet to go through, and by then a stalled
broker is back."""


class _Clusters(ExitStack):
    """Admins, opened at first use. An unreachable cluster is tried again after `HOPELESS_S`."""

    def __init__(self, reach: Reach) -> None:
        super().__init__()
        self._reach = reach
        self._admins: dict[str, Admin] = {}
        self._hopeless: dict[str, tuple[KafkaAdminError, float]] = {}
        """With the time of the error."""

    def __enter__(self) -> Self:
        return self

    def __getitem__(self, name: str) -> Admin:
        if name in self._hopeless:
            error, found_s = self._hopeless[name]
            if time.monotonic() - found_s < HOPELESS_S:
                raise error
            del self._hopeless[name]
            self._admins.pop(name, None)  # closed with the others
        if name not in self._admins:
            self._admins[name] = self.enter_context(self._reach.open(name))
        return self._admins[name]

    def words(self, error: Exception) -> str:
        if isinstance(error, HOPELESS):
            self._hopeless.setdefault(error.cluster, (error, time.monotonic()))
        return str(error)


def plan_mirrors(reach: Reach, rows: Iterable[MirrorAsked]) -> Iterator[PlannedRange]:
    """The ranges and known facts of each mirror."""
    with _Clusters(reach) as clusters:
        for row in rows:
            mirror = Mirror.parse(row.mirror.encode())
            place = (mirror.source, mirror.target, mirror.topic)
            try:
                plans = plan(clusters[mirror.source], clusters[mirror.target], mirror, Coverage(*row[1:]))
            except _ERRORS as error:
                yield PlannedRange(*place, error=clusters.words(error))
                continue
            for ranges in plans:
                planned_range = PlannedRange(
                    *place,
                    ranges.partition,
                    source_compacted=ranges.compacted.source,
                    copy_compacted=ranges.compacted.copy,
                    apart=ranges.apart,
                    most_bytes=ranges.most_bytes,
                    outlived=ranges.outlived,
                )
                yield from _planned(planned_range, ranges)


def _planned(row: PlannedRange, ranges: PartitionRanges) -> Iterator[PlannedRange]:
    yield row._replace(
        gone_in_source=ranges.gone_in_source,
        gone_in_copy=ranges.before_reading.gone_in_copy,
        lacking=ranges.before_reading.lacking,
        behind=ranges.not_copied,
        of=ranges.of,
        first_difference=ranges.damage and ranges.damage.offset,
        in_copy=ranges.damage and ranges.damage.target,
        difference=ranges.damage and ranges.damage.what,
    )
    for span in ranges.ranges:
        yield row._replace(
            start=span.start,
            end=span.end,
            target_start=span.target_start,
            target_end=span.target_end,
            base=span.base,
            source_base=span.source_base,
            run_sources=[run.source for run in span.runs],
            run_targets=[run.target for run in span.runs],
            run_records=[run.records for run in span.runs],
        )


def compare_ranges(reach: Reach, rows: Iterable[PlannedRange]) -> Iterator[RangeCompared]:
    with _Clusters(reach) as clusters:
        for row in rows:
            assert row.partition is not None
            assert row.start is not None
            assert row.end is not None
            nothing = RangeCompared(*row[:6])
            runs = tuple(map(Run, row.run_sources, row.run_targets, row.run_records))
            span = Range(row.start, row.end, row.target_start, row.target_end, runs, row.base, row.source_base)
            key, compacted = (row.topic, row.partition), Compacted(row.source_compacted, row.copy_compacted)
            try:
                comparison = compare(
                    *(clusters[row.source], clusters[row.target], key, span, compacted),
                    apart=row.apart,
                    most_bytes=row.most_bytes,
                    outlived=row.outlived,
                )
            except _ERRORS as error:
                yield nothing._replace(error=clusters.words(error))
                continue
            yield nothing._replace(
                compared=comparison.compared,
                gone_in_source=comparison.gone_in_source,
                gone_in_copy=comparison.gone_in_copy,
                lacking=comparison.lacking,
                read=comparison.read,
                first_difference=comparison.first and comparison.first.offset,
                in_copy=comparison.first and comparison.first.target,
                difference=comparison.first and comparison.first.what,
            )


def pipeline(ask: Questions, mirrors: Iterable[Mirror], extent: Coverage) -> DataFrame:
    """`RangeCompared` rows of all mirrors."""
    chosen = (extent.share, extent.seed, extent.records)
    rows = (MirrorAsked(mirror.to_bytes().decode(), *chosen) for mirror in mirrors)
    planned = ask(plan_mirrors, frame_of(ask.spark, MirrorAsked, rows))
    compared = ask(compare_ranges, planned.where("start is not null"))
    known = planned.where("start is null").selectExpr(
        *("source", "target", "topic", "partition", "start", "end", "0L as compared", "gone_in_source"),
        *("gone_in_copy", "lacking", "0L as read", "behind", "of"),
        *("first_difference", "in_copy", "difference", "error"),
    )
    return known.unionByName(compared)


_SUMS: Mapping[str, str] = {
    "compared": "sum(compared)",
    "gone_in_source": "sum(gone_in_source)",
    "gone_in_copy": "sum(gone_in_copy)",
    "lacking": "sum(lacking)",
    "read": "sum(read)",
    "behind": "sum(behind)",
    "ranges": "count(start)",
    "of_ranges": "sum(of)",
}
_FIRST: Mapping[str, str] = {
    "difference": "min_by(difference, first_difference)",
    "in_copy": "min_by(in_copy, first_difference)",
    "first_difference": "min(first_difference)",
    "error": "first(error, true)",
}


_NOTHING = "nothing compared"
_WHY = f"""case
    when difference is not null or error is not null then coalesce(difference, error)
    when lacking > 0 then concat('lacks ', format_number(lacking, 0), ' records of its source')
    when compared = 0 and (behind > 0 or ranges < of_ranges) then '{_NOTHING}'
end"""
"""The problem of a partition, like `state_of` of `ha_core.operations.copies.comparing`; null: none."""
_WRONG: Mapping[str, str] = {
    "differing": "count_if(first_difference is not null)",
    "failed": "count_if(error is not null)",
    "incomplete": "count_if(first_difference is null and error is null and lacking > 0)",
    "not_compared": f"count_if(why = '{_NOTHING}')",
}


def _summed(rows: DataFrame, *by: str, **more: str) -> DataFrame:
    columns = (functions.expr(sql).alias(name) for name, sql in {**_SUMS, **more}.items())
    return rows.groupBy(*by).agg(*columns)


def report(rows: DataFrame, output: Folder, extent: Coverage, now_ms: int) -> JobOutcome:
    """Writes the result of each range, and sums it up by partition."""
    folder = output / "verify" / f"part=r{now_ms}"
    rows.write.mode("overwrite").parquet(folder.uri)
    written = rows.sparkSession.read.parquet(folder.uri)
    partitions = _summed(written, *_PARTITION, **_FIRST).withColumn("why", functions.expr(_WHY))
    (totals,) = _summed(written).collect()
    counted = {"rows": "count(1)", "partitions": "count_if(partition is not null)", **_WRONG}
    (counts,) = partitions.agg(*(functions.expr(sql).alias(name) for name, sql in counted.items())).collect()
    wrong = {name: counts[name] for name in _WRONG}
    # Differences first: partitions that could not be read can be verified again.
    good_last = (functions.expr(f"{name} is null") for name in ("first_difference", "error", "why"))
    worst = partitions.orderBy(*good_last, *_PARTITION).limit(MAX_ROWS).collect()
    bad = [row for row in worst if row["why"]]
    sample = {"share": extent.share, "seed": extent.seed} if extent.sampled else None
    summary = {
        "job": "verify",
        "run_ms": now_ms,
        "equal": not any(wrong.values()),
        "partitions": counts["partitions"],
        **wrong,
        "sample": sample,
        **{name: totals[name] or 0 for name in _SUMS},
        "worst": [row.asDict() for row in bad[:WORST_CASES]],
        "path": folder.uri,
    }
    words = "equal"
    if not summary["equal"]:
        words = f"{wrong['differing']} different, {wrong['failed']} could not be compared"
        words += f", {wrong['incomplete']} lack records of their sources" if wrong["incomplete"] else ""
        words += f", {wrong['not_compared']} not compared at all" if wrong["not_compared"] else ""
    of = f"a sample of {extent.share:.1%} by seed {extent.seed}" if sample else "all records"
    title = f"{counts['partitions']:,} mirrored partitions, {of}: {words}"
    gone = ("gone in source", "gone in copy")
    columns = (*_PARTITION, "compared", "first difference", "why", "ranges", "of", *gone, "behind")
    shown = [
        (
            *(row[name] for name in _PARTITION),
            row["compared"],
            row["first_difference"],
            row["why"],
            *(row[name] for name in ("ranges", "of_ranges", "gone_in_source", "gone_in_copy", "behind")),
        )
        for row in worst
    ]
    return JobOutcome(summary, table(title, columns, shown, counts["rows"]))
